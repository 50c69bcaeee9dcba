"""The paper's tables and two of our own, read from `tables.yaml`. Start at `TABLES`.

Each row in that file belongs to a task. It has fields of `Row`, and one of these:

    network   the fields of a Hadamard network, whose size and bits the row shows; optionally `learning_rate`
    best      changes to the network of the task's preset best; optionally `task_options`, or `held_out`,
              groups of people: one row for each, validated on that group
    model     the name of a competitor, with `hidden_size` and `bits` (of W, of U and V, of activations) if
              the table has them; `trained` is its kind in `baselines.networks` if it runs here too

Nothing here imports torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from hadamrnn.network import hadamard
from hadamrnn.settings import from_json
from hadamrnn.training.config import resolve_config
from hadamrnn_paper.rows import ADDED, Row, Setup, Table, Task, baseline, setup

SOURCE = Path(__file__).with_name("tables.yaml")
BITS = ("recurrent_bits", "weight_bits", "activations")


def read_row(table: str, task: str, given: Mapping[str, Any]) -> Row:
    """Build a table's row for a task from its entry in `tables.yaml`."""
    cells = {"published": "", **given, "table": table, "task": task, "note": _note(given)}
    if "network" in cells:
        chosen = setup(task, **cells.pop("network"), learning_rate=cells.pop("learning_rate", None))
        cells = {**_hadamard_cells(chosen, cells), **cells, "setup": chosen}
    elif "best" in cells:
        options = cells.pop("task_options", {})
        chosen, name = _best(task, cells.pop("best"), options, cells["activation_bits"])
        cells = {**_hadamard_cells(chosen, cells), **cells, "setup": chosen, "model": name}
    else:
        cells.update(zip(BITS, cells.pop("bits", "").split(), strict=False))
        kind = cells.pop("trained", None)
        if kind is not None:
            bits = int(cells["weight_bits"]) if cells["weight_bits"].isdecimal() else None
            cells["setup"] = baseline(task, kind, cells["hidden_size"], bits)
    return from_json(Row, cells, SOURCE)


def _hadamard_cells(chosen: Setup, cells: Mapping[str, Any]) -> dict[str, Any]:
    network = hadamard(chosen.network)
    name, recurrent_bits = ("HadamRNN", "1") if network.num_blocks == 1 else ("Block-HadamRNN", "ternary")
    return {
        "model": name if network.input_bias else f"{name} without b_i",
        "hidden_size": network.hidden_size,
        "recurrent_bits": recurrent_bits,
        "weight_bits": str(network.weight_bits),
        "activations": str(cells.get("activation_bits", "FP")),
    }


def _best(task: str, settings: dict[str, Any], task_options: dict[str, Any], bits: int) -> tuple[Setup, str]:
    """Return the network of preset `best` with these changes and `bits`-bit states, and its name."""
    config = resolve_config(task, preset="best", overrides=settings)
    network = replace(hadamard(config.network), activation_bits=bits)
    added = tuple(name for name in ADDED.get(task, {}) if config.task_options.get(name))
    parts = [f"{network.num_layers} leaky layers", " and ".join(network.readouts)]
    parts += ["skips"] if network.skip else []
    parts += [] if network.input_bias else ["without b_i"]
    parts += [ADDED[task][option].words for option in added]
    parts += ["people swapped"] if task_options.get("swap") else []
    return Setup(task, network, task_options=task_options, added=added), ", ".join(parts)


def _note(given: Mapping[str, Any]) -> str:
    """Return the note of a task, table or row; a list of texts is joined."""
    note = given.get("note", "")
    return note if isinstance(note, str) else " ".join(note)


def _rows(table: str, by_task: Mapping[str, Any]) -> tuple[Row, ...]:
    return tuple(
        read_row(table, task, fold) for task, rows in by_task.items() for row in rows for fold in _folds(row)
    )


def _folds(given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the row itself, or one for each group of people that `held_out` lists."""
    row = {name: value for name, value in given.items() if name != "held_out"}
    if "held_out" not in given:
        return [row]
    return [{**row, "task_options": {"left_out": group}} for group in given["held_out"]]


def _table(name: str, given: Mapping[str, Any]) -> Table:
    values = {"label": "", **given, "name": name, "note": _note(given), "rows": _rows(name, given["rows"])}
    return from_json(Table, values, SOURCE)


_FILE = yaml.safe_load(SOURCE.read_text(encoding="utf-8"))
TASKS: dict[str, Task] = {
    name: from_json(Task, {**given, "name": name, "note": _note(given)}, SOURCE)
    for name, given in _FILE["tasks"].items()
}
TABLES: dict[str, Table] = {name: _table(name, given) for name, given in _FILE["tables"].items()}
# The rows of two tables that reuse runs of the others (hours of training; alpha_W alpha_h = 2^n_h), and the
# cross-validation that selects between networks whose preset also trains on the validation people.
TRAINING_TIMES, SCALES, SELECTION = (
    _rows(name, _FILE["derived"][name]) for name in ("times", "scales", "selection")
)
COMPLEXITY: list[list[str]] = _FILE["complexity"]
RECURRENT_SCALES: dict[int, str] = _FILE["recurrent_scales"]

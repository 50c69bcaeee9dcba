"""Store a run's checkpoint in one safetensors file: tensors, and counters as JSON in the header.

The file is replaced atomically, so it is always complete. It has no random generator state, because
`hadamrnn.training.schedule` derives all random numbers from the seed and the step.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import torch
from safetensors.torch import save
from torch import Tensor, nn

from hadamrnn.files import parse_json, read_sealed, seal, write_atomically
from hadamrnn.nn.storage import check_owner, check_tensors, parse_tensors
from hadamrnn.settings import Range, from_json

FORMAT = "hadamrnn checkpoint"
VERSION = "2"
NaturalNumber = Annotated[int, Range(0, 2**63 - 1)]
MOMENTS = ("step", "exp_avg", "exp_avg_sq")


@dataclass
class Counters:
    """The progress of a run.

    `loss_sum` and `flips` are sums since the last row of metrics.jsonl. The watched metric must fall below
    `level` to count as progress; `idle` counts the rows without progress.
    """

    step: NaturalNumber = 0
    loss_sum: float = 0.0
    flips: NaturalNumber = 0
    seconds: float = 0.0
    best_metric: float | None = None
    best_step: NaturalNumber = 0
    metrics_bytes: NaturalNumber = 0
    level: float | None = None
    idle: int = 0
    metrics_sha256: str | None = None


def write_checkpoint(
    path: Path, groups: Mapping[str, Mapping[str, Tensor]], counters: Counters, run: str = ""
) -> None:
    """Replace the checkpoint at `path` by these groups of named tensors and a run's counters."""
    tensors = {
        f"{group}/{name}": tensor.detach().contiguous()
        for group, members in groups.items()
        for name, tensor in members.items()
    }
    header = {"format": FORMAT, "version": VERSION, "counters": json.dumps(asdict(counters)), "run": run}
    write_atomically(path, seal(save(tensors, header)))


def read_checkpoint(path: Path, run: str | None = None) -> tuple[dict[str, dict[str, Tensor]], Counters]:
    """Read the groups and counters of a checkpoint; refuse the checkpoint of another run."""
    header, content = read_sealed(path, FORMAT, VERSION, "Resume with the release that wrote it.")
    if run is not None:
        check_owner(header, run, path)
    groups: dict[str, dict[str, Tensor]] = {}
    for key, tensor in parse_tensors(content, path).items():
        group, _, name = key.partition("/")
        groups.setdefault(group, {})[name] = tensor
    return groups, from_json(Counters, parse_json(header.get("counters", "null"), path), path)


def check_fits(
    groups: Mapping[str, Mapping[str, Tensor]], model: nn.Module, path: Path, average: nn.Module | None = None
) -> None:
    """Refuse a checkpoint whose tensors differ from those of the model or its average in name or form."""
    state = model.state_dict()
    check_tensors(groups.get("model", {}), state, path)
    check_tensors(groups.get("average", {}), {} if average is None else average.state_dict(), path)
    if "best" in groups:
        check_tensors(groups["best"], state, path)
    for moment in MOMENTS[1:]:
        found = groups.get(f"adam_{moment}", {})
        expected = {name: parameter for name, parameter in model.named_parameters() if name in found}
        check_tensors(found, expected, path)


def adam_tensors(optimizer: torch.optim.Adam, model: nn.Module) -> dict[str, dict[str, Tensor]]:
    """Return Adam's state by parameter name, in one group for each moment."""
    states = {name: optimizer.state.get(parameter, {}) for name, parameter in model.named_parameters()}
    return {
        f"adam_{moment}": {name: state[moment] for name, state in states.items() if state}
        for moment in MOMENTS
    }


def restore_adam(
    optimizer: torch.optim.Adam, model: nn.Module, groups: Mapping[str, Mapping[str, Tensor]]
) -> None:
    """Restore the state that `adam_tensors` returned."""
    for name, parameter in model.named_parameters():
        found = {moment: groups.get(f"adam_{moment}", {}).get(name) for moment in MOMENTS}
        state = {moment: tensor for moment, tensor in found.items() if tensor is not None}
        if state:
            optimizer.state[parameter] = state

"""`hadamrnn predict`: predict labels or values for a user's own arrays or recordings."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hadamrnn.cli.arguments import (
    LAYOUT_HELP,
    JsonOption,
    check_output,
    check_unused,
    command,
    positional,
    set_threads,
)
from hadamrnn.errors import InputError, printable
from hadamrnn.settings import Threads, option

if TYPE_CHECKING:
    from hadamrnn.quantization.results import Predictions


@dataclass(frozen=True, kw_only=True)
class PredictOptions(JsonOption):
    run_folder: Path = positional("RUN", "folder that `hadamrnn train` wrote")
    data: Path = positional(
        "FILE", "npz file with an array x (and lengths, if samples differ in length), or recordings"
    )
    integer: bool = option(False, "use the integer network that `hadamrnn quantize` wrote")
    layout: Literal["time-first", "channels-first"] | None = option(None, LAYOUT_HELP)
    out: Path | None = option(
        None,
        "file to write: .csv, or .npz with arrays prediction and logits, and files and row for recordings "
        "(default: print)",
    )
    force: bool = option(False, "replace the file of --out")
    threads: Threads | None = option(None, "CPU threads (default: torch's choice)")


@command(
    help="predict labels or values for your own arrays or recordings",
    description="Print the predictions of a run's best model for recordings, which are cut into windows as "
    "in training, or for the arrays of an npz file: x of shape (n, time, channels) or (n, time), and "
    "optionally lengths (n,). Values have the units of the training data: raw sensor values if the task "
    "standardises them; integers 0..255 or floats 0..1 for MNIST (for pmnist in its permuted order); ids for "
    "text.",
    examples=(
        "hadamrnn predict runs/mine data.npz --out predictions.npz",
        "hadamrnn predict runs/log new.csv --integer --out predictions.csv",
    ),
)
def run(args: PredictOptions) -> None:
    from hadamrnn.estimators.detector_folder import is_detector
    from hadamrnn.run import Run

    _check_out(args)
    set_threads(args.threads)
    if is_detector(args.run_folder):
        _show(args, _predict_detector(args))
        return
    opened = Run.open(args.run_folder)
    if opened.config.task == "recordings":
        check_unused(args, "on recordings", "layout")
    how: dict[str, Any] = {"layout": args.layout, "integer": args.integer, "threads": args.threads}
    _show(args, opened.predict(args.data, **how))


def _predict_detector(args: PredictOptions) -> Predictions:
    """Return the prediction for every row, with its position and its score `(rows, 1)`."""
    from hadamrnn.estimators.detector_folder import DetectorFolder
    from hadamrnn.quantization.results import Predictions

    check_unused(args, "on an anomaly detector", "layout")
    judged = DetectorFolder.open(args.run_folder).judge(args.data)
    values = ["anomaly" if alarm else "normal" for alarm in judged.alarms.tolist()]
    places = {"file": judged.files, "row": judged.rows, "score": judged.scores.tolist()}
    return Predictions(values, judged.scores[:, None], places, saturation=None)


def _show(args: PredictOptions, found: Predictions) -> None:
    """Write or print predictions."""
    values, places, saturated = found.values, found.places, found.saturation
    if found.note:
        print(f"note: {found.note}", file=sys.stderr)
    if args.out is not None:
        _write(args.out, found)
    if args.json:
        counts = {} if saturated is None else saturated.figures()
        print(json.dumps({"predictions": values, **places, **counts}))
    elif args.out is not None:
        remark = "" if saturated is None else f" ({saturated})"
        print(f"{len(values):,} predictions: {args.out}{remark}")
    else:
        sys.stdout.write(_table(places, values, "\t") if places else _plain(values))
        if saturated is not None:
            print(saturated, file=sys.stderr)


def _check_out(args: PredictOptions) -> None:
    if args.out is None:
        return
    if args.out.suffix.lower() not in (".csv", ".npz"):
        raise InputError(f"--out must name a .csv or .npz file, got {args.out}.")
    check_output("--out", args.out)
    if not args.out.exists():
        return
    if args.data.exists() and args.out.samefile(args.data):
        raise InputError(f"--out must not be the file that is read, got {args.out}. Name another.")
    if not args.force:
        raise InputError(f"--out must name a new file, {args.out} exists. Name another, or add --force.")


def _write(path: Path, found: Predictions) -> None:
    """Write predictions as class names or values; an npz file also contains the logits."""
    import numpy as np

    from hadamrnn.files import write_atomically

    if path.suffix.lower() == ".csv":
        write_atomically(path, _table(found.places, found.values, ",").encode())
        return
    content = io.BytesIO()
    # The name `file` is taken by the first argument of savez.
    arrays: dict[str, Any] = {
        "files" if name == "file" else name: np.array(values) for name, values in found.places.items()
    }
    np.savez(content, prediction=np.array(found.values), logits=np.asarray(found.logits), **arrays)
    write_atomically(path, content.getvalue())


def _table(places: dict[str, list[Any]], predictions: list[Any], delimiter: str) -> str:
    """Return one line for each sample: its position and prediction, with one cell per predicted value."""
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    width = len(predictions[0]) if isinstance(predictions[0], list) else 0
    writer.writerow([*places, *([f"prediction{n}" for n in range(width)] or ["prediction"])])
    for *place, value in zip(*places.values(), predictions, strict=True):
        cells = [*place, *(value if isinstance(value, list) else [value])]
        writer.writerow([_cell(cell) for cell in cells])
    return text.getvalue()


def _cell(value: Any) -> Any:
    """Escape text that a spreadsheet would read as a formula; return numbers unchanged.

    >>> [_cell(value) for value in ("=1+1", "-1", "-walk", -0.5, "a\\tb")]
    ["'=1+1", '-1', "'-walk", -0.5, 'a\\\\tb']
    """
    if not isinstance(value, str):
        return value
    text = printable(value)
    is_number = re.fullmatch(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?", text)
    return f"'{text}" if text[:1] in tuple("=+-@") and not is_number else text


def _plain(predictions: list[Any]) -> str:
    lines = (
        " ".join(map(str, value)) if isinstance(value, list) else printable(str(value))
        for value in predictions
    )
    return "".join(f"{line}\n" for line in lines)

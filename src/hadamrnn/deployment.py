"""Write a model as a directory that builds and tests itself on the data of its task. Start at `write`.

Golden vectors and pages replay sequences of the test set if it is found. For an integer model without data,
nothing here needs torch.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from hadamrnn.errors import InputError
from hadamrnn.fixedpoint import IntegerModel
from hadamrnn.fixedpoint.alarms import detection_of
from hadamrnn.reservoir import IntegerReservoir, load_any

if TYPE_CHECKING:
    from hadamrnn.data.splits import Preparation, Splits
    from hadamrnn.export.golden import Golden
    from hadamrnn.export.page import Stored
    from hadamrnn.nn.model import SequenceModel

ExportFormat = Literal["c", "arduino", "js", "page", "onnx"]
GOLDEN_SEQUENCES = 3
BOARD_VALUES = 2_000  # most golden numbers in an Arduino sketch, at up to four bytes each


class Export(NamedTuple):
    """A written directory, and the source of its golden vectors, if any."""

    folder: Path
    golden: str | None = None


def no_splits() -> Splits:
    """Raise an error that explains that a model without a run has no data."""
    raise InputError(
        "An integer model file names no test data. Give the run folder instead, or --examples for a page."
    )


def load_network(path: Path) -> IntegerModel | IntegerReservoir:
    """Return the integer network of a run directory, or an integer network or reservoir from a file."""
    from hadamrnn.quantization.results import load_integer

    found = load_any(path) if path.is_file() else None
    return found if isinstance(found, IntegerReservoir) else load_integer(path)


def write(
    integer: IntegerModel | IntegerReservoir,
    out: str | Path,
    to: ExportFormat = "c",
    name: str = "net",
    *,
    splits: Callable[[], Splits] = no_splits,
    examples: Path | None = None,
    packed: bool = True,
    golden: Literal["data", "random"] | None = None,
    force: bool = False,
) -> Export:
    """Write a model as C, Arduino library, JavaScript, live page or ONNX into the directory `out`.

    Args:
        name: prefix of files and C symbols.
        splits: loads the data of the task, for golden vectors and pages.
        examples: an npz file of labelled series that a page plays instead.
        packed: whether to pack weights into bits; False stores each in one byte (C and Arduino).
        golden: replay test sequences (data) or random codes; None prefers data and falls back to random.
        force: replace an earlier export.
    """
    from hadamrnn.export import export_arduino, export_c, export_js

    out = Path(out)
    if to in ("onnx", "page") and detection_of(integer) is not None:
        raise InputError(f"An anomaly detector has no form for --to {to}. Choose c, arduino or js.")
    if to == "onnx":
        from hadamrnn.export.onnx import export_onnx

        return Export(export_onnx(out, name, integer_model=integer, force=force))
    if to == "page":
        from hadamrnn.export.page import export_page

        if examples is not None:
            stored = stored_examples(integer, examples)
            return Export(export_page(integer, out, name, stored, force=force))
        task = splits()
        stored, pad = stored_sequences(integer, task), task_pad(integer, task)
        return Export(export_page(integer, out, name, stored, title=task.task, pad=pad, force=force))
    vectors, replayed = _golden(integer, splits, golden, small=to == "arduino")
    if to == "js":
        folder = export_js(integer, out, name, golden=vectors, force=force)
    else:
        writer = export_c if to == "c" else export_arduino
        folder = writer(integer, out, name, packed=packed, golden=vectors, force=force)
    return Export(folder, replayed)


def write_onnx(
    integer: IntegerModel | None,
    model: SequenceModel,
    facts: Preparation,
    out: Path,
    name: str,
    *,
    force: bool = False,
) -> Export:
    """Write the float model of a run, and its integer model if any, as ONNX graphs of raw values."""
    from hadamrnn.export.onnx import ValueUnits, export_onnx

    units: dict[str, Any] = {}
    if facts.offset is not None and facts.scale is not None:
        units = {"offset": np.array(facts.offset), "scale": np.array(facts.scale)}
    elif facts.levels is not None:  # code k in 0..levels means k / levels
        units = {"offset": np.zeros(1), "scale": np.full(1, float(facts.levels))}
    if facts.targets is not None:
        units["target_offset"] = np.array(facts.targets.offset)
        units["target_scale"] = np.array(facts.targets.scale)
    folder = export_onnx(
        out,
        name,
        float_model=model,
        integer_model=integer,
        units=ValueUnits(**units),
        class_names=facts.class_names,
        force=force,
    )
    return Export(folder)


def _golden(
    model: IntegerModel | IntegerReservoir, splits: Callable[[], Splits], wanted: str | None, small: bool
) -> tuple[Golden | None, str]:
    """Return golden vectors of the test set, or None for random codes, and a line that names the source."""
    if wanted == "random" or (wanted is None and detection_of(model) is not None):
        return None, "random codes"
    try:
        vectors = real_golden(model, splits(), BOARD_VALUES if small else None)
    except (InputError, ImportError) as error:  # loading a data set may need torch, which may be missing
        if wanted == "data":
            raise
        return None, f"random codes (no test data: {error})"
    return vectors, vectors.source


def real_golden(
    model: IntegerModel | IntegerReservoir,
    splits: Splits,
    most: int | None = None,
    sequences: int = GOLDEN_SEQUENCES,
) -> Golden:
    """Return golden vectors of the first test sequences, with at most `most` numbers."""
    from hadamrnn.export.golden import MAX_VALUES, fit_golden
    from hadamrnn.fixedpoint.encoding import raw_from_inputs

    x, _, lengths = splits.test.batch(slice(sequences))
    kept = (x if lengths is None else x[:, : int(lengths.min())]).numpy()
    inputs = raw_from_inputs(model, kept) if model.input_kind == "dense" else kept
    source = f"sequences of the test set of {splits.task}"
    return fit_golden(model, inputs, source=source, sequences=sequences, most=most or MAX_VALUES)


def stored_sequences(model: IntegerModel | IntegerReservoir, splits: Splits) -> Stored:
    """Return evenly spaced test sequences, as many as fit on a page."""
    import torch

    from hadamrnn.export.page import Stored, stored_rows
    from hadamrnn.quantization.chain import input_codes

    rows = torch.from_numpy(stored_rows(model, len(splits.test), splits.seq_length))
    x, y, lengths = splits.test.batch(rows)
    splits.test.check_labelled("A page")
    assert y is not None
    return Stored(input_codes(model, x)[0], y.numpy(), None if lengths is None else lengths.numpy())


def stored_examples(model: IntegerModel | IntegerReservoir, path: Path) -> Stored:
    """Return examples from an npz file: series `x` in units of the training data, and their labels `y`."""
    from hadamrnn.data.labels import class_numbers
    from hadamrnn.data.npz import check_array, check_inputs, read_npz, time_first
    from hadamrnn.export.page import Stored, stored_rows
    from hadamrnn.fixedpoint.encoding import encode_values

    names = tuple(model.class_names)
    if not names or model.input_kind != "dense" or model.every_output:
        raise InputError(
            "A page of examples needs a network that reads series of values and names their classes, got "
            f"{model!r}. Export another one, or a run folder without --examples."
        )
    arrays = time_first(read_npz(path), None, path, model.input_size)
    x, lengths = check_inputs(arrays, path)
    y = check_array("y", arrays.get("y"), path, f"{len(x)} labels", "iubU", (1,), len(x))
    labels = class_numbers(y, names, path).numpy()
    rows = stored_rows(model, len(x), x.shape[1])
    codes, _ = encode_values(model, x.numpy()[rows])
    return Stored(codes, labels[rows], None if lengths is None else lengths.numpy()[rows])


def task_pad(model: IntegerModel | IntegerReservoir, splits: Splits) -> dict[str, Any] | None:
    """Return a drawing pad for a task that reads images, None for other tasks."""
    import torch

    from hadamrnn.export.page import drawing_pad
    from hadamrnn.quantization.chain import input_codes

    image, levels = splits.image, splits.levels
    if image is None or levels is None:
        return None
    pixels = torch.arange(levels + 1).reshape(-1, 1, 1) / levels
    codes = input_codes(model, pixels)[0].reshape(-1)
    return drawing_pad(image.side, codes, image.box, image.pen, image.by_mass, image.order)

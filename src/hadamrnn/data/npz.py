"""Load a user's own arrays: `x` and `y`, optionally `lengths` and `groups`, in one `.npz` file.

| array | shape | meaning |
|---|---|---|
| `x` | `(n, time, channels)`, or `(n, time)` for one channel | any real numbers, finite |
| `y` | `(n,)` | integers, bools or strings: classification |
| `y` | `(n,)` or `(n, targets)` | floats: regression |
| `lengths` | `(n,)` | optional: number of valid steps of each row |
| `groups` (or `person`, `subject`) | `(n,)` | optional: who was recorded; no group is in two parts |

Any other array is refused, and so is an `x` whose axes are ambiguous, unless `layout` names them.

The type of `y` decides, not its values: 0.0 and 1.0 are a regression. Integer labels must be
0 ... k - 1, each present; strings are numbered in sorted order and kept as class names ("3.0" is "3").
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hadamrnn.data.labels import MOST_NUMBERED, canonical_label, class_names, class_numbers, count_classes
from hadamrnn.data.options import NO_FILES, HeldOutFiles
from hadamrnn.data.repeats import overlapping_samples
from hadamrnn.data.samples import array_table, check_training, digests, divide_arrays, merge_copies
from hadamrnn.data.scaling import standardised, with_standard_targets
from hadamrnn.data.splits import Preparation, Split, Splits, file_fingerprint, joint_fingerprint
from hadamrnn.data.tasks import SMALL_STACK, Task
from hadamrnn.errors import InputError, damaged, short
from hadamrnn.files import check_regular, one_line
from hadamrnn.settings import Seed

MINIMUM_SAMPLES = 10
FLOAT32_MAX = float(np.finfo(np.float32).max)
FEW_STEPS = 16  # a table (n, columns) with fewer columns is probably not a set of series
FEW_ROWS, FLOWING = 32, 0.25  # fewest rows to test; median ratio below which rows are one recording
GROUP_NAMES = ("groups", "person", "subject")
KNOWN = {"x", "y", "lengths", *GROUP_NAMES}
Layout = Literal["time-first", "channels-first"]
READ_HEADER = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
MAX_BYTES = 1 << 36
MAX_UNPACKED, MAX_RATIO = 1 << 28, 20  # an archive may unpack to this many bytes, or this times its size


def load_npz(
    *,
    path: Path,
    held_out: HeldOutFiles = NO_FILES,
    standardize: bool = True,
    layout: Layout | None = None,
    seed: Seed = 0,
    preparation: Preparation | None = None,
) -> Splits:
    """Return the arrays of `path`, stratified by class: 15 % for validation, 15 % for testing.

    Args:
        held_out: files to use as the validation or test part; the other samples are divided.
        standardize: give each channel zero mean and unit variance over the training part.
        layout: the axes of `x`: "time-first" (n, time, channels) or "channels-first" (n, channels, time).
        seed: seed of the random split. Groups are never divided, and copies of a sample stay together.
        preparation: from an earlier load of the same file, to use the same parts and scaling.
    """
    sources = (path, *held_out.paths)
    arrays, origin = join_arrays([time_first(read_npz(each), layout, each) for each in sources], sources)
    fingerprint = joint_fingerprint([file_fingerprint([each]) for each in sources])
    if preparation is not None:
        preparation.check(fingerprint, path)
    x, lengths = check_inputs(arrays, path)
    y, names = check_targets(arrays.get("y"), len(x), path)
    if len(x) < MINIMUM_SAMPLES:
        raise InputError(f"{path} must hold at least {MINIMUM_SAMPLES} samples, got {len(x)}.")
    strata = y.numpy() if names else np.zeros(len(x), np.int64)
    grouped = check_groups(arrays, path)
    if preparation is not None:
        parts, remarks = [torch.tensor(rows, dtype=torch.int64) for rows in preparation.members], []
    else:
        copies = digests(x.numpy())
        groups = merge_copies(arrays[grouped], copies) if grouped else copies
        parts = divide_arrays(strata, groups, origin, held_out, seed, bool(grouped))
        check_training(parts, strata, names)
        remarks = [*_numbered(arrays["y"], names), *([] if grouped else _overlap(x, parts))]
    splits = standardised(
        "npz",
        [Split(x[rows], y[rows], None if lengths is None else lengths[rows]) for rows in parts],
        keep_values=not standardize,
        preparation=preparation,
        output_size=len(names) or y.shape[1],
        metric="accuracy" if names else "mse",
        class_names=names,
        note=f"split by {grouped}" if grouped else "",
        fingerprint=fingerprint,
        members=tuple(tuple(rows.tolist()) for rows in parts),
    )
    if not names:
        splits = with_standard_targets(splits, preparation)
    return replace(splits, assumptions=(*array_table(splits, arrays.get(grouped)), *remarks))


def _numbered(y: NDArray[np.generic], names: Sequence[str]) -> list[str]:
    """Return a note if there are so many integer classes that values may have been meant."""
    if y.dtype.kind not in "iu" or len(names) <= MOST_NUMBERED:
        return []
    return [f"note: y holds integers, so {len(names)} classes. To predict values, save y.astype(float)"]


def _overlap(x: Tensor, parts: Sequence[Tensor]) -> list[str]:
    """Return a note if most test samples share steps with training samples, as overlapping windows do."""
    count, samples = overlapping_samples(x[parts[2]].numpy(), x[parts[0]].numpy()), len(parts[2])
    if 2 * count < samples or not count:
        return []
    return [
        f"note: {count} of {samples} test samples share steps with training, like overlapping windows. "
        "Save the recording of each in an array groups, or train on the recordings with --window"
    ]


def join_arrays(
    each: Sequence[dict[str, NDArray[np.generic]]], sources: Sequence[Path]
) -> tuple[dict[str, NDArray[np.generic]], NDArray[np.int64]]:
    """Concatenate the arrays of several files; also return each sample's file number."""
    first = each[0]
    for arrays, path in zip(each[1:], sources[1:], strict=True):
        same = arrays.keys() == first.keys() and all(
            arrays[name].shape[1:] == first[name].shape[1:]
            and (arrays[name].dtype.kind in "US") == (first[name].dtype.kind in "US")
            for name in first
        )
        if not same:
            raise InputError(
                f"{path} must hold arrays of the names, shapes and types of {sources[0]}: "
                f"{_names(first)}, got {_names(arrays)}."
            )
    if len(each) == 1:
        return first, np.zeros(len(first.get("x", ())), np.int64)
    joined = {name: np.concatenate([arrays[name] for arrays in each]) for name in first}
    return joined, np.repeat(np.arange(len(each)), [len(arrays["x"]) for arrays in each])


def time_first(
    arrays: dict[str, NDArray[np.generic]], layout: str | None, path: str | Path, channels: int | None = None
) -> dict[str, NDArray[np.generic]]:
    """Return the arrays with x as (n, time, channels); refuse an ambiguous layout.

    Without a layout, the shape decides, or the network's number of channels if there is a network.
    """
    x = arrays.get("x")
    if x is None or x.ndim not in (2, 3) or 0 in x.shape or layout == "time-first":
        return arrays
    if layout == "channels-first":
        return {**arrays, "x": np.moveaxis(x, 1, -1) if x.ndim == 3 else x}
    if x.ndim == 3:
        turned = x.shape[2] > x.shape[1] if channels is None else x.shape[1] == channels
        if turned:
            raise InputError(
                f"x must be (n, time, channels), and {x.shape} in {path} may be (n, channels, time). "
                f"Choose with layout=time-first or layout=channels-first."
            )
    elif (x.shape[1] < FEW_STEPS and len(x) > 10 * x.shape[1]) or (channels is None and _flows(x)):
        raise InputError(
            f"x of shape {x.shape} in {path} looks like one recording, and would be {len(x)} series of "
            f"{x.shape[1]} steps. Add --window N to cut it, or set layout=time-first if it is correct."
        )
    return arrays


def _flows(x: NDArray[np.generic]) -> bool:
    """Return whether each row of x, (n, time), continues the row before it, as in one recording.

        r_j = mean_i (x_(i+1)j - x_ij)^2 / (2 var_j)        1 for rows in any order

    The median of r is 0.6 to 1.3 for sets of series, 0.4 for digits sorted by class, and 0.01 to 0.2 for
    recordings.
    """
    if len(x) < FEW_ROWS or x.dtype.kind not in "fiub":
        return False
    values = x.astype(np.float64)
    with np.errstate(all="ignore"):
        ratio = np.square(np.diff(values, axis=0)).mean(0) / (2 * values.var(0))
    ratio = ratio[np.isfinite(ratio)]
    return bool(len(ratio)) and float(np.median(ratio)) < FLOWING


def check_groups(arrays: dict[str, NDArray[np.generic]], path: str | Path) -> str:
    """Return the name of the array of groups; empty if the file has none."""
    given = [name for name in GROUP_NAMES if name in arrays]
    if len(given) > 1:
        raise InputError(f"Only one of {', '.join(GROUP_NAMES)} may be given, got {' and '.join(given)}.")
    for name in given:
        count = len(arrays["x"])
        check_array(name, arrays[name], path, f"{count} integers or strings", "iubU", (1,), count)
    return "".join(given)


def check_array(
    name: str,
    array: NDArray[np.generic] | None,
    source: str | Path,
    rule: str,
    kinds: str,
    axes: Collection[int],
    count: int | None = None,
    advice: str = "",
) -> NDArray[np.generic]:
    """Return an array after checking that it exists, is not empty, and has an allowed type and shape.

    Args:
        rule: the requirement, for the error message.
        kinds: letters of `numpy.dtype.kind`.
        count: required number of rows; None for any.
        advice: text to end the error message with.
    """
    if array is None:
        raise InputError(f"{name} must be {rule}, and is missing in {source}.{advice}")
    fits = array.ndim in axes and array.dtype.kind in kinds and 0 not in array.shape
    if not fits or count not in (None, len(array)):
        raise InputError(
            f"{name} must be {rule}, got {array.dtype} of shape {array.shape} in {source}.{advice}"
        )
    return array


def read_npz(path: str | Path) -> dict[str, NDArray[np.generic]]:
    """Read the arrays of an npz file; unknown names and pickled objects (ragged arrays) are refused."""
    check_regular(path, MAX_BYTES)
    size = Path(path).stat().st_size
    try:
        if not zipfile.is_zipfile(path):
            raise InputError(f"{path} must be an npz archive. Write it with numpy.savez(path, x=x, y=y).")
        with zipfile.ZipFile(path) as archive:
            members = [member for member in archive.infolist() if member.filename.endswith(".npy")]
            if sum(member.file_size for member in members) > max(MAX_UNPACKED, MAX_RATIO * size):
                raise InputError(
                    f"{path} would unpack to more than {MAX_RATIO} times its size. "
                    "Write it with numpy.savez, which does not compress."
                )
            names = [member.filename[: -len(".npy")] for member in members]
            unknown = sorted(set(names) - KNOWN)
            if unknown:
                raise InputError(
                    f"Arrays must be named {', '.join(sorted(KNOWN))}, got {short(unknown[0])} in {path}. "
                    "Remove it."
                )
            return {
                name: _read_member(archive, member, path) for name, member in zip(names, members, strict=True)
            }
    except InputError:
        raise
    except Exception as error:  # zipfile and numpy do not wrap errors of struct, zlib, seek and eval
        reason = one_line(error) or type(error).__name__
        raise damaged(path, f"{reason}. Write it again with numpy.savez.") from error


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, path: str | Path) -> NDArray[np.generic]:
    """Return one array, after checking the size in its header against the bytes present."""
    name = f"{member.filename!r:.60} in {path}"
    if member.flag_bits & 1:
        raise InputError(f"{name} is encrypted. Write the file again without a password.")
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        shape, _, dtype = READ_HEADER[version](file)
        if dtype.hasobject:
            raise InputError(
                f"{path} must hold plain arrays, got ragged or pickled objects. "
                f"Pad x to (n, time, channels) and save the valid steps of each row as an array lengths."
            )
        claimed = math.prod(shape) * dtype.itemsize
        if min(shape, default=0) < 0 or claimed != member.file_size - file.tell():
            raise damaged(name, f"its shape {shape!s:.60} does not fit its bytes. Write it again.")
    with archive.open(member) as file:
        array: NDArray[np.generic] = np.lib.format.read_array(file, allow_pickle=False)
    return array


def check_inputs(arrays: dict[str, NDArray[np.generic]], path: str | Path) -> tuple[Tensor, Tensor | None]:
    """Return x `(n, time, channels)`, zero past a row's length, and `lengths`, int64 `(n,)` or None.

    x is float32 if that represents all of its values exactly, else float64, because an offset may be large.
    """
    rule = "real numbers of shape (n, time, channels) or (n, time)"
    x = arrays.get("x")
    advice = " Add --window N to cut one long recording." if x is not None and x.ndim == 1 else ""
    x = check_array("x", x, path, rule, "fiub", (2, 3), advice=advice)
    kind = np.result_type(x.dtype, np.float32) if x.dtype.itemsize <= 8 else np.dtype(np.float64)
    with np.errstate(over="ignore"):  # overflow is reported just below
        dense = torch.from_numpy(x.astype(kind).reshape(*x.shape[:2], -1))
    if not float(dense.abs().max()) <= FLOAT32_MAX:
        row, step, channel = (~(dense.abs() <= FLOAT32_MAX)).nonzero()[0].tolist()
        raise InputError(
            f"x must be finite in float32, got {x.reshape(dense.shape)[row, step, channel]} "
            f"at sample {row}, step {step}, channel {channel} in {path}. Replace or remove it."
        )
    if "lengths" not in arrays:
        return dense, None
    lengths = check_array("lengths", arrays["lengths"], path, f"{len(x)} integers", "iu", (1,), len(x))
    steps = lengths.astype(np.int64)  # a larger uint64 becomes negative and is then refused
    wrong = lengths[(steps < 1) | (steps > x.shape[1])]
    if len(wrong):
        raise InputError(f"lengths must lie in 1 ... {x.shape[1]}, the steps of x, got {wrong[0]} in {path}.")
    dense[torch.arange(x.shape[1]) >= torch.from_numpy(steps)[:, None]] = 0.0
    return dense, torch.from_numpy(steps)


def check_targets(
    y: NDArray[np.generic] | None, count: int, path: str | Path
) -> tuple[Tensor, tuple[str, ...]]:
    """Return y and the class names: labels `(n,)`, or float64 targets `(n, targets)` and no names."""
    if y is not None and y.dtype.kind == "f":
        return check_regression(y, count, path), ()
    rule = f"{count} labels (integers or strings), or floats to predict"
    cut = " Save one recording as x[0], and add --window N to cut it." if count == 1 else ""
    y = check_array("y", y, path, rule, "iubU", (1,), count, cut)
    if y.dtype.kind == "U":
        names = class_names({canonical_label(label) for label in np.unique(y).tolist()}, path)
        return class_numbers(y, names, path), names
    labels = y.astype(np.int64)
    return torch.from_numpy(labels), class_names(list(map(str, range(count_classes(labels, path)))), path)


def check_regression(y: NDArray[np.generic] | None, count: int, path: str | Path) -> Tensor:
    """Return the targets `(n, targets)` of a regression, float64."""
    y = check_array("y", y, path, f"floats of shape ({count},) or ({count}, targets)", "f", (1, 2), count)
    targets = torch.from_numpy(y.astype(np.float64).reshape(len(y), -1))
    unfit = ~(targets.abs() <= FLOAT32_MAX)
    if unfit.any():
        row = int(unfit.nonzero()[0, 0])
        raise InputError(f"y must be finite in float32, got {y[row]} at sample {row} in {path}.")
    return targets


def _names(arrays: dict[str, NDArray[np.generic]]) -> str:
    return ", ".join(sorted(arrays)) or "none"


NPZ = Task(
    load_npz,
    help="your own arrays; the same as `train FILE.npz`",
    recipes={
        "paper": {"hidden_size": 128, "epochs": 60},
        "quick": {**SMALL_STACK, "batch_size": 32, "epochs": 20, "min_steps": 600},
        "best": {**SMALL_STACK, "batch_size": 32, "epochs": 40, "min_steps": 1500},
    },
)

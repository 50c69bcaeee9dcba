"""Compare `HadamRNNClassifier`, at several sizes, with MiniRocket's published accuracy on the UCR archive.

The sets are files NAME.npz in the folder `ucr` of the data folder, next to `published.csv`.
Results are JSON Lines, one line for each set, seed and size, so a stopped run can be resumed.
Start at `run_archive`.
"""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from textwrap import fill
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from scipy.stats import wilcoxon

from hadamrnn.data.files import search_folders
from hadamrnn.errors import InputError
from hadamrnn.estimators import HadamRNNClassifier, counted, pool
from hadamrnn.settings import from_json
from hadamrnn_benchmarks.markdown import markdown_table
from hadamrnn_benchmarks.ranks import draw_sizes, rank_sentences

TITLE = "# The UCR archive"
SIZES = (512, 1024, 2048, 4096, 8192, 16384)
LEVEL = 0.05  # points of accuracy below which a difference counts as a tie
DEFAULT, SMALL_RAM = "default", "default, max_ram=2048"
ABLATIONS: dict[str, tuple[tuple[Any, str, Any], ...]] = {
    "without thirds": (
        (pool, "KINDS", (pool.DIFFERENCES, pool.SAMPLES)),
        (counted, "KINDS", (pool.DIFFERENCES, pool.SAMPLES)),
    ),
    "without samples": ((counted, "CANDIDATES", (1, 2)),),
    "without selection of kinds": ((counted, "CANDIDATES", (len(pool.KINDS),)),),
    "scale 1 only": ((pool, "SCALES", (1,)),),
    "means instead of phases": ((pool, "MOST_PHASES", 1),),
    "thresholds at the same levels in every unit": ((pool, "GOLDEN", 1 / pool.THRESHOLDS),),
}


@dataclass(frozen=True)
class ArchiveRow:
    """One fit: `size` is a max_bytes, "default", or the name of an ablation."""

    dataset: str
    seed: int
    size: str
    accuracy: float
    bytes: int
    ram: int
    seconds: float  # CPU time of the fit; one fit gives all sizes


@dataclass(frozen=True)
class Published:
    """A set of the archive with published accuracies in percent, or None where nothing is published."""

    name: str
    train: int
    classes: int
    minirocket: float | None
    resampled: tuple[float, float] | None = None  # HYDRA and MiniRocket over 30 resamples


def run_archive(
    keep: Path, *, seeds: int, data_dir: str | Path | None = None, ablations: int = 1
) -> tuple[list[ArchiveRow], list[Published]]:
    """Return the rows of all sets with a published accuracy, measuring those that `keep` lacks.

    Args:
        keep: a JSON Lines file of rows; each new row is appended as soon as it is measured.
        seeds: seeds to fit each set with.
        ablations: seeds for the ablations.
    """
    folder = find_archive(data_dir)
    sets = [each for each in read_published(folder / "published.csv") if each.minirocket is not None]
    rows = read_rows(keep)
    done = {(row.dataset, row.seed, row.size) for row in rows}
    tasks: list[tuple[str, int, list[str]]] = [
        ("", seed, [DEFAULT, *map(str, SIZES)]) for seed in range(seeds)
    ]
    tasks += [(SMALL_RAM, seed, [SMALL_RAM]) for seed in range(ablations)]
    tasks += [(name, seed, [name]) for name in ABLATIONS for seed in range(ablations)]
    for name, seed, sizes in tasks:
        for each in sets:
            if all((each.name, seed, size) in done for size in sizes):
                continue
            new = list(measure(folder, each.name, seed, name))
            with keep.open("a") as file:
                file.writelines(json.dumps(asdict(row)) + "\n" for row in new)
            rows += new
    return rows, sets


def measure(folder: Path, name: str, seed: int, variant: str) -> Iterator[ArchiveRow]:
    """Fit a set with one seed, either at all sizes or as an ablation at the default size."""
    X, y, X_test, y_test = load_set(folder, name)
    classifier = HadamRNNClassifier(
        solver="count", random_state=seed, max_ram=2048 if variant == SMALL_RAM else None
    )
    began = time.process_time()
    if variant:
        with ExitStack() as patches:
            for module, constant, value in ABLATIONS.get(variant, ()):
                patches.enter_context(patch.object(module, constant, value))
            fitted = {variant: classifier.fit(X, y)}
    else:
        default = classifier.default_bytes(len(np.unique(y)))
        path = {each.max_bytes: each for each in classifier.fit_path(X, y, (default, *SIZES))}
        fitted = {DEFAULT: path[default], **{str(size): path[size] for size in SIZES}}
    seconds = time.process_time() - began
    for size, each in fitted.items():
        accuracy = float(np.mean(each.predict_integer(X_test) == y_test))
        cost = each.cost_
        yield ArchiveRow(name, seed, size, accuracy, cost.bytes, int(cost.ram or 0), seconds)


def find_archive(data_dir: str | Path | None) -> Path:
    """Return the folder of the archive's sets."""
    folders = [folder / "ucr" for folder in search_folders(data_dir)]
    for folder in folders:
        if (folder / "published.csv").is_file():
            return folder
    raise InputError(
        f"The archive's sets must lie in {folders[0]}, which has no published.csv. Name its parent by "
        "--data-dir, or leave --archive out."
    )


def read_published(path: Path) -> list[Published]:
    with path.open(newline="") as file:
        return [
            Published(
                row["set"],
                int(row["train"]),
                int(row["classes"]),
                float(row["minirocket_default_split"]) if row["minirocket_default_split"] else None,
                (float(row["hydra_30_resamples"]), float(row["minirocket_30_resamples"]))
                if row["hydra_30_resamples"]
                else None,
            )
            for row in csv.DictReader(file)
        ]


def read_rows(path: Path) -> list[ArchiveRow]:
    """Return the rows of a JSON Lines file; an absent file has none."""
    if not path.exists():
        return []
    return [from_json(ArchiveRow, json.loads(line), path) for line in path.read_text().splitlines()]


def load_set(folder: Path, name: str) -> tuple[Any, NDArray[Any], Any, NDArray[Any]]:
    """Return training and test series with their labels; series of different lengths come as lists."""
    with np.load(folder / f"{name}.npz", allow_pickle=False) as arrays:
        x, y, x_test, y_test = (arrays[key] for key in ("x_train", "y_train", "x_test", "y_test"))
    return _series(x), y, _series(x_test), y_test


def _series(x: NDArray[np.float32]) -> Any:
    values = x.astype(np.float64)
    if not np.isnan(values).any():
        return values[:, :, None]
    return [row[: np.flatnonzero(~np.isnan(row))[-1] + 1, None] for row in values]


def archive_page(rows: list[ArchiveRow], sets: list[Published]) -> str:
    """Return the Markdown of the page: accuracy against bytes, ablations, and a table of the sets."""
    names = [each.name for each in sets]
    rocket = fmean(each.minirocket or 0.0 for each in sets)
    seeds = len({row.seed for row in rows if row.size == DEFAULT})
    sizes = [DEFAULT, *map(str, SIZES), SMALL_RAM]
    by_size = markdown_table(
        ("max_bytes", "accuracy", "bytes", "RAM"),
        [_size_line(size, [row for row in rows if row.size == size]) for size in sizes],
        numbers=3,
    )
    default = _means(row for row in rows if row.size == DEFAULT)
    gains = [100 * default[each.name] - (each.minirocket or 0.0) for each in sets]
    wins, ties = sum(gain > LEVEL for gain in gains), sum(abs(gain) <= LEVEL for gain in gains)
    first = _means(row for row in rows if row.size == DEFAULT and row.seed == 0)
    ablations = markdown_table(
        ("", "accuracy"),
        [("as it is", f"{100 * fmean(first[name] for name in names):.1f}")]
        + [(name, _mean_text(_means(row for row in rows if row.size == name), names)) for name in ABLATIONS],
        numbers=1,
    )
    times = [row.seconds for row in rows if row.size == DEFAULT]
    per_set = markdown_table(
        ("set", "series", "classes", "HadamRNN", "1 kB", "16 kB", "MiniRocket"),
        [_set_line(each, rows) for each in sets],
        numbers=6,
    )
    behind = sorted(zip(gains, names, strict=True))[:8]
    gaps = ", ".join(f"{name} ({-gain:.1f})" for gain, name in behind)
    return PAGE.format(
        title=TITLE,
        count=len(sets),
        seeds=seeds,
        rocket=f"{rocket:.1f}",
        by_size=by_size,
        wins=wins,
        ties=ties,
        losses=len(sets) - wins - ties,
        p_value=f"{wilcoxon(gains).pvalue:.2f}",
        mean_time=f"{fmean(times):.1f}",
        longest=f"{max(times):.1f}",
        ablations=ablations,
        per_set=per_set,
        gaps=gaps,
        ranks=fill(_ranks(rows, sets), 108),
    )


def archive_plot(rows: list[ArchiveRow], sets: list[Published]) -> str:
    """Plot accuracy against bytes as SVG, with MiniRocket's accuracy as a line."""
    by_size = [[row for row in rows if row.size == str(size)] for size in SIZES]
    return draw_sizes(
        [fmean(row.bytes for row in some) for some in by_size],
        [100 * fmean(_means(some).values()) for some in by_size],
        "MiniRocket, about 40 kB per class",
        fmean(each.minirocket or 0.0 for each in sets),
    )


PAGE = """\
{title}

{count} sets of the archive, their default split. **These sets were used to develop the features**, so the
figures are optimistic: on sets that were not, expect up to 1.5 points less. HadamRNN is
`HadamRNNClassifier()`; its accuracies are those of the integers, means over {seeds} seeds; MiniRocket's are
published by its authors for the same splits: {rocket} on average, with about 40 kB of weights per class.

{by_size}

RAM is that of the device's state. By default `max_bytes` is 4096 up to ten classes, and more beyond; a number
is the same for every set. One fit gives all sizes (`fit_path`): {mean_time} s of CPU time on average,
{longest} s at most. At the default size HadamRNN is ahead of MiniRocket on {wins} sets, level on {ties} and
behind on {losses} (Wilcoxon's signed-rank test: p = {p_value}). It lacks most on, in points: {gaps}.
{ranks}

![Mean accuracy against the bytes of the weights, beside MiniRocket's](archive.svg)

What each mechanism brings at the default size, one seed (differences below 0.3 points are noise):

{ablations}

Each set:

{per_set}

Written by `hadamrnn bench archive --out docs/archive.md`; do not edit.
"""


def _ranks(rows: list[ArchiveRow], sets: list[Published]) -> str:
    """Return mean ranks on the default splits, and the published means of HYDRA and MiniRocket."""
    by_size = [_means(row for row in rows if row.size == size) for size in ("1024", DEFAULT, "16384")]
    names = ("HadamRNN 1 kB", "HadamRNN", "HadamRNN 16 kB", "MiniRocket")
    table = [[*(100 * means[each.name] for means in by_size), each.minirocket or 0.0] for each in sets]
    text = rank_sentences(names, table)
    resampled = [each.resampled for each in sets if each.resampled is not None]
    if resampled:
        hydra, rocket = (fmean(pair) for pair in zip(*resampled, strict=True))
        text += (
            f" HYDRA is published over 30 resamples of the splits alone, where it has {hydra:.1f} and "
            f"MiniRocket {rocket:.1f} on {len(resampled)} of the sets."
        )
    return text


def _size_line(size: str, rows: list[ArchiveRow]) -> tuple[str, ...]:
    if not rows:
        return size, "-", "-", "-"
    accuracy = fmean(_means(rows).values())
    size_bytes, ram = (fmean(getattr(row, name) for row in rows) for name in ("bytes", "ram"))
    return size, f"{100 * accuracy:.1f}", f"{size_bytes:,.0f}", f"{ram:,.0f}"


def _set_line(each: Published, rows: list[ArchiveRow]) -> tuple[str, ...]:
    found = [
        _means(row for row in rows if row.size == size and row.dataset == each.name)[each.name]
        for size in (DEFAULT, "1024", "16384")
    ]
    accuracies = [f"{100 * accuracy:.1f}" for accuracy in found]
    return each.name, str(each.train), str(each.classes), *accuracies, f"{each.minirocket:.1f}"


def _means(rows: Iterable[ArchiveRow]) -> dict[str, float]:
    """Return the mean accuracy of each set."""
    found: dict[str, list[float]] = {}
    for row in rows:
        found.setdefault(row.dataset, []).append(row.accuracy)
    return {name: fmean(values) for name, values in found.items()}


def _mean_text(means: dict[str, float], names: list[str]) -> str:
    return (
        f"{100 * fmean(means[name] for name in names):.1f}" if all(name in means for name in names) else "-"
    )

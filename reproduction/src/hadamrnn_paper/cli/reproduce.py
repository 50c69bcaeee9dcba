"""`hadamrnn reproduce`: run the paper's rows and store each as one line in its task's results."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hadamrnn.cli.arguments import (
    DataOptions,
    JsonOption,
    Minutes,
    check_unused,
    command,
    positional,
    repeated,
    split_options,
)
from hadamrnn.errors import InputError, check_name
from hadamrnn.settings import Seed, option, read_scalar, read_text

if TYPE_CHECKING:
    from hadamrnn_paper.results import Result
    from hadamrnn_paper.runner import Job, Places, Tally

    Results = dict[str, Result]  # by name


@dataclass(frozen=True, kw_only=True)
class ReproduceOptions(DataOptions, JsonOption):
    table: str | None = positional(
        "TABLE",
        "results, blocks, variability, glue, iot, ablation, columns, times, scales, memorization, "
        "beyond (larger and smaller networks), baselines, selection (cross-validation over people), or all",
        default=None,
    )
    rows: tuple[str, ...] = option((), "only the rows with these keys, or patterns such as 'pmnist-*'")
    preset: str | None = option(None, "recipe: paper (default), best or quick")
    seed: tuple[Seed, ...] = repeated("seed to use instead of the row's own", "N")
    budget: Minutes | None = option(
        None,
        "minutes of training for each row, converted to epochs at this machine's speed",
    )
    set: tuple[str, ...] = repeated("a setting of `hadamrnn train`, such as epochs=10")
    again: Path | None = option(
        None, "train rows that have a result again, into this folder, and leave the results unchanged"
    )
    list: bool = option(False, "list the rows and the presets that have a result, without running anything")
    results: Path = option(
        Path("reproduction/results"), "folder of the results (default reproduction/results)"
    )
    runs: Path = option(Path("runs"), "folder of the run folders (default runs)")
    quiet: bool = option(False, "show no progress")


@command(
    help="train the rows of the paper's tables",
    description="Train and measure the rows of a table that have no result yet. You can stop and repeat the "
    "command, and run it several times at once, also on several machines that share a folder: each row runs "
    "only once. The row of a killed process is released after 30 seconds.",
    examples=(
        "hadamrnn reproduce --list",
        "hadamrnn reproduce results --rows 'pmnist-*' --preset best --budget 30",
        "hadamrnn reproduce variability --seed 0 --seed 1",
        "hadamrnn reproduce results --rows pmnist-512-4bit --preset best --again checked",
        "hadamrnn reproduce memorization",
    ),
)
def run(args: ReproduceOptions) -> int:
    if args.table == "memorization":
        return _memorization(args)
    from hadamrnn.interrupts import stopped_by_signals
    from hadamrnn.run import RunOptions
    from hadamrnn.training.loop import choose_watcher
    from hadamrnn_paper.runner import Places, run_jobs

    places = Places(args.results, args.runs)
    if args.list:
        _list(args, places)
        return 0
    jobs = _jobs(args)
    stored = _read(jobs, places)
    if args.again is not None:
        if args.again.resolve() == places.results.resolve():
            raise InputError(f"--again must not name the folder of the stored results, got {args.again}.")
        places = Places(args.again, args.again / "runs")

    watcher = choose_watcher(args.quiet)
    with stopped_by_signals(lambda: "repeat the command to continue") as stop:
        options = RunOptions(args.data_dir, watcher, stop=stop)
        tally = run_jobs(jobs, places, options, lambda job, line: watcher.remark(f"{job.name} {line}"))
        measured = {result.name: result for result in tally.measured}
        _show(args, tally, stored, measured if args.again is None else _read(jobs, places))
    for name, complaint in tally.failed.items():
        print(f"hadamrnn reproduce: {name}: {complaint}", file=sys.stderr)
    return 2 if tally.failed else 1 if tally.stopped else 0


def _jobs(args: ReproduceOptions) -> list[Job]:
    from hadamrnn.training.config import SETTING_TYPES
    from hadamrnn_paper.runner import Job, select

    if args.table is None:
        raise InputError("A TABLE is needed, such as results. --list shows the rows of all.")
    overrides = {  # settings that only one kind of network has are checked with that network
        name: read_text(name, text, SETTING_TYPES[name]) if name in SETTING_TYPES else read_scalar(text)
        for name, text in split_options("--set", args.set).items()
    }
    if "seed" in overrides:
        raise InputError("A seed is given by --seed, not by --set.")
    if args.threads is not None:
        overrides["threads"] = args.threads
    jobs = [
        Job(setup, args.preset or "paper", seed, overrides, args.budget)
        for setup, seeds in select(args.table, args.rows)
        for seed in args.seed or seeds
    ]
    for job in jobs:
        _ = job.config  # a bad setting is refused before anything runs
    return jobs


def _list(args: ReproduceOptions, places: Places) -> None:
    from hadamrnn.training.config import PRESETS
    from hadamrnn_paper.runner import Job, select

    if args.preset is not None:
        check_name("A preset", args.preset, PRESETS)
    presets = PRESETS if args.preset is None else (args.preset,)
    jobs = [
        Job(setup, preset, seed)
        for setup, seeds in select(args.table or "all", args.rows)
        for seed in args.seed or seeds
        for preset in presets
    ]
    measured = _read(jobs, places)
    fields = ("key", "preset", "seed", "measured")
    values = ((job.setup.key, job.preset, job.seed, job.name in measured) for job in jobs)
    figures = [dict(zip(fields, each, strict=True)) for each in values]
    lines: dict[tuple[str, int], list[str]] = {}
    for job in jobs:
        found = lines.setdefault((job.setup.key, job.seed), [])
        found += [job.preset] if job.name in measured else []
    width = max(len(key) for key, _ in lines)
    missing = sum(not found for found in lines.values())
    args.show(
        figures,
        *(
            f"{key:{width}}  seed {seed}  {', '.join(each) or 'missing'}"
            for (key, seed), each in lines.items()
        ),
        f"{len(lines) - missing} of {len(lines)} runs have a result by preset {' or '.join(presets)}; "
        f"{missing} missing",
    )


def _read(jobs: list[Job], places: Places) -> Results:
    """Return the results of those jobs that have one."""
    from hadamrnn_paper.results import read_results

    wanted = {job.name for job in jobs}
    return {result.name: result for result in read_results(places.results) if result.name in wanted}


def _show(args: ReproduceOptions, tally: Tally, stored: Results, new: Results) -> None:
    figures = {
        "measured": [_figures(result, stored) for result in new.values()],
        "skipped": [job.name for job in tally.skipped],
        "elsewhere": [job.name for job in tally.elsewhere],
        "failed": tally.failed,
        "stopped": tally.stopped,
    }
    lines = [("row", ["paper", "stored", "new"])]
    for known in {**stored, **new}.values():
        for bits in (None, *([known.integer.activation_bits] if known.integer else [])):
            texts = _texts(known.experiment, bits, stored.get(known.name), new.get(known.name))
            lines.append((known.name if bits is None else f"{known.name}, {bits} bits", texts))
    width = max(len(name) for name, _ in lines)
    args.show(
        figures,
        *(f"{name:{width}}" + "".join(f"{text or '-':>10}" for text in texts) for name, texts in lines),
        f"{len(tally.measured)} measured, {len(tally.skipped)} had a result, "
        f"{len(tally.elsewhere)} run elsewhere, {len(tally.failed)} failed",
    )


def _texts(experiment: str, bits: int | None, *results: Result | None) -> list[str]:
    """Return the paper's figure and the measured figures, formatted as in the paper."""
    from hadamrnn_paper.compare import figure, published, show

    texts = [published(experiment, bits)]
    for result in results:
        value = None if result is None else figure(result, bits)
        texts.append("" if result is None else "private" if value is None else show(result.metric, value))
    return texts


def _figures(result: Result, stored: Results) -> dict[str, Any]:
    from hadamrnn_paper.compare import published

    before = stored.get(result.name)
    return {
        "name": result.name,
        "metric": result.metric,
        "test": result.test,
        "integer": None if result.integer is None else result.integer.test,
        "stored": None if before is None else before.test,
        "paper": published(result.experiment, None) or None,
        "seconds": result.seconds,
    }


def _memorization(args: ReproduceOptions) -> int:
    from hadamrnn_paper.memorization import run_memorization, write_memorization

    others = ("list", "rows", "preset", "budget", "set", "again", "runs", "data_dir", "threads")
    check_unused(args, "on memorization", *others)
    if len(args.seed) > 1:
        raise InputError("memorization takes one --seed.")
    found = run_memorization((args.seed or (0,))[0])
    path = write_memorization(args.results, found)
    curves = {"linear": found.e_linear, "relu": found.e_relu}
    ends = {name: {"first": curve[0], "last": curve[-1]} for name, curve in curves.items()}
    lines = (
        f"{name:7} a unit added to x_1 moves h_{found.seq_length} by {curve[0]:.3g}, "
        f"a unit added to x_{found.seq_length} by {curve[-1]:.3g}"
        for name, curve in curves.items()
    )
    args.show({"file": str(path), **ends}, *lines, f"written: {path}")
    return 0

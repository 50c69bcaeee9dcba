"""`hadamrnn reproduce`: run the paper's rows, each into one small JSON file."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hadamrnn.cli.arguments import add_data_option, add_json_option, add_threads_option

if TYPE_CHECKING:
    from hadamrnn.paper.results import Result
    from hadamrnn.paper.runner import Job, Places, Tally

EXAMPLE = """examples:
  hadamrnn reproduce results --list
  hadamrnn reproduce results --rows 'pmnist-*' --preset best --budget 30
  hadamrnn reproduce variability --seed 0 --seed 1
  hadamrnn reproduce memorization"""


def add_parser(subparsers: Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "reproduce",
        help="run the paper's rows",
        description="Run the rows of a table that have no result yet. Stop and start it at will, and "
        "start it several times, also on several machines over a shared folder: every row is run once. "
        "The row of a process that was killed is free again after two minutes.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "table",
        metavar="TABLE",
        help="results, blocks, variability, glue, iot, ablation, columns, times, scales, memorization, "
        "beyond (larger and smaller networks), baselines, or all",
    )
    parser.add_argument(
        "--rows", nargs="+", default=[], metavar="KEY", help="only these; patterns as 'pmnist-*'"
    )
    parser.add_argument("--preset", default="paper", metavar="NAME", help="paper (default), best or quick")
    parser.add_argument(
        "--seed", type=int, action="append", metavar="N", help="may be repeated; default the row's"
    )
    parser.add_argument(
        "--budget",
        type=float,
        metavar="MINUTES",
        help="of training for each row, which is shortened to the epochs that fit at this machine's pace",
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a training setting; may be repeated"
    )
    parser.add_argument(
        "--again", action="store_true", help="run also rows that have a result, and replace it"
    )
    parser.add_argument(
        "--list", action="store_true", help="show the rows and which have a result; run nothing"
    )
    parser.add_argument("--results", default="results", metavar="DIR", help="default results")
    parser.add_argument("--runs", default="runs", metavar="DIR", help="run folders; default runs")
    add_data_option(parser)
    add_threads_option(parser)
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    if args.table == "memorization":
        return _memorization(args)
    from hadamrnn.interrupts import stopped_by_signals
    from hadamrnn.paper.runner import Attendance, Places, run_jobs
    from hadamrnn.training.progress import choose_watcher

    jobs = _jobs(args)
    places = Places(Path(args.results), Path(args.runs), args.data_dir)
    if args.list:
        _list(jobs, places, args.json)
        return 0

    def tell(job: Job, line: str) -> None:
        if not args.quiet:
            print(f"{job.name} {line}", file=sys.stderr, flush=True)

    with stopped_by_signals(lambda: "repeat the command to go on") as stop:
        attendance = Attendance(tell, lambda: choose_watcher(args.quiet), stop)
        tally = run_jobs(jobs, places, attendance, args.again)
        _print(tally, args.json)
    for name, complaint in tally.failed.items():
        print(f"hadamrnn reproduce: {name}: {complaint}", file=sys.stderr)
    return 2 if tally.failed else 1 if tally.stopped else 0


def _jobs(args: argparse.Namespace) -> list[Job]:
    from hadamrnn.errors import InputError
    from hadamrnn.paper.runner import Job
    from hadamrnn.paper.selection import parse_settings, select

    overrides = parse_settings(args.set)
    if "seed" in overrides:
        raise InputError("A seed is given by --seed, not by --set.")
    if args.threads is not None:
        overrides["threads"] = args.threads
    if args.budget is not None and not args.budget > 0:
        raise InputError(f"--budget must be a positive number of minutes, got {args.budget:g}.")
    jobs = [
        Job(experiment, args.preset, seed, overrides, args.budget)
        for experiment, seeds in select(args.table, args.rows)
        for seed in args.seed or seeds
    ]
    for job in jobs:
        _ = job.config  # a bad setting is refused before anything runs
    return jobs


def _list(jobs: list[Job], places: Places, as_json: bool) -> None:
    rows = [
        {
            "key": job.experiment.key,
            "preset": job.preset,
            "seed": job.seed,
            "measured": places.result(job).is_file(),
        }
        for job in jobs
    ]
    if as_json:
        print(json.dumps(rows))
        return
    for row in rows:
        state = "measured" if row["measured"] else "missing"
        print(f"{row['key']:32} {row['preset']:6} seed {row['seed']}  {state}")


def _print(tally: Tally, as_json: bool) -> None:
    if as_json:
        figures = {
            "measured": [_figures(result) for result in tally.measured],
            "skipped": [job.name for job in tally.skipped],
            "elsewhere": [job.name for job in tally.elsewhere],
            "failed": tally.failed,
            "stopped": tally.stopped,
        }
        print(json.dumps(figures))
        return
    from hadamrnn.training.progress import show_time

    for result in tally.measured:
        integer = (
            "" if result.integer is None else f", {result.integer.activation_bits} bits {_show(result, True)}"
        )
        print(f"{result.name:40} test {_show(result, False)}{integer}  {show_time(result.seconds)}")
    print(
        f"{len(tally.measured)} measured, {len(tally.skipped)} had a result, "
        f"{len(tally.elsewhere)} run elsewhere, {len(tally.failed)} failed"
    )


def _figures(result: Result) -> dict[str, Any]:
    return {
        "name": result.name,
        "metric": result.metric,
        "test": result.test,
        "integer": None if result.integer is None else result.integer.test,
        "seconds": result.seconds,
    }


def _show(result: Result, integer: bool) -> str:
    value = result.test if not integer or result.integer is None else result.integer.test
    if value is None:
        return "labels are private"
    return f"{100 * value:.2f} %" if result.metric == "accuracy" else f"{value:.3g}"


def _memorization(args: argparse.Namespace) -> int:
    from hadamrnn.paper.memorization import run_memorization, write_memorization

    found = run_memorization((args.seed or [0])[0])
    path = write_memorization(Path(args.results), found)
    figures = {
        "file": str(path),
        "linear": {"first": found.e_linear[0], "last": found.e_linear[-1]},
        "relu": {"first": found.e_relu[0], "last": found.e_relu[-1]},
    }
    if args.json:
        print(json.dumps(figures))
        return 0
    for name, (first, last) in (
        ("linear", (found.e_linear[0], found.e_linear[-1])),
        ("relu", (found.e_relu[0], found.e_relu[-1])),
    ):
        print(
            f"{name:7} a unit added to x_1 moves h_{found.seq_length} by {first:.3g}, "
            f"a unit added to x_{found.seq_length} by {last:.3g}"
        )
    print(f"written: {path}")
    return 0

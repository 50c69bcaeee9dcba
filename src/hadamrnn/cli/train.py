"""`hadamrnn train`: train a network, or go on with a run that was stopped."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hadamrnn.cli.arguments import (
    TASK_HELP,
    add_data_option,
    add_json_option,
    add_model_option,
    add_settings,
    add_task_option,
    parse_options,
    parse_task,
    read_settings,
)
from hadamrnn.errors import InputError
from hadamrnn.interrupts import REPEAT, stopped_by_signals
from hadamrnn.training.config import OPTIONS, TrainingConfig, resolve_config

if TYPE_CHECKING:
    from hadamrnn.training.loop import Outcome

EXAMPLE = """examples:
  hadamrnn train digits --out runs/digits
  hadamrnn train pmnist --preset best --hidden-size 512 --weight-bits 4 --out runs/pmnist
  hadamrnn train har2 --model fastgrnn --hidden-size 80 --model-option recurrent_rank=20 --out runs/fastgrnn
  hadamrnn train data.npz --epochs 50 --out runs/mine
  hadamrnn train --resume runs/pmnist
  torchrun --nproc-per-node 2 -m hadamrnn train pmnist --threads 1 --out runs/two"""

SETTINGS = [name for name in OPTIONS if name != "preset"]


def add_parser(subparsers: Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "train",
        help="train a network, or resume a run",
        description="Train a network. Settings come from the preset, then --config, then the options.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "task",
        nargs="?",
        metavar="TASK",
        help=TASK_HELP,
    )
    parser.add_argument("--out", metavar="RUN", help="the run folder, new or empty")
    parser.add_argument("--resume", metavar="RUN", help="go on with this run; takes no other settings")
    parser.add_argument("--preset", metavar="NAME", help="paper, quick or best (default quick)")
    parser.add_argument("--config", metavar="FILE", help="YAML file of settings, as RUN/config.yaml")
    add_task_option(parser)
    add_model_option(parser)
    add_data_option(parser)
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    parser.add_argument(
        "--checkpoint-seconds", type=float, default=30.0, metavar="X", help="time between checkpoints"
    )
    add_json_option(parser)
    settings = parser.add_argument_group("settings")
    add_settings(settings, SETTINGS)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    settings = read_settings(args, SETTINGS)
    if args.resume is None and args.out is None:
        raise InputError("A run needs a folder: --out RUN for a new one, --resume RUN for an old one.")
    if args.resume is not None:
        options = [*args.task_option, *args.model_option]
        given = [args.task, args.out, args.preset, args.config, *options, *settings]
        if any(value is not None for value in given):
            raise InputError("--resume takes all settings from the run folder. Leave the others out.")
    from hadamrnn.training import run as runs
    from hadamrnn.training.progress import choose_watcher

    path = Path(args.resume or args.out)

    def advice() -> str:
        begun = (path / "config.yaml").is_file()
        return f"go on with: hadamrnn train --resume {path}" if begun else REPEAT

    with stopped_by_signals(advice) as stop:
        sitting = runs.Sitting(args.data_dir, choose_watcher(args.quiet), args.checkpoint_seconds, stop)
        if args.resume is not None:
            _note_changes(args.resume)
            outcome = runs.resume(args.resume, sitting)
        else:
            outcome = runs.train(_config(args, settings), args.out, sitting)
        _report(args, outcome)


def _note_changes(path: str) -> None:
    """Say what is no longer as it was when the run began."""
    from hadamrnn.training.folder import RunFolder

    changes = RunFolder.open(path).version_changes()
    if changes:
        print(f"note: {', '.join(changes)}: the end may differ in its last bits", file=sys.stderr)


def _config(args: argparse.Namespace, settings: dict[str, object]) -> TrainingConfig:
    task, options = parse_task(args.task, args.task_option)
    model_options = parse_options("--model-option", args.model_option)
    overrides = {**settings, "task_options": options, "model_options": model_options}
    return resolve_config(task, preset=args.preset, file=args.config, overrides=overrides)


def _report(args: argparse.Namespace, outcome: Outcome) -> None:
    """Print the result, from the first process alone."""
    import os

    if int(os.environ.get("RANK", "0")) > 0:
        return
    from hadamrnn.training.folder import RunFolder
    from hadamrnn.training.progress import show_metric

    folder = RunFolder.open(args.resume or args.out)
    figures = {
        "run": str(folder.path),
        "finished": outcome.finished,
        "steps": outcome.step,
        "metric": folder.facts.metric,
        "best_validation": outcome.best_metric,
        "best_step": outcome.best_step,
        "seconds": round(outcome.seconds, 3),
    }
    if args.json:
        print(json.dumps(figures))
        return
    best = "none yet"
    if outcome.best_metric is not None:
        best = f"{show_metric(folder.facts.metric, outcome.best_metric)} at step {outcome.best_step}"
    state = "trained" if outcome.finished else "stopped"
    print(f"{state} after {outcome.step} steps, {outcome.seconds:.1f} s; best validation: {best}")
    if outcome.finished:
        print(f"next: hadamrnn eval {folder.path}", file=sys.stderr)

"""`hadamrnn eval`: the task's metric of a trained model, and predictions in GLUE's format."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hadamrnn.cli.arguments import (
    add_data_option,
    add_json_option,
    add_run_argument,
    add_threads_option,
    argument,
)
from hadamrnn.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

    from hadamrnn.quantization.network import IntegerNetwork

GLUE_TASKS = ("sst2", "qqp")
SPLITS = ("train", "validation", "test")


def add_parser(subparsers: Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "eval",
        help="the task's metric of a trained model",
        description="Print the metric of a run's best model over a split of its task.",
        epilog="example:  hadamrnn eval runs/pmnist --split test",
    )
    add_run_argument(parser)
    parser.add_argument("--split", choices=SPLITS, default="test", help="default test")
    parser.add_argument(
        "--predictions",
        type=argument(Path),
        metavar="FILE",
        help="write predictions for GLUE's website (sst2, qqp)",
    )
    parser.add_argument(
        "--integer", action="store_true", help="run the integer network that `hadamrnn quantize` wrote"
    )
    add_data_option(parser)
    add_threads_option(parser)
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    import torch

    from hadamrnn.quantization.network import IntegerNetwork
    from hadamrnn.training.evaluate import decide, evaluate, predict_logits
    from hadamrnn.training.progress import show_metric
    from hadamrnn.training.run import load_run, load_splits

    if args.threads is not None:
        torch.set_num_threads(args.threads)
    folder, model = load_run(args.run_folder)
    config = folder.config
    if args.predictions is not None and config.task not in GLUE_TASKS:
        raise InputError(
            f"--predictions is in GLUE's format, for {' and '.join(GLUE_TASKS)}; this run's task is "
            f"{config.task}. Use hadamrnn predict."
        )
    network = load_integer(folder.path, args.threads) if args.integer else model
    splits = load_splits(folder, args.data_dir)
    split = getattr(splits, args.split)
    figures: dict[str, object] = {"task": config.task, "split": args.split, "samples": len(split)}
    if args.predictions is not None:
        write_glue(Path(args.predictions), decide(predict_logits(network, split)))
        figures["predictions"] = str(args.predictions)
    if split.labelled or args.predictions is None:
        figures["metric"], figures["value"] = splits.metric, evaluate(network, split, splits.metric)
    if isinstance(network, IntegerNetwork):
        figures["saturations"] = network.saturations
        figures["input_saturations"] = network.input_saturations
    if splits.note:
        figures["note"] = splits.note
    if args.json:
        print(json.dumps(figures))
        return
    value = show_metric(splits.metric, float(str(figures["value"]))) if "value" in figures else "no labels"
    note = f"; {splits.note}" if splits.note else ""
    if isinstance(network, IntegerNetwork):
        note = f", {network.saturations} states and {network.input_saturations} inputs saturated{note}"
    print(f"{config.task} {args.split}: {value} ({len(split):,} samples{note})")
    if args.predictions is not None:
        print(f"predictions: {args.predictions}")


def load_integer(folder: Path, threads: int | None) -> IntegerNetwork:
    """Return the integer network of a run."""
    from hadamrnn import fixedpoint
    from hadamrnn.quantization.network import IntegerNetwork

    path = folder / fixedpoint.FILE_NAME
    if not path.is_file():
        raise InputError(f"{folder} holds no integer network yet. Make one with: hadamrnn quantize {folder}.")
    return IntegerNetwork(fixedpoint.load(path), threads)


def write_glue(path: Path, labels: Tensor) -> None:
    """Write `index` and `prediction`, tab separated, as GLUE's website takes it."""
    from hadamrnn.files import write_atomically

    rows = ["index\tprediction", *(f"{index}\t{label}" for index, label in enumerate(labels.tolist()))]
    write_atomically(path, ("\n".join(rows) + "\n").encode())

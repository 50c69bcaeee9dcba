"""`hadamrnn predict`: labels or values for a user's own arrays."""

from __future__ import annotations

import argparse
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hadamrnn.cli.arguments import JsonOption, add_command, positional, set_threads
from hadamrnn.cli.eval import LAYOUT_HELP, load_integer
from hadamrnn.errors import InputError
from hadamrnn.settings import Threads, option

DESCRIPTION = """Print what a run's best model says about the arrays of an npz file:
x, (n, time, channels) or (n, time), in the units of the training data (raw sensor values where the
task standardises; whole numbers 0..255 or real ones 0..1 for MNIST, for pmnist in its permuted
order; ids for text), and optionally lengths, (n,)."""


def add_parser(subparsers: Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "predict",
        help="labels or values for your own arrays",
        description=DESCRIPTION,
        epilog="example:  hadamrnn predict runs/mine data.npz --out predictions.npz",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_command(parser, PredictOptions, run)


@dataclass(frozen=True, kw_only=True)
class PredictOptions(JsonOption):
    run_folder: Path = positional("RUN", "folder that `hadamrnn train` wrote")
    data: Path = positional("DATA.npz", "arrays x and, where rows differ in length, lengths")
    integer: bool = option(False, "run the integer network that `hadamrnn quantize` wrote")
    layout: Literal["time-first", "channels-first"] | None = option(None, LAYOUT_HELP)
    out: Path | None = option(None, "write an npz file with arrays prediction and logits")
    force: bool = option(False, "replace the file of --out")
    threads: Threads | None = option(None, "CPU threads; default torch's choice")


def run(args: PredictOptions) -> None:
    from hadamrnn.data.npz import read_npz
    from hadamrnn.training.inference import named, predict, prepare_arrays
    from hadamrnn.training.run import load_run

    _check_out(args)
    set_threads(args.threads)
    folder, model = load_run(args.run_folder)
    network = load_integer(folder.path, args.threads) if args.integer else model
    layout = args.layout or folder.config.task_options.get("layout")
    split = prepare_arrays(read_npz(args.data), model, folder.facts, args.data, layout)
    prediction, logits = predict(network, split, folder.facts)
    readable = named(prediction, folder.facts)
    if args.out is not None:
        _write(args.out, readable, logits.numpy())
    if args.json:
        print(json.dumps({"predictions": readable}))
    elif args.out is None:
        for value in readable:
            print(" ".join(map(str, value)) if isinstance(value, list) else value)
    else:
        print(f"{len(readable):,} predictions: {args.out}")


def _check_out(args: PredictOptions) -> None:
    if args.out is None or not args.out.exists():
        return
    if args.data.exists() and args.out.samefile(args.data):
        raise InputError(f"--out must not be the file that is read, got {args.out}. Name another.")
    if not args.force:
        raise InputError(f"--out must name a new file, {args.out} exists. Name another, or add --force.")


def _write(path: Path, readable: list[Any], logits: Any) -> None:
    """Write predictions as they are printed, names or values, and the logits behind them."""
    import numpy as np

    from hadamrnn.files import write_atomically

    content = io.BytesIO()
    np.savez(content, prediction=np.array(readable), logits=logits)
    write_atomically(path, content.getvalue())

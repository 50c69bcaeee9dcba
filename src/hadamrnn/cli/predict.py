"""`hadamrnn predict`: labels or values for a user's own arrays."""

from __future__ import annotations

import argparse
import io
import json
from pathlib import Path
from typing import Any

from hadamrnn.cli.arguments import add_json_option, add_run_argument, add_threads_option, argument

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
    add_run_argument(parser)
    parser.add_argument("data", metavar="DATA.npz", help="arrays x and, where rows differ in length, lengths")
    parser.add_argument(
        "--out",
        type=argument(Path),
        metavar="FILE",
        help="write an npz file with arrays prediction and logits",
    )
    add_threads_option(parser)
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    import numpy as np
    import torch

    from hadamrnn.data.npz import read_npz
    from hadamrnn.files import write_atomically
    from hadamrnn.training.inference import named, predict, prepare_arrays
    from hadamrnn.training.run import load_run

    if args.threads is not None:
        torch.set_num_threads(args.threads)
    folder, model = load_run(args.run_folder)
    split = prepare_arrays(read_npz(args.data), model, folder.facts, args.data)
    prediction, logits = predict(model, split, folder.facts)
    if args.out is not None:
        content = io.BytesIO()
        names = np.array(folder.facts.class_names)
        np.savez(content, prediction=prediction.numpy(), logits=logits.numpy(), class_names=names)
        write_atomically(Path(args.out), content.getvalue())
    readable = named(prediction, folder.facts)
    if args.json:
        print(json.dumps({"predictions": readable}))
    elif args.out is None:
        for value in readable:
            print(" ".join(map(str, value)) if isinstance(value, list) else value)
    else:
        print(f"{len(readable):,} predictions: {args.out}")

"""`hadamrnn demo`: a network on handwritten digits, from data to its size."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import Any

from hadamrnn.cli.arguments import add_json_option


def add_parser(subparsers: Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "demo",
        help="train on digits and show accuracy and size",
        description="Train a network on scikit-learn's handwritten digits, read pixel by pixel.",
        epilog="example:  hadamrnn demo --epochs 10",
    )
    parser.add_argument("--epochs", type=int, default=None, help="fewer for a quick look (default 40)")
    parser.add_argument("--seed", type=int, default=0)
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    from hadamrnn.demo import EPOCHS, HIDDEN_SIZE, WEIGHT_BITS, run_demo
    from hadamrnn.errors import InputError

    epochs = EPOCHS if args.epochs is None else args.epochs
    if epochs < 1:
        raise InputError(f"--epochs must be at least 1, got {epochs}.")

    def report(epoch: int, accuracy: float) -> None:
        if not args.json and epoch in {1, epochs, *range(0, epochs, 10)}:
            print(f"epoch {epoch:3d} of {epochs}   validation accuracy {100 * accuracy:6.2f} %", flush=True)

    result = run_demo(report, epochs=epochs, seed=args.seed)
    if args.json:
        print(json.dumps(asdict(result)))
        return
    print(f"\nhandwritten digits, one pixel a step: {HIDDEN_SIZE} hidden units, {WEIGHT_BITS}-bit weights")
    print(f"  test accuracy  {100 * result.test_accuracy:6.2f} %")
    print(f"  size           {result.kilobytes:6.2f} kB")
    print(f"  time           {result.seconds:6.1f} s")

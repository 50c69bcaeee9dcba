"""`hadamrnn demo`: handwritten digits from data to C."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hadamrnn.cli.arguments import add_json_option, positive

if TYPE_CHECKING:
    from hadamrnn.demo import DemoResult

C_TEST = {True: "the same bits as Python", False: "DIFFERS FROM PYTHON", None: "not run, no compiler"}


def add_parser(subparsers: Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "demo",
        help="handwritten digits from data to C",
        description="Train a network on scikit-learn's handwritten digits, read pixel by pixel; quantize it, "
        "export it as C, compile that and check it bit for bit.",
        epilog="example:  hadamrnn demo --epochs 10 --out demo",
    )
    parser.add_argument("--epochs", type=positive, help="fewer for a quick look (default 100)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("demo"), help="a new folder (default demo)")
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from hadamrnn.demo import run_demo
    from hadamrnn.training.progress import Watcher, choose_watcher

    watcher = Watcher() if args.json else choose_watcher(quiet=False)
    result = run_demo(args.out, watcher, epochs=args.epochs, seed=args.seed)
    print(json.dumps(asdict(result)) if args.json else "\n".join(_lines(result)))
    return 1 if result.c_test is False else 0


def _lines(result: DemoResult) -> list[str]:
    return [
        f"handwritten digits, one pixel a step: {result.hidden_size} hidden units, "
        f"{result.weight_bits}-bit weights, 12-bit states",
        f"  test accuracy, float    {100 * result.float_accuracy:6.2f} %",
        f"  test accuracy, integer  {100 * result.integer_accuracy:6.2f} %",
        f"  C on this machine       {C_TEST[result.c_test]}",
        f"  weights                 {result.payload_bytes} bytes",
        f"  additions for W h       {result.additions_per_step} a step, no multiplication",
        f"  training time           {result.training_seconds:.1f} s",
        f"  the C is in             {result.c_folder}",
    ]

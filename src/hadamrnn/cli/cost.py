"""`hadamrnn cost`: bytes and operations of a network, the paper's count and ours."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import Any

from hadamrnn.cli.arguments import add_json_option, weight_bits

EXAMPLE = "example:  hadamrnn cost --hidden-size 512 --input-size 1 --output-size 10 --activation-bits 12"


def add_parser(subparsers: Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "cost",
        help="bytes and operations of a network",
        description="Print what a network costs to store and to run for one time step.",
        epilog=EXAMPLE,
    )
    parser.add_argument("--hidden-size", type=int, required=True, help="d_h")
    parser.add_argument(
        "--input-size", type=int, required=True, help="d_in: channels, symbols or embedding width"
    )
    parser.add_argument("--output-size", type=int, required=True, help="d_out")
    parser.add_argument("--num-blocks", type=int, default=1, help="q, diagonal blocks of W (default 1)")
    parser.add_argument(
        "--weight-bits", type=weight_bits, default=4, help="of U and V: 2..16, ternary or none"
    )
    parser.add_argument(
        "--activation-bits", type=int, help="of states and biases; floating point if left out"
    )
    parser.add_argument("--one-hot", action="store_true", help="inputs are one-hot symbols")
    parser.add_argument("--vocabulary-size", type=int, help="rows of an embedding table, counted apart")
    parser.add_argument("--column-switches", action="store_true", help="signs on columns too")
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    from hadamrnn.fixedpoint.cost import fast_step_cost, network_size, paper_step_cost

    size = network_size(
        args.hidden_size,
        args.input_size,
        args.output_size,
        weight_bits=args.weight_bits,
        activation_bits=args.activation_bits,
        vocabulary_size=args.vocabulary_size,
        column_switches=args.column_switches,
    )
    sizes = (args.hidden_size, args.input_size, args.output_size)
    options = {"num_blocks": args.num_blocks, "weight_bits": args.weight_bits, "one_hot": args.one_hot}
    paper = paper_step_cost(*sizes, **options)
    fast = fast_step_cost(*sizes, **options)
    figures = {
        "kilobytes": round(size.kilobytes, 4),
        "kilobytes_with_embedding": round(size.kilobytes_with_embedding, 4),
        "bits": asdict(size),
        "operations_per_step": {"paper": asdict(paper), "fast_transform": asdict(fast)},
    }
    print(json.dumps(figures) if args.json else "\n".join(_lines(size, paper, fast)))


def _lines(size: Any, paper: Any, fast: Any) -> list[str]:
    lines = [
        f"size          {size.kilobytes:9.2f} kB",
        f"  signs       {size.signs / 8192:9.2f} kB",
        f"  U and V     {size.weights / 8192:9.2f} kB",
        f"  biases      {size.biases / 8192:9.2f} kB",
    ]
    if size.embedding:
        lines.append(f"  embedding   {size.embedding / 8192:9.2f} kB, not counted above")
    lines.append(f"{'per step':13} {'multiplications':>15} {'additions':>12} {'with the fast transform':>24}")
    for name in ("input", "recurrent", "output"):
        counted, ours = getattr(paper, name), getattr(fast, name)
        lines.append(
            f"  {name:11} {counted.multiplications:15,} {counted.additions:12,} {ours.additions:24,}"
        )
    return lines

"""`hadamrnn bench inference` and `hadamrnn bench edge`: a trained network at work, here and on devices."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hadamrnn.cli.arguments import JsonOption, Rounds, add_command
from hadamrnn.settings import option


def add_inference(benches: Any) -> None:
    add_command(
        benches,
        "inference",
        InferenceOptions,
        run_inference,
        help="sequences per second: C, numpy, onnxruntime, torch",
        description="Run the same network by everything that can run it here, in turns: on one thread, the "
        "native engine also on all cores.",
        examples=("hadamrnn bench inference --shapes mnist --json",),
    )


@dataclass(frozen=True, kw_only=True)
class InferenceOptions(JsonOption):
    shapes: tuple[str, ...] = option((), "mnist, mnist5120, har, copy (default: all)")
    rounds: Rounds = option(3, "the median counts (default 3)")


def run_inference(args: InferenceOptions) -> None:
    from hadamrnn.bench import inference

    rows, left_out = inference.run_inference(list(args.shapes or inference.SHAPES), rounds=args.rounds)
    if args.json:
        print(json.dumps({"rows": [asdict(row) for row in rows], "left_out": left_out}))
        return
    ratios = f"{'x plain':>9}{'x numpy':>9}{'limit':>7}"
    print(f"{'shape':10}{'engine':24}{'sequences/s':>13}{'ns a step':>11}{ratios}")
    for row in rows:
        plain = "-" if row.ratio is None else f"{row.ratio:,.2f}"
        share = "" if row.limit_share is None else f"{row.limit_share:.0%}"
        figures = f"{row.sequences_per_second:>13,.1f}{row.nanoseconds_per_step:>11,.0f}{plain:>9}"
        print(f"{row.shape:10}{row.engine:24}{figures}{row.numpy_ratio:>9.2f}{share:>7}")
    for line in left_out:
        print(f"left out: {line}")


def add_edge(benches: Any) -> None:
    add_command(
        benches,
        "edge",
        PageOptions,
        run_edge,
        help="flash, RAM and cost of a step on microcontrollers",
        description="Measure networks on every target whose tools are installed, beside two rivals.",
        examples=("hadamrnn bench edge --out docs/edge.md",),
    )


@dataclass(frozen=True, kw_only=True)
class PageOptions(JsonOption):
    out: Path | None = option(None, "write the page there, not to the terminal")


def run_edge(args: PageOptions) -> None:
    from hadamrnn.bench import edge

    rows, left_out = edge.run_edge()
    publish(args, rows, left_out, edge.edge_page(rows, left_out))


def publish(args: PageOptions, rows: Sequence[Any], left_out: list[str], page: str) -> None:
    """Write or print what a benchmark found."""
    from hadamrnn.files import write_atomically

    if args.out is not None:
        write_atomically(args.out, page.encode())
    if args.json:
        print(json.dumps({"rows": [asdict(row) for row in rows], "left_out": left_out}))
    elif args.out is None:
        print(page)

"""`hadamrnn demo`: train on handwritten digits, quantize, export C and check it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from hadamrnn.cli.arguments import JsonOption, command
from hadamrnn.settings import Range, Seed, option


@dataclass(frozen=True, kw_only=True)
class DemoOptions(JsonOption):
    epochs: Annotated[int, Range(1, 10_000)] | None = option(
        None, "passes through the training set (default 100); fewer take less time"
    )
    seed: Seed = option(0, "seed of the network and of the order of samples (default 0)")
    out: Path = option(Path("demo"), "new or empty folder to write to (default demo)")
    quiet: bool = option(False, "show no progress")


@command(
    help="train on handwritten digits and turn the network into C",
    description="Train a network that reads scikit-learn's handwritten digits pixel by pixel, quantize it, "
    "export it as C, compile the C, classify the test digits with it, and check it bit for bit. Print a "
    "table and write a page, OUT/demo.html.",
    examples=("hadamrnn demo --epochs 10 --out demo",),
)
def run(args: DemoOptions) -> int:
    from hadamrnn.demo import headline, run_demo, table
    from hadamrnn.training.loop import choose_watcher

    watcher = choose_watcher(args.quiet or args.json)
    result = run_demo(args.out, watcher, epochs=args.epochs, seed=args.seed)
    rows = [*table(result), ("the C", result.c_folder), ("the page", result.page)]
    args.show(asdict(result), headline(result), *(f"  {label:<24}{value}" for label, value in rows))
    return 1 if result.c_test is False else 0

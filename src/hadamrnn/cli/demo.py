"""`hadamrnn demo`: handwritten digits from data to C."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from hadamrnn.cli.arguments import JsonOption, command
from hadamrnn.errors import InputError
from hadamrnn.settings import Range, Seed, option

if TYPE_CHECKING:
    from hadamrnn.demo.chain import DemoResult, PageContent


@dataclass(frozen=True, kw_only=True)
class DemoOptions(JsonOption):
    epochs: Annotated[int, Range(1, 10_000)] | None = option(
        None, "passes through the training set (default 100); fewer for a quick look"
    )
    seed: Seed = option(0, "seed of the network and of the order of samples (default 0)")
    out: Path = option(Path("demo"), "new or empty folder to write to (default demo)")
    quiet: bool = option(False, "show no progress")


@command(
    help="handwritten digits from data to C",
    description="Train a network that reads scikit-learn's handwritten digits pixel by pixel, quantize it, "
    "export it as C, compile the C, classify the test digits with it, and check it bit for bit. Print a "
    "table and write a page, OUT/demo.html.",
    examples=("hadamrnn demo --epochs 10 --out demo",),
)
def run(args: DemoOptions) -> int:
    from hadamrnn.demo.chain import headline, run_demo, table
    from hadamrnn.training.progress import choose_watcher

    watcher = choose_watcher(args.quiet or args.json)
    result, content = run_demo(args.out, watcher, epochs=args.epochs, seed=args.seed, say=watcher.remark)
    page = _write_page(result, content, args.out)
    rows = [*table(result), ("the C", result.c_folder), ("the page", page)]
    lines = (f"  {label:<24}{value}" for label, value in rows)
    args.show({**asdict(result), "page": page}, headline(result), *lines)
    return 1 if result.c_test is False else 0


def _write_page(result: DemoResult, content: PageContent, out: Path) -> str:
    """Return where the page is, or why there is none."""
    try:
        from hadamrnn.demo.page import write_page

        return str(write_page(result, content, out))
    except InputError as error:  # no matplotlib
        return f"not written. {error}"

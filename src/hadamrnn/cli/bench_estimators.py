"""`hadamrnn bench estimators`: the classifier beside others, on small sets of real series."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from hadamrnn.cli.arguments import add_command
from hadamrnn.cli.bench_inference import PageOptions, publish
from hadamrnn.settings import Range, option


def add_estimators(benches: Any) -> None:
    add_command(
        benches,
        "estimators",
        EstimatorsOptions,
        run,
        help="the scikit-learn classifier beside others",
        description="Fit HadamRNNClassifier, a GRU, MiniRocket and logistic regression to the sets of real "
        "series that sktime carries.",
        examples=("hadamrnn bench estimators --seeds 5 --out docs/estimators.md",),
    )


@dataclass(frozen=True, kw_only=True)
class EstimatorsOptions(PageOptions):
    sets: tuple[str, ...] = option(
        (),
        "ACSF1, ArrowHead, BasicMotions, GunPoint, ItalyPowerDemand, JapaneseVowels, OSULeaf, PLAID, "
        "UCI HAR (default: all)",
    )
    classifiers: tuple[str, ...] = option(
        (), "HadamRNN, HadamRNN 16 kB, GRU 32, MiniRocket, logistic regression (default: all)"
    )
    seeds: Annotated[int, Range(1, 1000)] = option(5, "fits of each classifier (default 5); one of a GRU")
    keep: Path | None = option(None, "a file of rows: those in it are not measured again, new ones join it")


def run(args: EstimatorsOptions) -> None:
    from hadamrnn.bench import estimators

    rows, left_out = estimators.run_estimators(
        list(args.sets or estimators.SETS), classifiers=args.classifiers, seeds=args.seeds, keep=args.keep
    )
    publish(args, rows, left_out, estimators.estimators_page(rows, args.seeds, left_out))

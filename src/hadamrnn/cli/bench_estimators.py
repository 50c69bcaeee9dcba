"""`hadamrnn bench estimators`: the classifier beside others, on small sets of real series."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hadamrnn.cli.arguments import add_json_option, positive


def add_estimators(benches: Any) -> None:
    parser: argparse.ArgumentParser = benches.add_parser(
        "estimators",
        help="the scikit-learn classifier beside others",
        description="Fit HadamRNNClassifier, a GRU, MiniRocket and logistic regression to the sets of real "
        "series that sktime carries.",
        epilog="example:  hadamrnn bench estimators --seeds 5 --out docs/estimators.md",
    )
    parser.add_argument(
        "--sets",
        nargs="+",
        metavar="NAME",
        help="ACSF1, ArrowHead, BasicMotions, GunPoint, ItalyPowerDemand, JapaneseVowels, OSULeaf, PLAID "
        "(default: all)",
    )
    parser.add_argument("--seeds", type=positive, default=5, help="fits of each network (default 5)")
    parser.add_argument("--out", metavar="FILE", type=Path, help="write the page there, not to the terminal")
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    from hadamrnn.bench import estimators
    from hadamrnn.files import write_atomically

    rows, left_out = estimators.run_estimators(args.sets or list(estimators.LOADERS), seeds=args.seeds)
    page = estimators.estimators_page(rows, args.seeds, left_out)
    if args.out is not None:
        write_atomically(args.out, page.encode())
    if args.json:
        print(json.dumps({"rows": [asdict(row) for row in rows], "left_out": left_out}))
    elif args.out is None:
        print(page)

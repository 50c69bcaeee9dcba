"""`hadamrnn bench estimators`: the classifier beside a GRU, on small sets of real series."""

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
        help="the scikit-learn classifier beside a GRU",
        description="Fit HadamRNNClassifier and a GRU to four sets of real series, which sktime carries.",
        epilog="example:  hadamrnn bench estimators --seeds 5 --out docs/estimators.md",
    )
    parser.add_argument(
        "--sets",
        nargs="+",
        metavar="NAME",
        help="BasicMotions, GunPoint, ItalyPowerDemand, JapaneseVowels (default: all)",
    )
    parser.add_argument("--seeds", type=positive, default=5, help="fits of each network (default 5)")
    parser.add_argument("--out", metavar="FILE", type=Path, help="write the page there, not to the terminal")
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    from hadamrnn.bench import estimators
    from hadamrnn.files import write_atomically

    rows = estimators.run_estimators(args.sets or list(estimators.LOADERS), seeds=args.seeds)
    page = estimators.estimators_page(rows, args.seeds)
    if args.out is not None:
        write_atomically(args.out, page.encode())
    if args.json:
        print(json.dumps({"rows": [asdict(row) for row in rows]}))
    elif args.out is None:
        print(page)

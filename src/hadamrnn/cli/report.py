"""`hadamrnn report`: results become Markdown tables and one HTML page with plots."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from hadamrnn.cli.arguments import add_json_option


def add_parser(subparsers: Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "report",
        help="published beside measured, as Markdown and HTML",
        description="Write RESULTS.md, RESULTS.html and figures/ from the JSON files of hadamrnn reproduce. "
        "The same results give the same bytes.",
        epilog="example:  hadamrnn report --results results --out report",
    )
    parser.add_argument("--results", default="results", metavar="DIR", help="default results")
    parser.add_argument(
        "--out", required=True, metavar="DIR", help="where to write; replaces an earlier report"
    )
    parser.add_argument("--force", action="store_true", help="replace also files that no report wrote")
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    from hadamrnn.paper.report import write_report

    written = [str(path) for path in write_report(Path(args.results), Path(args.out), args.force)]
    if args.json:
        print(json.dumps({"written": written}))
    else:
        print(f"written: {written[0]}, {written[1]} and {len(written) - 2} figures")

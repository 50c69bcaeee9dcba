"""`hadamrnn report`: turn results into Markdown tables and one HTML page with plots."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hadamrnn.cli.arguments import JsonOption, command
from hadamrnn.settings import option


@dataclass(frozen=True, kw_only=True)
class ReportOptions(JsonOption):
    results: Path = option(
        Path("reproduction/results"), "folder that `hadamrnn reproduce` wrote (default reproduction/results)"
    )
    out: Path = option(
        Path("reproduction"),
        "folder to write to; an earlier report in it is replaced (default reproduction)",
    )
    force: bool = option(False, "also replace files that no report wrote")


@command(
    help="compare the paper's figures with measured ones, as Markdown and HTML",
    description="Write RESULTS.md, RESULTS.html and figures/ from the results of `hadamrnn reproduce`. "
    "The same results give the same bytes.",
    examples=("hadamrnn report", "hadamrnn report --results checked --out report"),
)
def run(args: ReportOptions) -> None:
    from hadamrnn_paper.report import write_report

    written = [str(path) for path in write_report(args.results, args.out, args.force)]
    line = f"written: {written[0]}, {written[1]} and {len(written) - 2} figures"
    args.show({"written": written}, line)

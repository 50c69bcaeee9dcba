"""Write RESULTS.md, RESULTS.html and the figures from a folder of results, deterministically.

Start at `write_report`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hadamrnn.errors import InputError
from hadamrnn.files import write_atomically
from hadamrnn.network import Network
from hadamrnn.pages.document import Document, Section, to_html
from hadamrnn_paper.compare import measurements
from hadamrnn_paper.front import Standing, networks_section, standing_section, standings
from hadamrnn_paper.markdown import to_markdown
from hadamrnn_paper.memorization import Memorization, read_memorization
from hadamrnn_paper.report_figures import (
    additions_cross_entropy,
    curve_pictures,
    memorization_picture,
    size_accuracy,
    standing_picture,
)
from hadamrnn_paper.report_tables import (
    complexity_section,
    others_section,
    recipe_section,
    scales_section,
    selection_section,
    table_section,
    times_section,
)
from hadamrnn_paper.results import Result, read_results
from hadamrnn_paper.rows import Row
from hadamrnn_paper.tables import TABLES

FIGURES = "figures"
TITLE = "HadamRNN: published and measured"


def write_report(results: Path, out: Path, force: bool = False) -> list[Path]:
    """Write the report on a folder of results; return the written files.

    Args:
        force: also replace files that are not reports.
    """
    if not results.is_dir():
        raise InputError(f"{results} must be a folder of results. Make one with: hadamrnn reproduce results.")
    document = build_document(read_results(results), read_memorization(results))
    pictures = [picture for section in document.sections for picture in section.pictures]
    contents = {
        out / "RESULTS.md": to_markdown(document, FIGURES),
        out / "RESULTS.html": to_html(document),
        **{out / FIGURES / f"{picture.name}.svg": picture.svg for picture in pictures},
    }
    foreign = [path for path in contents if not force and path.exists() and not _is_report(path)]
    if foreign:
        raise InputError(f"{foreign[0]} was not written by a report. Choose another --out, or use --force.")
    (out / FIGURES).mkdir(parents=True, exist_ok=True)
    for path, text in contents.items():
        write_atomically(path, text.encode())
    return list(contents)


def _is_report(path: Path) -> bool:
    """Return whether this file is from an earlier report: it has the report's title, or a figure's ids."""
    marks = {".md": f"# {TITLE}\n", ".html": f"<title>{TITLE}</title>", ".svg": f'id="{path.stem}-'}
    return path.is_file() and marks[path.suffix].encode() in path.read_bytes()


def build_document(results: Sequence[Result], memorization: Memorization | None) -> Document:
    """Build the report: the comparison with the paper, how to read the tables, and every table."""
    found = standings(results)
    others = others_section(results)
    sections = (
        standing_section(found, standing_picture(found)),
        networks_section(found, (size_accuracy("pmnist", results), size_accuracy("smnist", results))),
        Section("reading", "How to read the tables", _legend(results)),
        recipe_section(results),
        _figures_section(results, memorization),
        *(table_section(table, results) for table in TABLES.values()),
        selection_section(results),
        times_section(results),
        scales_section(results),
        complexity_section(),
        *([others] if others else []),
    )
    return Document(TITLE, (_lead(found),), sections)


def _lead(found: Sequence[Standing]) -> str:
    """Return a one-sentence summary of the page."""
    judged = [each for each in found if each.best is not None]
    if not judged:
        return "Nothing has been measured here yet."
    level = [each for each in judged if each.is_level]
    ahead = [each for each in judged if each.lead.mark == "better" and not each.is_level]
    stacks = [each.task.title for each in judged if each.is_leaky_stack]
    return (
        f"On {len(ahead)} of {len(judged)} tasks a network trained here is ahead of the paper's best, in no "
        f"more memory, and on {len(level)} level with it, within one standard deviation over the seeds"
        f"{_named([each.task.title for each in level])}. Stacks of leaky layers, which the paper does "
        f"not have, are {len(stacks)} of these networks{_named(stacks)}."
    )


def _named(titles: Sequence[str]) -> str:
    """Return titles in brackets, or an empty text if there are none."""
    return f" ({', '.join(titles)})" if titles else ""


def _coverage(results: Sequence[Result]) -> str:
    def counted(rows: list[Row]) -> str:
        return f"{sum(bool(measurements(row, results)) for row in rows)} of {len(rows)} rows"

    def is_ours(row: Row) -> bool:
        return row.setup is not None and isinstance(row.setup.network, Network)

    tables = TABLES.values()
    ours = [row for table in tables for row in table.rows if is_ours(row)]
    others = [row for table in tables if table.label for row in table.rows if not is_ours(row)]
    return (
        f"{len(results)} runs cover {counted(ours)} of HadamRNN and Block-HadamRNN, and {counted(others)} of "
        "other networks in the paper's tables, at the printed size. The rest are marked missing or published "
        "only."
    )


def _legend(results: Sequence[Result]) -> tuple[str, ...]:
    machines = dict.fromkeys(f"{result.cpu} ({result.versions.get('torch') or '?'})" for result in results)
    return (
        "▲ is level with the paper or ahead, ▼ behind: points of accuracy, or for the copy task the ratio of "
        "cross-entropies. Accuracies are in percent, on the test set, at the best validation epoch; several "
        "seeds give a mean with its standard deviation, or for the copy task a mean with its range. "
        "Activations of 12 bits are those of the integer network. A kB is 1024 bytes and includes biases. "
        "Preset paper is the paper's recipe, best the best found here; a run says how many of the paper's "
        "epochs it took.",
        _coverage(results),
        "A row's command repeats it, bit for bit on the same processor and versions. hadamrnn "
        "report writes this page from the JSON files in results/, none of them written by hand.",
        *([f"Processors (torch): {'; '.join(machines)}."] if machines else []),
    )


def _figures_section(results: Sequence[Result], memorization: Memorization | None) -> Section:
    paragraphs = [
        "Figures 2 and 3 of the paper (Appendices E.3 and G.2.2) with our points, and training curves."
    ]
    pictures = [additions_cross_entropy(results)]
    if memorization is None:
        paragraphs.append("The memorization experiment is missing: hadamrnn reproduce memorization.")
    else:
        pictures.append(memorization_picture(memorization))
    pictures += curve_pictures(results)
    return Section("figures", "Figures", tuple(paragraphs), pictures=tuple(pictures))

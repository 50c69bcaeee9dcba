"""The report has every row, measured or marked missing, and its bytes depend only on the results."""

from __future__ import annotations

import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest

from hadamrnn.network import Network
from hadamrnn.pages.document import Cell, Document, Grid
from hadamrnn_paper.memorization import run_memorization, write_memorization
from hadamrnn_paper.report import build_document, write_report
from hadamrnn_paper.results import Result, write_result
from hadamrnn_paper.tables import TABLES
from tests.conftest import Command


def grids(document: Document) -> list[Grid]:
    return [part.grid for section in document.sections for part in section.parts if part.grid is not None]


def results_folder(folder: Path, result: Result) -> Path:
    for each in (result, replace(result, preset="paper", test=0.9412)):
        write_result(folder, each)
    write_memorization(folder, run_memorization(hidden_size=16, seq_length=20))
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_without_results_every_row_is_marked_missing(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    write_report(tmp_path / "results", tmp_path)

    text = (tmp_path / "RESULTS.md").read_text()
    lines = [row for table in TABLES.values() for row in table.rows]
    runnable = [row for row in lines if row.setup is not None]
    # Besides the rows: the standing of seven tasks, six times and four scales.
    assert text.count("*missing*") == len(runnable) + 7 + 6 + 4
    assert text.count("*published only*") == len(lines) - len(runnable)
    ours = sum(isinstance(row.setup.network, Network) for row in runnable if row.setup)
    assert f"0 of {ours} rows" in text and "memorization experiment is missing" in text


def test_a_measured_row_stands_beside_the_published_one(result: Result, tmp_path: Path) -> None:
    write_report(results_folder(tmp_path / "results", result), tmp_path)

    text = (tmp_path / "RESULTS.md").read_text()
    command = "hadamrnn reproduce results --rows pmnist-512-4bit --preset best --set epochs=12 --threads 1"
    assert text.count(f"<li><code>{command}</code></li>") == 1  # for both of its lines
    table = text.partition("## HadamRNN and the state of the art")[2].partition("\n## ")[0]
    lines = [each for each in table.splitlines() if "| best |" in each]
    (line,) = (each for each in lines if "| FP |" in each)
    for cell in (
        "| 94.88 |",
        "| 95.01 |",
        "| ▲ +0.13 |",
        "| best |",
        "12 of 200 epochs, 5.2 min",
    ):
        assert cell in line
    (integers,) = (each for each in lines if "| 12 |" in each)
    assert "| 94.90 | 94.94 | ▲ +0.04 |" in integers
    assert "| 94.88 | 94.12 | ▼ -0.76 |" in text


@pytest.mark.slow
def test_the_same_results_give_the_same_bytes_in_another_process(result: Result, tmp_path: Path) -> None:
    results = results_folder(tmp_path / "results", result)
    write_report(results, tmp_path / "one")
    options = ["--results", str(results), "--out", str(tmp_path / "two")]
    command = [sys.executable, "-m", "hadamrnn", "report", *options]
    subprocess.run(command, check=True, capture_output=True)

    one, two = contents(tmp_path / "one"), contents(tmp_path / "two")
    assert one == two
    assert {
        "RESULTS.md",
        "RESULTS.html",
        "figures/memorization.svg",
        "figures/size-accuracy-pmnist.svg",
    } <= set(one)


def test_the_page_needs_nothing_but_itself(result: Result, tmp_path: Path) -> None:
    write_report(results_folder(tmp_path / "results", result), tmp_path)

    page = (tmp_path / "RESULTS.html").read_text()
    fetched = re.findall(r'(?:src|href)="([^"]*)"|url\(([^)]*)\)', page)
    assert fetched and all((link or style).startswith("#") for link, style in fetched)
    assert "<script" not in page and str(tmp_path) not in page
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    for target in re.findall(r'href="#([^"]+)"', page):
        assert target in ids
    for path in (tmp_path / "figures").iterdir():
        ElementTree.fromstring(path.read_text())
        assert "<dc:date>" not in path.read_text()


def test_every_line_of_every_table_has_a_cell_for_each_column(result: Result) -> None:
    found = grids(build_document([result], None))

    assert len(found) > 20
    for grid in found:
        assert all(len(line) == len(grid.header) for line in grid.lines)


def test_bad_input_takes_one_line(command: Command, tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "x.jsonl").write_text("{")
    for arguments, complaint in (
        (("--results", tmp_path / "nowhere"), "must be a folder of results"),
        (("--results", tmp_path / "results"), "is damaged"),
    ):
        answer = command("report", *arguments, "--out", tmp_path)
        assert answer.status == 2 and complaint in answer.err and answer.err.count("\n") == 1
    assert not (tmp_path / "RESULTS.md").exists()


@pytest.mark.parametrize("name", ["RESULTS.md", "RESULTS.html", "figures/memorization.svg"])
def test_a_report_replaces_a_report_and_nothing_else(
    name: str, command: Command, result: Result, tmp_path: Path
) -> None:
    results, out = results_folder(tmp_path / "results", result), tmp_path / "out"
    report = ("report", "--results", results, "--out", out)
    assert command(*report).status == command(*report).status == 0
    (out / name).write_text("my own notes")
    answer = command(*report)

    assert answer.status == 2 and "was not written by a report" in answer.err and answer.err.count("\n") == 1
    assert (out / name).read_text() == "my own notes"
    assert command(*report, "--force").status == 0 and (out / name).read_text() != "my own notes"


ROOT = Path(__file__).parents[1]


@pytest.mark.skipif(not (ROOT / "RESULTS.md").is_file(), reason="no RESULTS.md has been committed yet")
def test_the_committed_report_is_what_the_committed_results_give(tmp_path: Path) -> None:
    """Figures are byte-identical only with the pinned matplotlib; the tables always are."""
    pinned = (
        f"matplotlib=={metadata.version('matplotlib')}"
        in (ROOT.parent / "constraints.txt").read_text().split()
    )
    for path in write_report(ROOT / "results", tmp_path):
        if pinned or path.suffix == ".md":
            committed = ROOT / path.relative_to(tmp_path)
            assert committed.read_bytes() == path.read_bytes(), f"{path.name}: run make results"


def test_the_page_opens_with_a_table_that_fits_a_phone_and_one_picture(result: Result) -> None:
    first = build_document([result], None).sections[0]

    assert [part.grid.slim for part in first.parts if part.grid] == [True] and len(first.pictures) == 1
    assert first.beside
    assert build_document([], None).sections[0].pictures == ()


def test_the_page_opens_with_the_tasks_on_which_we_are_ahead(result: Result) -> None:
    ahead = replace(result, preset="paper", validation=0.99, integer=None, test=0.9999)

    assert build_document([], None).paragraphs == ("Nothing has been measured here yet.",)
    assert build_document([result], None).paragraphs[0].startswith("On 0 of 1 tasks")
    assert build_document([result, ahead], None).paragraphs[0].startswith("On 1 of 1 tasks")


def test_the_opening_sentence_counts_what_its_table_marks(result: Result) -> None:
    """Both compare printed digits, so 95.848 equals the paper's 95.85."""
    level = replace(result, validation=0.99, integer=None, test=0.95848)
    document = build_document([level], None)
    grid = document.sections[0].parts[0].grid

    assert grid is not None and grid.lines[0][-1] == Cell("+0.00", "better")
    assert document.paragraphs[0].startswith("On 1 of 1 tasks")

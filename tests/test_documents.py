"""The README and the pages of docs/ are true.

Python and js blocks run and print the block below them; `$ hadamrnn` blocks print what they show; `sh`
blocks run, `c` blocks are the files that these compile; the command line must accept the
commands of all other blocks. `make docs` checks that links and pages exist.
"""

from __future__ import annotations

import contextlib
import io
import re
import runpy
import shlex
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

import hadamrnn
from hadamrnn.cli import build_parser, main

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


RESULT_PAGES = (
    *(
        "docs/results.md",
        "docs/when-not.md",
        "docs/edge.md",
        "docs/estimators.md",
        "docs/anomalies.md",
        "docs/vibration.md",
        "docs/keywords.md",
        "docs/alarms.md",
        "docs/regression.md",
        "docs/archive.md",
    ),
    "reproduction/RESULTS.md",
)


class Block(NamedTuple):
    language: str
    text: str


def blocks(document: Path) -> list[Block]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", document.read_text(), flags=re.MULTILINE | re.DOTALL)
    return [Block(*pair) for pair in found]


def commands(block: Block) -> list[list[str]]:
    """Return the commands of a block, each as its words; `a && b` are two."""
    lines = (part for line in block.text.splitlines() for part in line.split(" && "))
    return [shlex.split(line, comments=True) for line in lines if line.strip()]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_the_python_and_the_sh_blocks_run_in_order_and_print_what_is_shown(
    document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}  # a block may use the results of earlier blocks
    for block, below in pairwise([*blocks(document), Block("", "")]):
        shown = below.text if below.language == "" else ""
        if block.language == "python":
            assert _alike(_printed(block, names), shown)
        elif block.language == "c":  # its first line is /* NAME */
            Path(block.text.split()[1]).write_text(block.text)
        elif block.language == "js" and shutil.which("node"):
            (tmp_path / "block.mjs").write_text(block.text)
            found = subprocess.run(["node", "block.mjs"], check=True, capture_output=True, text=True)
            assert found.stdout == shown
        elif block.language == "sh":
            for words in commands(block):
                _run(words)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_the_command_blocks_print_what_is_shown(document: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for block in blocks(document):
        if block.text.startswith("$ hadamrnn"):
            command, _, expected = block.text.partition("\n")
            capsys.readouterr()

            assert main(shlex.split(command)[2:]) == 0
            assert capsys.readouterr().out == expected


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_command_shown_is_one_that_the_command_line_takes(document: Path) -> None:
    parser = build_parser()
    for block in blocks(document):
        if block.language in ("", "sh") and block.text.startswith("hadamrnn "):
            for words in commands(block):
                if words[0] == "hadamrnn":
                    assert parser.parse_args(words[1:]).run


def test_the_first_screen_of_the_readme_has_a_python_block_of_about_ten_lines() -> None:
    first = next(block.text for block in blocks(DOCUMENTS[0]) if block.language == "python")

    assert len([line for line in first.splitlines() if line.strip()]) <= 12


def test_the_first_screen_of_the_readme_has_a_small_picture_before_its_first_block() -> None:
    first = DOCUMENTS[0].read_text().partition("```")[0]
    (picture,) = re.findall(r"!\[[^]]+\]\((\S+)\)", first)

    assert (ROOT / picture).stat().st_size < 200_000


def test_the_api_page_has_every_public_name_once() -> None:
    page = (ROOT / "docs" / "api.md").read_text()

    assert sorted(re.findall(r"^::: hadamrnn\.(\w+)$", page, flags=re.MULTILINE)) == sorted(
        set(hadamrnn.__all__) - {"__version__"}
    )


def test_the_picture_of_the_recurrent_weight_is_what_its_script_draws() -> None:
    script = runpy.run_path(str(ROOT / "docs" / "scripts" / "draw_weight.py"))

    assert script["TARGET"].read_text() == script["picture"]()


def test_a_cell_of_the_sites_tables_carries_the_head_of_its_column() -> None:
    page = runpy.run_path(str(ROOT / "docs" / "scripts" / "cards.py"))["on_page_content"]
    head = "<tr><th>a <em>b</em></th><th>c</th></tr>"
    table = f"<table>{head}<tr><td>1</td><td><code>x --y-z</code></td></tr></table>"

    assert page(table) == (
        f'<table data-slim>{head}<tr><td data-label="a b">1</td>'
        '<td data-label="c"><code>x <span class="option">--y-z</span></code></td></tr></table>'
    )


def test_the_figures_that_speak_against_this_are_of_the_results() -> None:
    rows = (ROOT / "reproduction" / "RESULTS.md").read_text().splitlines()
    measured = [
        (accuracy, size)
        for accuracy, size, source in re.findall(
            r"(\d+\.\d+) % in ([\d.]+) kB( \(published)?", (ROOT / "docs" / "when-not.md").read_text()
        )
        if not source
    ]

    assert len(measured) >= 4
    for accuracy, size in measured:
        assert any(accuracy in row and size in row for row in rows), (accuracy, size)


def test_the_readme_is_short_and_its_figures_are_those_of_the_results() -> None:
    readme = DOCUMENTS[0].read_text()
    pages = "".join((ROOT / page).read_text() for page in RESULT_PAGES)
    own = [line for line in readme.splitlines() if line.startswith("|") and "TFLite" not in line]
    figures = [figure for line in own for figure in re.findall(r"\d[\d,]*\.?\d*(?:e-\d+)?", line)]

    assert len(readme.split()) <= 950
    assert len(figures) > 30
    assert [figure for figure in figures if figure not in pages] == []


def test_every_guarantee_names_tests_that_exist() -> None:
    text = (ROOT / "docs" / "guarantees.md").read_text()
    table = text.partition("| guarantee |")[2].partition("\n\n")[0]
    named = re.findall(r"^((?:reproduction/)?tests/\S+)::(test_\w+)", text, flags=re.MULTILINE)

    assert len(named) >= len(table.splitlines()) - 2 > 0
    for file, name in named:
        assert f"\ndef {name}(" in (ROOT / file).read_text()


def _printed(block: Block, names: dict[str, object]) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(block.text, "document", "exec"), names)
    return printed.getvalue()


def _alike(printed: str, shown: str) -> bool:
    """Whether both are the same text; shares may differ by two points, as processors add floats."""
    share = re.compile(r"(\d+)%")
    pairs = zip(share.findall(printed), share.findall(shown), strict=False)
    near = all(abs(int(one) - int(other)) <= 2 for one, other in pairs)
    return near and share.sub("%", printed) == share.sub("%", shown)


def _run(words: list[str]) -> None:
    if words[0] == "hadamrnn":
        assert main(words[1:]) == 0
    elif shutil.which(words[0]) and (words[0] != "make" or shutil.which("cc")):
        subprocess.run(words, check=True, capture_output=True)

"""The README's blocks run as shown and print what is shown."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest

from hadamrnn.cli import main

README = (Path(__file__).parents[1] / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)


def test_the_python_blocks_run_and_print_the_block_below_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # a block may write files
    python = [index for index, (language, _) in enumerate(BLOCKS) if language == "python"]
    assert python
    for index in python:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(BLOCKS[index][1], "README.md", "exec"), {})
        assert printed.getvalue() == BLOCKS[index + 1][1]


def test_the_first_screen_has_a_python_block_of_about_ten_lines() -> None:
    first = next(code for language, code in BLOCKS if language == "python")

    assert len([line for line in first.splitlines() if line.strip()]) <= 12


@pytest.mark.parametrize("block", [code for _, code in BLOCKS if code.startswith("$ hadamrnn")])
def test_the_command_blocks_print_what_is_shown(block: str, capsys: pytest.CaptureFixture[str]) -> None:
    command, _, expected = block.partition("\n")

    assert main(shlex.split(command)[2:]) == 0
    assert capsys.readouterr().out == expected

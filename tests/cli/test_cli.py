"""The command line: exit statuses, one-line errors, help."""

from __future__ import annotations

import importlib
import re
import shlex
import subprocess
import sys
from dataclasses import fields, is_dataclass

import pytest

from hadamrnn.cli import COMMANDS, build_parser, main
from hadamrnn.quantization import QuantizeConfig

BENCHES = ("training", "inference", "edge", "estimators")
COST = ["cost", "--hidden-size", "512", "--input-size", "1", "--output-size", "10"]


def test_python_m_hadamrnn_help_names_every_command() -> None:
    result = subprocess.run([sys.executable, "-m", "hadamrnn", "--help"], capture_output=True, text=True)

    assert result.returncode == 0
    assert all(command in result.stdout for command in COMMANDS)


def test_a_command_of_several_parts_needs_one_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["bench"])
    assert caught.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("hadamrnn bench:") and "--help" in line


@pytest.mark.parametrize("command", [*COMMANDS, *(f"bench {bench}" for bench in BENCHES)])
def test_help_fits_the_screen_and_ends_with_examples_that_the_command_takes(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as caught:
        main([*command.split(), "--help"])
    text, _, examples = capsys.readouterr().out.partition("examples:\n")
    lines = [line.strip() for line in examples.splitlines()]

    assert caught.value.code == 0
    assert max(map(len, text.splitlines())) <= 80
    assert lines and any(line.startswith(f"hadamrnn {command}") for line in lines)
    for line in lines:
        words = shlex.split(line.replace("-m hadamrnn", "hadamrnn"))
        assert build_parser().parse_args(words[words.index("hadamrnn") + 1 :]).run


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "required: COMMAND"),
        (["fly"], "invalid choice: 'fly'"),
        (["cost"], "required: --hidden-size"),
        ([*COST, "--model", "lstm", "--num-blocks", "2"], "no setting 'num_blocks' of lstm networks"),
        ([*COST, "--model", "gru", "--skip"], "no setting 'skip' of gru networks"),
        ([*COST, "--num-blocks", "3"], "num_blocks must divide hidden_size, got 3 for hidden_size 512"),
        ([*COST, "--weight-bits", "four"], "--weight-bits must lie in 2..16 or be ternary"),
        ([*COST, "--weight-bits", "1"], "--weight-bits must lie in 2..16 or be ternary"),
        (["cost", "--hidden-size", "6", "--input-size", "1", "--output-size", "1"], "got 6. Nearest"),
    ],
)
def test_bad_input_is_one_line_and_exit_status_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        status = main(arguments)
    except SystemExit as stopped:
        status = int(str(stopped.code))
    captured = capsys.readouterr()

    assert status == 2
    assert captured.out == ""
    assert message in captured.err
    assert captured.err.count("\n") == 1


def test_help_is_shown_on_a_terminal_of_one_column(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "1")
    with pytest.raises(SystemExit) as caught:
        main(["cost", "--help"])

    assert caught.value.code == 0 and "examples:" in capsys.readouterr().out


def test_help_does_not_load_torch() -> None:
    code = (
        "import sys, hadamrnn.cli as cli\n"
        "try: cli.main(['cost', '--help'])\n"
        "except SystemExit: pass\n"
        "sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory")])
def test_too_little_memory_takes_one_line(
    error: Exception, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr("hadamrnn.cli.keep_freed_memory", fail)

    assert main(["doctor"]) == 2
    assert capsys.readouterr().err.startswith("hadamrnn doctor: out of memory.")


def test_another_error_shows_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("hadamrnn.cli.keep_freed_memory", fail)

    with pytest.raises(RuntimeError, match="a bug"):
        main(["doctor"])


def test_help_names_the_defaults_that_hold() -> None:
    modules = [importlib.import_module(f"hadamrnn.cli.{name}") for name in (*COMMANDS, "device")]
    named = [each for module in modules for each in vars(module).values() if isinstance(each, type)]
    owners = {each for each in named if is_dataclass(each)}
    found = 0
    for owner in (*owners, QuantizeConfig):
        for each in fields(owner):
            said = re.search(r"\(default ([\d.]+)[,)]", each.metadata.get("help", ""))
            if said is not None and each.default is not None:
                assert float(said[1]) == each.default, f"{owner.__name__}.{each.name}"
                found += 1
    assert found >= 3

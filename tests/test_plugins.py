"""Packages that extend this one through entry points: the documented example, and broken ones."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "extending.md"
BROKEN = 'raise RuntimeError("no\\nluck")'
BROKEN_ENTRIES = {
    "hadamrnn.tasks": {"gone": "bad:TASK"},
    "hadamrnn.networks": {"lost": "bad:NETWORK"},
    "hadamrnn.commands": {"broken": "bad:run"},
}


def install(folder: Path, name: str, code: str, groups: dict[str, dict[str, str]]) -> None:
    """Write a module and, as an installer would, the metadata of its package."""
    (folder / f"{name}.py").write_text(code)
    metadata = folder / f"{name}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [
        line
        for group, entries in groups.items()
        for line in (f"[{group}]", *(f"{key} = {value}" for key, value in entries.items()))
    ]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")


def hadamrnn(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "hadamrnn", *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment)


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_the_documented_package_adds_a_task_a_network_and_a_command(tmp_path: Path) -> None:
    (project,), (code,) = blocks("toml"), blocks("python")
    install(tmp_path, "waves", code, tomllib.loads(project)["project"]["entry-points"])
    (session,) = blocks("console")
    lines = [shlex.split(line)[1:] for line in session.splitlines() if line.startswith("hadamrnn ")]
    assert len(lines) == 5

    answers = [hadamrnn(tmp_path, *words) for words in lines]

    assert [answer.returncode for answer in answers] == [0] * 5, [answer.stderr for answer in answers]
    assert answers[3].stdout.startswith("waves test: accuracy ")
    assert answers[4].stdout == "0.0 0.2 0.39\n"
    refused = hadamrnn(tmp_path, "train", "waves", "--task-option", "noise=-1", "--out", "other")
    assert refused.returncode == 2 and "noise must lie in" in refused.stderr
    without_rule = "cost --model elman --hidden-size 8 --input-size 1 --output-size 1"
    assert "no rule for the cost" in hadamrnn(tmp_path, *without_rule.split()).stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("broken --whatever 3", "broken cannot be imported from bad:run (RuntimeError: no luck)"),
        ("train gone --out run", "gone cannot be imported from bad:TASK (RuntimeError: no luck)"),
        ("train digits --model lost --out run", "lost cannot be imported from bad:NETWORK"),
    ],
)
def test_a_package_that_cannot_be_imported_takes_one_line(words: str, message: str, tmp_path: Path) -> None:
    install(tmp_path, "bad", BROKEN, BROKEN_ENTRIES)

    answer = hadamrnn(tmp_path, *words.split())

    assert answer.returncode == 2 and message in answer.stderr and answer.stderr.count("\n") == 1


@pytest.mark.parametrize("words", ["--help", "cost --hidden-size 8 --input-size 1 --output-size 1"])
def test_a_package_that_cannot_be_imported_does_not_hurt_the_rest(words: str, tmp_path: Path) -> None:
    install(tmp_path, "bad", BROKEN, BROKEN_ENTRIES)

    works = hadamrnn(tmp_path, *words.split())

    assert works.returncode == 0 and works.stderr == ""


def test_one_name_from_two_packages_is_refused(tmp_path: Path) -> None:
    for name in ("one", "two"):
        install(tmp_path, name, "run = None", {"hadamrnn.commands": {"same": f"{name}:run"}})

    answer = hadamrnn(tmp_path, "same")

    assert answer.returncode == 2 and "must be offered by one package" in answer.stderr


def test_help_imports_neither_torch_nor_the_packages_of_tasks_and_networks(tmp_path: Path) -> None:
    groups = {"hadamrnn.tasks": {"gone": "bad:TASK"}, "hadamrnn.networks": {"lost": "bad:NETWORK"}}
    install(tmp_path, "bad", "raise RuntimeError", groups)
    code = (
        "import sys; from hadamrnn.cli import build_parser; build_parser().format_help();"
        "sys.exit(bool({'torch', 'bad'} & set(sys.modules)))"
    )

    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    assert subprocess.run([sys.executable, "-c", code], env=environment).returncode == 0

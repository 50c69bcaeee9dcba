"""`hadamrnn search`: the best network within its budget, and one line for bad input."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hadamrnn import fixedpoint
from hadamrnn.files import INTEGER_FILE
from tests.conftest import Command
from tests.search.searches import small_search, study_of

SMALL = ("--max-bytes", 200, "--epochs", 2, "--threads", 1)


@pytest.mark.slow
def test_a_search_leaves_the_best_network_within_its_budget(command: Command, tmp_path: Path) -> None:
    answer = command("search", "digits", *SMALL, "--trials", 4, "--out", tmp_path, "--json")

    assert answer.status == 0
    figures = json.loads(answer.out)
    best = figures["best"]
    assert len(figures["trials"]) <= 4
    assert best["validation"] == max(trial["validation"] for trial in figures["trials"])
    assert all(trial["bytes"] <= 200 for trial in figures["trials"])
    run = Path(best["run"])
    model = fixedpoint.load(run / INTEGER_FILE)
    payload = fixedpoint.save(model, tmp_path / "again").payload
    assert payload == best["bytes"] <= 200
    assert best["instructions_by"].startswith(("counted", "estimated; not counted: "))
    evaluated = json.loads(command("eval", run, "--integer", "--json").out)
    assert best["test"] in evaluated.values()
    assert "<svg" in (tmp_path / "front.svg").read_text()
    assert best["network"] in (tmp_path / "search.html").read_text()

    # The same command again: nothing is left to try, and the test set is not read a second time.
    (run / "model.safetensors").unlink()
    again = json.loads(command("search", "digits", *SMALL, "--trials", 4, "--out", tmp_path, "--json").out)
    assert again == figures


def test_a_cross_compiler_that_cannot_compile_leaves_the_estimate(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for tool in ("arm-none-eabi-gcc", "arm-none-eabi-size", "qemu-system-arm"):
        (tmp_path / tool).write_text(
            "#!/bin/sh\necho 'net.c:3: fatal error: string.h: No such file' >&2; exit 1\n"
        )
        (tmp_path / tool).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    line = ("search", "digits", *SMALL[:2], "--steps", 1, "--trials", 1, "--max-instructions", 3000)

    answer = command(*line, "--out", tmp_path / "out", "--quiet")

    assert answer.status == 0, answer.err
    assert "instructions on a Cortex-M4, estimated; not counted: arm-none-eabi-gcc failed" in answer.out
    assert "string.h" in answer.out
    assert "\ntest        accuracy " in answer.out


@pytest.mark.slow
def test_regression_on_a_users_arrays_and_every_output_are_searched(command: Command, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 12, 2)).astype(np.float32)
    np.savez(tmp_path / "mine.npz", x=x, y=x.sum(axis=(1, 2)))
    copy = [f"--task-option={option}" for option in ("delay=5", "sentence_length=2", "train_size=64")]

    for task, options, metric in (
        (tmp_path / "mine.npz", ("--epochs", 2), "mse"),
        ("copy", ("--steps", 4, *copy, "--max-instructions", 8000), "cross_entropy"),
    ):
        out = tmp_path / f"out-{metric}"
        answer = command("search", task, "--max-bytes", 300, "--trials", 2, *options, "--out", out, "--json")

        assert answer.status == 0, answer.err
        figures = json.loads(answer.out)
        assert figures["metric"] == metric
        assert figures["best"]["validation"] == min(trial["validation"] for trial in figures["trials"])
        assert figures["best"]["test"] > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--max-bytes", 10), "the smallest has 8 units"),
        (("--max-bytes", 500, "--max-instructions", 5), "the quickest takes"),
        (("--max-bytes", 0), "must lie in 1.."),
        (("--max-bytes", 500, "--minutes", -1), "--minutes must lie in (0, "),
        (("--max-bytes", 500, "--storage", "nosql://here/x"), "cannot be opened"),
        ((), "required: --max-bytes"),
    ],
)
def test_bad_input_is_one_line(
    options: tuple[Any, ...], message: str, command: Command, tmp_path: Path
) -> None:
    answer = command("search", "digits", *options, "--out", tmp_path)

    assert (answer.status, answer.out, answer.err.count("\n")) == (2, "", 1)
    assert message in answer.err


def test_recordings_are_read_by_the_options_that_train_has(command: Command, tmp_path: Path) -> None:
    rows = [f"{step % 7 * sign},{kind}" for sign, kind in ((1, "up"), (-1, "down")) for step in range(400)]
    (tmp_path / "mine.csv").write_text("\n".join(["force,kind", *rows]))
    line = ("search", tmp_path / "mine.csv", "--max-bytes", 300, "--steps", 1, "--trials", 1, "--quiet")
    reading = ("--label", "kind", "--window", 8, "--group", "time")

    refused = command(*line, "--out", tmp_path / "out")
    answer = command(*line, *reading, "--out", tmp_path / "out", "--json")

    assert refused.status == 2 and "name a column with --label" in refused.err
    assert answer.status == 0 and json.loads(answer.out)["task_options"]["label"] == "kind"


def test_a_study_keeps_its_terms(command: Command, tmp_path: Path) -> None:
    search = small_search()
    study_of(search, tmp_path / "study.journal")

    answer = command("search", "digits", "--max-bytes", 300, "--epochs", 1, "--out", tmp_path)

    assert (answer.status, answer.err.count("\n")) == (2, 1)
    assert "has max_bytes 200, got 300" in answer.err


def test_without_optuna_the_extra_is_named(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    for name in [name for name in sys.modules if name.startswith("hadamrnn.search")]:
        monkeypatch.delitem(sys.modules, name)

    answer = command("search", "digits", "--max-bytes", 300, "--out", tmp_path)

    assert (answer.status, answer.err.count("\n")) == (2, 1)
    assert "pip install 'hadamrnn[search]'" in answer.err


@pytest.mark.parametrize(
    "content", ["a line of my own", "two\nlines\n", '{"a": 1}\n', '{"op_code": "x"}\n', "\xff\xfe\n"]
)
def test_a_storage_that_is_no_journal_is_left_alone(content: str, command: Command, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.write_text(content)

    for storage in (mine, tmp_path):
        answer = command("search", "digits", *SMALL, "--out", tmp_path / "out", "--storage", storage)
        assert (answer.status, answer.err.count("\n")) == (2, 1)
        assert f"The storage {storage} cannot be opened: " in answer.err
    assert mine.read_text() == content and [path.name for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.parametrize(
    "url", ["nosuch://me:s3cr%40t@host/db", "nosuch://host/db?password=s3cr%40t", "postgresql://me:s3cr%40t@"]
)
def test_a_password_in_a_storage_is_never_shown(url: str, command: Command, tmp_path: Path) -> None:
    answer = command("search", "digits", *SMALL, "--out", tmp_path, "--storage", url)

    assert answer.status == 2 and answer.err.count("\n") == 1 and "***" in answer.err
    assert "s3cr" not in answer.out + answer.err


def test_without_its_driver_a_database_names_the_extra(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    url = "postgresql://me:s3cr%40t@127.0.0.1:1/db"

    answer = command("search", "digits", *SMALL, "--out", tmp_path, "--storage", url)

    assert (answer.status, answer.err.count("\n")) == (2, 1)
    assert "pip install 'hadamrnn[postgresql]'" in answer.err and "s3cr" not in answer.err

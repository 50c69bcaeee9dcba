"""The search: it stays within its budget, goes on where it stopped, and several processes share it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hadamrnn import fixedpoint
from hadamrnn.data import load_task
from hadamrnn.errors import InputError
from hadamrnn.search import trials as trials_module
from hadamrnn.search.finish import finish
from hadamrnn.search.space import Budget
from hadamrnn.search.study import Study, Trial, TrialState, choose_sampler, counted, open_study
from hadamrnn.search.trials import Search, run_trials
from hadamrnn.training.config import resolve_config
from hadamrnn.training.run import RunOptions
from tests.conftest import Command

SMALL = ("--max-bytes", 200, "--epochs", 2, "--threads", 1)


def small_search(epochs: int = 1, **budget: Any) -> Search:
    preset = resolve_config("digits", preset="quick", overrides={"epochs": epochs, "threads": 1})
    return Search(load_task("digits"), preset, Budget(**{"max_bytes": 200, **budget}))


def study_of(search: Search, place: Path | str) -> Study:
    return open_study(str(place), "digits", search.terms, maximize=search.maximize)


def hush(line: str) -> None:
    pass


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
    model = fixedpoint.load(run / fixedpoint.FILE_NAME)
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


@pytest.mark.slow
def test_a_search_that_was_stopped_goes_on_as_if_it_had_not_been(tmp_path: Path) -> None:
    search = small_search()
    whole, parts = (study_of(search, tmp_path / name) for name in ("whole", "parts"))
    run_trials(whole, search, 4, say=hush)
    run_trials(parts, search, 2, say=hush)
    run_trials(study_of(search, tmp_path / "parts"), search, 4, say=hush)

    assert [(t.params, t.values) for t in whole.trials] == [(t.params, t.values) for t in parts.trials]


@pytest.mark.parametrize("task", ["digits", "recordings"])
def test_the_final_training_goes_on_where_it_stopped(task: str, tmp_path: Path) -> None:
    """Also of a task that decides some of its options by itself, and keeps them in the run's folder."""
    rows = [f"{step % 7 * sign},{label}" for sign, label in ((1, "up"), (-1, "down")) for step in range(400)]
    (tmp_path / "mine.csv").write_text("\n".join(["force,label", *rows]))
    mine = {"path": str(tmp_path / "mine.csv"), "window": 8, "group": "time"}
    overrides = {"epochs": 2, "threads": 1, "task_options": mine if task == "recordings" else {}}
    preset = resolve_config(task, preset="quick", overrides=overrides)
    search = Search(load_task(task, **preset.task_options), preset, Budget(300))
    study = study_of(search, tmp_path / "study")
    run_trials(study, search, 1, say=hush)
    asked = iter(range(10_000))
    with pytest.raises(InputError, match="Repeat the command to continue"):
        finish(study, search, tmp_path, RunOptions(stop=lambda: next(asked) == 2))

    figures = finish(study, search, tmp_path, RunOptions())

    assert figures["best"]["validation"] == figures["trials"][0]["validation"]


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


def test_what_is_over_the_counted_budget_is_never_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = small_search(max_instructions=5000)
    monkeypatch.setattr(trials_module, "count", lambda network: 5001)
    monkeypatch.setattr(trials_module, "fit", lambda *args, **options: pytest.fail("trained"))
    study = study_of(search, tmp_path / "study")

    run_trials(study, search, 3, say=hush)

    assert [trial.state for trial in study.trials] == [TrialState.PRUNED] * 3


@pytest.mark.slow
def test_bad_trials_are_pruned_before_their_end(tmp_path: Path) -> None:
    search = small_search(epochs=5)
    study = study_of(search, tmp_path / "study")
    lines: list[str] = []
    for _ in range(6):  # a history that nothing beats
        trial = study.ask()
        for percent in range(20, 101, 20):
            trial.report(1.0, percent)
        study.tell(trial, 1.0)

    run_trials(study, search, 7, say=lines.append)

    assert study.trials[-1].state == TrialState.PRUNED
    assert "pruned after" in lines[0] and "after 100 %" not in lines[0]


def test_a_trial_of_more_than_a_hundred_validations_reports_one_for_each_percent(tmp_path: Path) -> None:
    overrides = {"steps": 150, "evaluate_every": 1, "threads": 1}
    preset = resolve_config("digits", preset="quick", overrides=overrides)
    search = Search(load_task("digits"), preset, Budget(200))
    study = study_of(search, tmp_path / "study")

    run_trials(study, search, 1, say=hush)

    assert list(study.trials[0].intermediate_values) == list(range(1, 101))


def test_the_first_guess_is_drawn_once_and_again_only_if_it_failed(tmp_path: Path) -> None:
    study = study_of(small_search(), tmp_path / "study")
    guess = {"size": 7}

    def draw() -> Trial:
        trial = study.ask()
        choose_sampler(study, 0, trial.number, guess)
        trial.suggest_int("size", 0, 1_000_000)
        return trial

    failed = draw()
    study.tell(failed, state=TrialState.FAIL)
    again, beside = draw(), draw()  # the second one begins while the first one runs

    assert failed.params == again.params == guess
    assert beside.params != guess


def test_a_trial_whose_process_was_killed_is_given_up(tmp_path: Path) -> None:
    search = small_search()
    study = study_of(search, tmp_path / "study")
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    for process in (gone.pid, os.getpid()):
        trial = study.ask()
        trial.set_user_attr("host", socket.gethostname())
        trial.set_user_attr("process", process)
    assert counted(study) == 2

    study = study_of(search, tmp_path / "study")

    assert [trial.state for trial in study.trials] == [TrialState.FAIL, TrialState.RUNNING]
    assert counted(study) == 1


@pytest.mark.slow
@pytest.mark.parametrize("storage", ["study.journal", "sqlite:///{}/study.db"])
def test_two_processes_share_one_study(storage: str, tmp_path: Path) -> None:
    place = storage.format(tmp_path) if "://" in storage else str(tmp_path / storage)
    search = small_search()
    study = study_of(search, place)
    options = ["--max-bytes", "200", "--epochs", "1", "--threads", "1", "--trials", "500"]
    command = [
        sys.executable,
        "-m",
        "hadamrnn",
        "search",
        "digits",
        *options,
        "--worker",
        "--out",
        str(tmp_path),
    ]
    command += ["--storage", place]
    workers = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(2)]
    ids = {worker.pid for worker in workers}
    try:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            done = [trial for trial in study.trials if trial.state == TrialState.COMPLETE]
            if {trial.user_attrs["process"] for trial in done} == ids:
                break
            assert all(worker.poll() is None for worker in workers)
            time.sleep(0.3)
    finally:
        for worker in workers:
            worker.send_signal(signal.SIGTERM)
        errors = [worker.communicate(timeout=60)[1].decode() for worker in workers]

    assert [worker.returncode for worker in workers] == [143, 143], errors
    assert {trial.user_attrs["process"] for trial in done} == ids
    assert not [trial for trial in study.trials if trial.state == TrialState.RUNNING]
    drawn = [json.dumps(trial.params, sort_keys=True) for trial in study.trials]
    assert len(set(drawn)) == len(drawn)


@pytest.mark.slow
def test_regression_on_a_users_arrays_and_every_output_are_searched(command: Command, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 12, 2)).astype(np.float32)
    np.savez(tmp_path / "mine.npz", x=x, y=x.sum(axis=(1, 2)))
    copy = (
        "--task-option",
        "delay=5",
        "--task-option",
        "sentence_length=2",
        "--task-option",
        "train_size=64",
    )

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


def test_figures_of_another_search_or_of_a_damaged_file_are_not_taken_over(tmp_path: Path) -> None:
    search = small_search()
    study = study_of(search, tmp_path / "study")
    run_trials(study, search, 1, say=hush)
    figures = finish(study, search, tmp_path, RunOptions())
    file = tmp_path / "search.json"
    best = {**figures["best"], "test": -1.0}  # a mark

    file.write_text(json.dumps({**figures, "best": best}))
    assert finish(study, search, tmp_path, RunOptions())["best"] == best  # the same search
    trials = [{**figures["trials"][0], "validation": 0.1}]
    others: list[dict[str, Any]] = [{"seed": 7, "best": best}, {"trials": trials, "best": best}]
    for other in (*others, {"best": []}, {"best": {}}):
        file.write_text(json.dumps({**figures, **other}))
        assert finish(study, search, tmp_path, RunOptions()) == figures
    for damaged in ("", "[]", "3", "\xff"):
        file.write_text(damaged, encoding="latin-1")
        assert finish(study, search, tmp_path, RunOptions()) == figures


@pytest.mark.parametrize(
    "url", ["nosuch://me:s3cr%40t@host/db", "nosuch://host/db?password=s3cr%40t", "postgresql://me:s3cr%40t@"]
)
def test_a_password_in_a_storage_is_never_shown(url: str, command: Command, tmp_path: Path) -> None:
    answer = command("search", "digits", *SMALL, "--out", tmp_path, "--storage", url)

    assert answer.status == 2 and answer.err.count("\n") == 1 and "***" in answer.err
    assert "s3cr" not in answer.out + answer.err

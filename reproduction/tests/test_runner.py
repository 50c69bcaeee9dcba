"""The runner: a row is trained once, continues after a stop, and becomes one JSON file."""

from __future__ import annotations

import json
import multiprocessing
import socket
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from hadamrnn.data.splits import Splits
from hadamrnn.data.tasks import load_task
from hadamrnn.errors import InputError
from hadamrnn.files import claim
from hadamrnn.run import RunOptions
from hadamrnn.training.config import make_config
from hadamrnn_paper import runner
from hadamrnn_paper.cli.reproduce import ReproduceOptions, _jobs
from hadamrnn_paper.results import (
    Result,
    read_results,
    write_result,
)
from hadamrnn_paper.rows import setup
from hadamrnn_paper.runner import Job, Places, fit_to_budget, run_folder, run_jobs, select, setups, shorten
from reproduction.tests.conftest import SMALL
from tests.conftest import Command


def test_the_same_network_is_one_setup_in_every_table() -> None:
    for table in ("results", "blocks", "ablation", "columns", "scales", "times"):
        assert setups(table)["pmnist-512-4bit"] == setups("results")["pmnist-512-4bit"]
    everything = setups("all")
    assert len({job.key for job, _ in everything.values()}) == len(everything)


def test_rows_are_chosen_by_pattern() -> None:
    chosen = [setup.key for setup, _ in select("blocks", ["copy-*", "pmnist-512-4bit"])]

    assert chosen == [*(f"copy-128-4bit-q{q}" for q in (32, 8, 2)), "copy-128-4bit", "pmnist-512-4bit"]


@pytest.mark.parametrize(
    ("table", "patterns", "complaint"),
    [
        ("reslts", [], "Did you mean 'results'"),
        ("blocks", ["pmnits-512"], "No row of blocks matches 'pmnits-512'"),
    ],
)
def test_names_that_do_not_exist_are_refused(table: str, patterns: list[str], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        select(table, patterns)


def test_settings_are_names_with_values() -> None:
    def overrides(*settings: str) -> dict[str, object]:
        (job,) = _jobs(ReproduceOptions(table="results", rows=("pmnist-512-4bit",), set=settings))
        return job.overrides

    assert overrides("learning_rate=1e-3", "weight_bits=none") == {
        "learning_rate": 1e-3,
        "weight_bits": None,
    }
    with pytest.raises(InputError, match="must be NAME=VALUE"):
        overrides("epochs")
    with pytest.raises(InputError, match="Did you mean 'epochs'"):
        overrides("epoch=3")


def test_a_finished_row_is_not_run_again(job: Job, places: Places) -> None:
    run_jobs([job], places)
    before = places.result(job)
    second = run_jobs([job], places)

    assert (second.skipped, second.measured) == ([job], [])
    assert places.result(job) == before


def test_the_data_is_loaded_once_for_pace_training_and_test(
    job: Job, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads = []

    def load(task: str, *rest: object, **options: object) -> Splits:
        loads.append(task)
        return load_task(task)

    for module in ("hadamrnn_paper.runner", "hadamrnn.data.tasks"):
        monkeypatch.setattr(f"{module}.load_task", load)
    run_jobs([replace(job, budget=0.05)], places)

    assert loads == ["digits"] and places.result(job) is not None


def test_a_stopped_run_goes_on_and_ends_as_if_it_had_not_stopped(
    job: Job, places: Places, tmp_path: Path
) -> None:
    asked = iter(range(10_000))
    stopped = run_jobs([job], places, RunOptions(stop=lambda: next(asked) == 20))
    assert stopped.stopped and places.result(job) is None
    run_jobs([job], places)
    whole = Places(tmp_path / "other", tmp_path / "others")
    run_jobs([job], whole)

    one, two = places.result(job), whole.result(job)
    assert one is not None and two is not None
    assert replace(one, seconds=0, curve={}) == replace(two, seconds=0, curve={})
    assert one.curve == two.curve


def test_a_row_that_cannot_run_does_not_hold_up_the_rest(job: Job, places: Places) -> None:
    bad = Job(setup("digits", 8), "quick", 7, {**SMALL, "model": "mamba"})
    tally = run_jobs([bad, job], places)

    assert "model must be one of" in tally.failed[bad.name] and len(tally.measured) == 1
    assert places.result(bad) is None


def test_a_row_that_diverges_is_measured_at_its_best_and_says_so(places: Places) -> None:
    job = Job(setup("digits", 8), "quick", 0, {**SMALL, "learning_rate": 1e37, "evaluate_every": 1})
    run_jobs([job], places)

    result = places.result(job)
    assert result is not None
    assert result.ended == "diverged" and result.test is not None and result.integer is None


@pytest.fixture
def short_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hadamrnn.files.LEASE_SECONDS", 0.3)


def test_what_another_process_runs_is_left_to_it(job: Job, places: Places, short_leases: None) -> None:
    with claim(places.locks, job.name):
        tally = run_jobs([job], places)

    assert tally.elsewhere == [job] and places.result(job) is None


def test_what_a_dead_machine_claimed_is_run_at_the_end(
    job: Job, places: Places, pretended: list[str], short_leases: None
) -> None:
    with claim(places.locks, job.name):
        (marker,) = places.locks.iterdir()
        claimed = marker.read_text().replace(f"host={socket.gethostname()}", "host=elsewhere")
    marker.write_text(claimed)
    other = replace(job, seed=1)

    tally = run_jobs([job, other], places)

    assert pretended == [other.name, job.name] and tally.elsewhere == []


def test_a_process_that_lost_its_claim_writes_nothing(job: Job, places: Places, short_leases: None) -> None:
    def usurp(told: Job, line: str) -> None:
        if line.startswith("begins"):
            (marker,) = places.locks.iterdir()
            marker.unlink()
            time.sleep(1)

    tally = run_jobs([job], places, tell=usurp)

    assert tally.stopped and places.result(job) is None


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch, result: Result) -> list[str]:
    """Replace training with a stub that records which jobs ran."""
    ran: list[str] = []

    def pretend(job: Job, *rest: object) -> Result:
        ran.append(job.name)
        time.sleep(0.005)
        return replace(result, experiment=job.setup.key, best_step=len(ran))

    monkeypatch.setattr(runner, "run_job", pretend)
    return ran


def test_several_runners_over_one_folder_never_run_a_row_twice(places: Places, pretended: list[str]) -> None:
    jobs = [Job(setup("pmnist", 4 * size), "best") for size in range(1, 23)]
    runners = [threading.Thread(target=run_jobs, args=(jobs, places)) for _ in range(4)]
    for each in runners:
        each.start()
    for each in runners:
        each.join()

    assert sorted(pretended) == sorted(job.name for job in jobs)
    assert len(read_results(places.results)) == len(jobs) and not list(places.locks.iterdir())


@pytest.mark.slow
def test_two_processes_share_the_rows_and_train_each_once(places: Places) -> None:
    jobs = [Job(setup("digits", 8), "quick", seed, {"steps": 30, "threads": 1}) for seed in range(6)]
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["hadamrnn_paper.runner"])
    processes = [context.Process(target=run_jobs, args=(jobs, places)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()

    assert [process.exitcode for process in processes] == [0, 0]
    assert len(read_results(places.results)) == len(jobs)
    # Every training leaves one event file in its folder.
    assert all(len(list((places.runs / job.name / "tensorboard").iterdir())) == 1 for job in jobs)


def test_a_run_folder_of_other_settings_is_left_alone(job: Job, places: Places) -> None:
    run_jobs([job], places)
    longer = replace(job, overrides={**SMALL, "epochs": 3})

    assert run_folder(job, places.runs) == (places.runs / job.name, True)
    assert run_folder(longer, places.runs) == (places.runs / f"{job.name}-2", False)
    # With a budget, the length was fixed when the run began.
    assert run_folder(replace(longer, budget=1.0), places.runs) == (places.runs / job.name, True)


@pytest.mark.parametrize(
    ("seconds", "length"),
    [(1e9, (60, None)), (120.0, (10, None)), (12.0, (1, None)), (6.0, (None, 4)), (0.01, (None, 1))],
)
def test_a_budget_is_whole_epochs_where_one_fits(
    seconds: float, length: tuple[int | None, int | None]
) -> None:
    config = make_config(task="digits", epochs=60, batch_size=10)
    short = shorten(config, samples=100, seconds=seconds, step_seconds=1.0, validation_seconds=2.0)

    assert (short.epochs, short.steps) == length


def test_a_budget_of_steps_ends_with_a_validation() -> None:
    config = make_config(task="copy", steps=1000, evaluate_every=100)
    short = shorten(config, samples=10_000, seconds=350, step_seconds=1.0, validation_seconds=10.0)

    assert (short.epochs, short.steps) == (None, 300)


def test_a_budget_is_kept_to_by_the_clock() -> None:
    config = Job(setup("digits", 8), "quick", 0, {"threads": 1, "epochs": 10_000}).config
    short = fit_to_budget(config, 0.5, load_task("digits"))

    assert short.epochs is not None and 1 <= short.epochs < 10_000
    assert replace(short, epochs=10_000) == config
    with pytest.raises(InputError, match="positive number of minutes"):
        fit_to_budget(config, 0, load_task("digits"))


def test_the_command_runs_lists_and_skips(
    command: Command, tmp_path: Path, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hadamrnn_paper.runner.setups", lambda table: {"digits-8-4bit": (job.setup, (0,))})
    options = (
        "--preset",
        "quick",
        "--results",
        tmp_path / "results",
        "--runs",
        tmp_path / "runs",
        "--threads",
        1,
    )
    common = ("reproduce", "results", *options, "--set", "epochs=2")
    listed = json.loads(command(*common, "--list", "--json").out)
    first = command(*common)
    second = json.loads(command(*common, "--quiet", "--json").out)

    assert [(row["preset"], row["measured"]) for row in listed] == [("quick", False)]
    every = json.loads(command("reproduce", "--results", tmp_path / "results", "--list", "--json").out)
    assert [row["preset"] for row in every] == ["paper", "best", "quick"]
    assert first.status == 0 and "begins: 2 epochs" in first.err and "1 measured" in first.out
    assert second["skipped"] == [job.name] and second["measured"] == []


def test_the_list_says_which_presets_have_a_result_and_counts_what_has_none(
    command: Command, tmp_path: Path, result: Result
) -> None:
    for each in (result, replace(result, preset="paper")):
        write_result(tmp_path, each)
    options = ("reproduce", "results", "--rows", "pmnist-512-[24]bit", "--results", tmp_path, "--list")
    every, best = command(*options), command(*options, "--preset", "quick")

    assert every.out.splitlines() == [
        "pmnist-512-2bit  seed 0  missing",
        "pmnist-512-4bit  seed 0  paper, best",
        "1 of 2 runs have a result by preset paper or best or quick; 1 missing",
    ]
    assert best.out.splitlines()[-1] == "0 of 2 runs have a result by preset quick; 2 missing"
    (tmp_path / "pmnist.jsonl").write_text("{")
    damaged = command(*options)
    assert damaged.status == 2 and damaged.err.count("\n") == 1 and "pmnist.jsonl, line 1" in damaged.err


def test_again_trains_into_another_folder_and_shows_three_figures(
    command: Command, tmp_path: Path, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hadamrnn_paper.runner.setups", lambda table: {"digits-8-4bit": (job.setup, (0,))})
    monkeypatch.setattr("hadamrnn_paper.compare.published", lambda key, bits: "12.34")
    places = ("--results", tmp_path / "results", "--runs", tmp_path / "runs")
    common = ("reproduce", "results", "--preset", "quick", *places, "--threads", 1, "--set", "epochs=2")
    command(*common)
    (stored,) = read_results(tmp_path / "results")
    changed = replace(stored, test=0.0625)
    write_result(tmp_path / "results", changed)
    answer = command(*common, "--again", tmp_path / "again")
    refused = command(*common, "--again", tmp_path / "results")

    assert "begins: 2 epochs" in answer.err and read_results(tmp_path / "results") == [changed]
    (new,) = read_results(tmp_path / "again")
    assert new.test is not None
    line = next(line for line in answer.out.splitlines() if line.startswith(f"{job.name} "))
    assert line.split()[1:] == ["12.34", "6.25", f"{100 * new.test:.2f}"]
    assert refused.status == 2 and "must not name the folder" in refused.err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("reslts",), "Did you mean 'results'?"),
        ((), "A TABLE is needed"),
        (("results", "--rows", "nothing"), "No row of results"),
        (("results", "--set", "epochs"), "NAME=VALUE"),
        (("results", "--set", "seed=3"), "given by --seed"),
        (("results", "--set", "epochs=0"), "epochs must lie in 1.."),
        (("results", "--budget", "0"), "--budget must lie in (0,"),
        (("results", "--preset", "besst"), "Did you mean 'best'?"),
    ],
)
def test_bad_input_takes_one_line(arguments: tuple[str, ...], complaint: str, command: Command) -> None:
    answer = command("reproduce", *arguments)

    assert answer.status == 2 and complaint in answer.err and answer.err.count("\n") == 1

"""Results: the measurements of a run in one JSON file, validated when read."""

from __future__ import annotations

import json
import os
import re
import socket
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hadamrnn import fixedpoint
from hadamrnn.data.tasks import load_task
from hadamrnn.errors import InputError
from hadamrnn.files import INTEGER_FILE
from hadamrnn.quantization.chain import IntegerNetwork
from hadamrnn.run import Run
from hadamrnn.training.evaluate import evaluate
from hadamrnn_paper.report import build_document
from hadamrnn_paper.results import (
    CURVE_POINTS,
    Result,
    curve_columns,
    find_result,
    read_file,
    read_results,
    result_file,
    write_result,
)
from hadamrnn_paper.rows import setup
from hadamrnn_paper.runner import Job, Places, run_jobs
from reproduction.tests.conftest import SMALL
from tests.conftest import Command


def test_a_result_says_what_was_run_and_what_came_out(job: Job, places: Places) -> None:
    tally = run_jobs([job], places)

    (result,) = read_results(places.results)
    assert tally.measured == [result] and result.name == job.name and result.seed == 0
    assert result.config["epochs"] == 2 and result.epochs == 2 and result.threads == 1
    splits = load_task("digits")
    run = Run.open(places.runs / job.name)
    folder, model = run, run.model
    assert result.test == evaluate(model, splits.test, "accuracy")
    assert result.validation == evaluate(model, splits.validation, "accuracy")
    integer = fixedpoint.load(folder.path / INTEGER_FILE)
    assert result.integer is not None
    assert result.integer.test == evaluate(IntegerNetwork(integer), splits.test, "accuracy")
    assert result.integer.hidden_shift == integer.layers[0].hidden_shift
    assert integer.metadata["experiment"] == "digits-8-4bit"
    assert result.kilobytes == pytest.approx((8 + 4 * 8 * 11 + 32 * 18) / 8192, abs=1e-4)
    assert list(map(len, result.curve.values())) == [2, 2, 2, 2]


def test_leaky_layers_are_measured_in_integers_too(places: Places) -> None:
    stack = setup("digits", 8, num_layers=2, leak=(2,), readouts=("mean", "max"), normalize=True)
    run_jobs([Job(stack, "quick", 0, SMALL)], places)

    (result,) = read_results(places.results)
    assert result.integer is not None and result.integer.test is not None
    assert result.kilobytes is not None and result.integer.kilobytes < result.kilobytes


def test_a_result_names_no_host_no_path_and_no_date(job: Job, places: Places) -> None:
    run_jobs([job], places)

    text = result_file(places.results, "digits").read_text()
    assert socket.gethostname() not in text and str(places.runs) not in text
    assert not re.search(r"\b20\d\d-\d\d", text) and len(text) < 4000
    assert os.sep not in json.dumps(json.loads(text)["config"])


def test_long_curves_keep_their_end_and_all_their_flips() -> None:
    rows = [
        {"epoch": float(i + 1), "loss": 1.0, "validation_metric": 0.5, "flips": i}
        for i in range(5 * CURVE_POINTS + 3)
    ]
    curve = curve_columns(rows)

    assert len(curve["epoch"]) <= CURVE_POINTS and curve["epoch"][-1] == len(rows)
    assert sum(curve["flips"]) == sum(range(len(rows)))


def test_damaged_results_are_refused_in_one_line(result: Result, tmp_path: Path) -> None:
    path = write_result(tmp_path, result)
    line = path.read_text()
    assert read_file(path) == [result]
    for text, complaint in (
        ("{", "line 2, is damaged: it holds no readable JSON"),
        ('{"format": "x", "version": 1}', "must be a hadamrnn"),
    ):
        path.write_text(f"{line}{text}\n")
        with pytest.raises(InputError, match=complaint):
            read_file(path)
    path.write_text(line)
    path.rename(tmp_path / "other.jsonl")
    with pytest.raises(InputError, match="must hold results of other, got pmnist"):
        read_results(tmp_path)


def test_a_folder_has_a_file_for_each_task_and_a_line_for_each_result(result: Result, tmp_path: Path) -> None:
    digits = replace(result, experiment="digits-8-4bit", config={**result.config, "task": "digits"})
    for each in (replace(result, seed=1), digits, result, replace(result, test=0.5)):
        write_result(tmp_path, each)

    assert {path.name: len(path.read_text().splitlines()) for path in tmp_path.glob("*.jsonl")} == {
        "digits.jsonl": 1,
        "pmnist.jsonl": 2,
    }
    assert [each.name for each in read_results(tmp_path)] == [
        "digits-8-4bit.best.seed0",
        "pmnist-512-4bit.best.seed0",
        "pmnist-512-4bit.best.seed1",
    ]
    found = find_result(tmp_path, "pmnist", result.name)
    assert found is not None and found.test == 0.5  # the later result of the same name
    assert find_result(tmp_path, "pmnist", "another") is None


def test_processes_that_write_at_once_lose_no_line(result: Result, tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:  # the claims are files: threads compete for them as processes do
        list(pool.map(lambda seed: write_result(tmp_path, replace(result, seed=seed)), range(24)))

    assert sorted(each.seed for each in read_results(tmp_path)) == list(range(24))


@pytest.mark.parametrize("value", [None, "x", -1, 1.5, [], {}, {"epoch": 3}, [[1]], True])
def test_a_field_of_the_wrong_kind_is_one_line_or_harmless(
    value: Any, result: Result, tmp_path: Path
) -> None:
    """Whatever value a field has, the report is written, or one line names the file."""
    path = write_result(tmp_path, result)
    whole = json.loads(path.read_text())
    refused = 0
    for name in [*whole, "unknown"]:
        path.write_text(json.dumps({**whole, name: value}))
        try:
            build_document(read_results(tmp_path), None)
        except InputError as error:
            refused += 1
            assert str(path) in str(error) and "\n" not in str(error)
    assert refused >= 10


@pytest.mark.parametrize(
    "text", ["[]", "3", "[" * 100_000, '{"version": ' + "9" * 5000 + "}", '{"format": NaN}']
)
def test_what_is_no_result_is_refused_in_one_line(text: str, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(text)
    with pytest.raises(InputError, match=r"is damaged|must be a hadamrnn result"):
        read_file(path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(InputError, match="a folder, pipe or device"):
        read_results(tmp_path)


@pytest.mark.parametrize("name", ["seconds", "test", "epochs"])
def test_a_number_beyond_floats_in_a_result_is_one_line(
    name: str, tmp_path: Path, result: Result, command: Command
) -> None:
    path = write_result(tmp_path / "results", result)
    path.write_text(json.dumps({**json.loads(path.read_text()), name: 10**400}))

    answer = command("report", "--results", path.parent, "--out", tmp_path / "out")

    assert answer.status == 2 and answer.err.count("\n") == 1, answer
    assert f"is damaged: {name} must be float" in answer.err


@pytest.mark.parametrize(
    "damage",
    [
        {"metric": 3},
        {"test": "high"},
        {"config": {}},
        {"config": {"task": "pmnist"}},
        {"config": {"task": "pmnist", "model": "hadamrnn", "epochs": 0}},
        {"config": {"task": "pmnist", "model": "hadamrnn", "epochs": 1, "unknown": 1}},
        {"seed": -1},
        {"steps": 0},
        {"integer": {"activation_bits": "x", "test": 0, "kilobytes": 1, "hidden_shift": 0, "saturations": 0}},
        {
            "integer": {
                "activation_bits": 12,
                "test": 0,
                "kilobytes": 1,
                "hidden_shift": 9999,
                "saturations": 0,
            }
        },
        {"curve": {"epoch": "x"}},
        {"curve": {"epoch": []}},
        {"curve": {"epoch": [], "loss": [], "validation": [], "flips": []}},
        {"curve": {"epoch": [1], "loss": [None], "validation": [1], "flips": [1]}},
    ],
)
def test_a_damaged_row_takes_one_line(
    damage: dict[str, object], result: Result, command: Command, tmp_path: Path
) -> None:
    path = write_result(tmp_path / "results", replace(result, preset="paper"))
    path.write_text(json.dumps({**json.loads(path.read_text()), **damage}))

    answer = command("report", "--results", tmp_path / "results", "--out", tmp_path)

    assert answer.status == 2 and answer.err.count("\n") == 1 and path.name in answer.err

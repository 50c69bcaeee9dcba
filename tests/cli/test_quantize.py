"""`hadamrnn quantize`, `eval --integer` and `cost RUN` on a run of scikit-learn's digits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hadamrnn import fixedpoint
from hadamrnn.cli import main
from hadamrnn.data.tasks import load_task
from hadamrnn.files import INTEGER_FILE
from hadamrnn.quantization.chain import calibration_batches, raw_inputs
from hadamrnn.quantization.results import quantize_lines
from hadamrnn.run import train
from hadamrnn.training.config import make_config
from tests.conftest import Command


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "digits"
    train(make_config(task="digits", hidden_size=64, epochs=4, batch_size=32, learning_rate=3e-3), out)
    return out


def figures(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main([*arguments, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_quantize_writes_a_file_that_eval_and_cost_read(
    run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    quantized = figures(capsys, "quantize", str(run_folder))
    evaluated = figures(capsys, "eval", str(run_folder), "--integer")
    cost = figures(capsys, "cost", str(run_folder))

    model = fixedpoint.load(run_folder / INTEGER_FILE)
    assert model.input_bits == 6  # digits have 17 grey levels, 0 to 16
    assert model.metadata["integer"] == quantized["integer"] == evaluated["value"]
    assert abs(quantized["integer"] - quantized["float"]) <= 0.02
    assert quantized["payload_bytes"] == cost["file_bytes"]["payload"]
    assert quantized["saturations"] == evaluated["saturations"] == 0


def test_few_bits_lose_and_finetuning_wins_some_back(
    run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("quantize", str(run_folder), "--activation-bits", "6", "--split", "validation")
    plain = figures(capsys, *arguments)
    tuned = figures(capsys, *arguments, "--finetune", "--finetune-steps", "60")

    assert plain["integer"] < tuned["integer"]


def test_advice_is_given_only_where_rounding_spoils_the_accuracy(
    run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["quantize", str(run_folder), "--activation-bits", "6"]) == 0
    spoilt = capsys.readouterr().out
    assert main(["quantize", str(run_folder), "--activation-bits", "16"]) == 0
    fine = capsys.readouterr().out

    assert "6-bit states cost" in spoilt and "points: try --activation-bits 8 or --finetune" in spoilt
    assert "advice" not in fine


@pytest.mark.parametrize(("metric", "shown"), [("mse", "mse"), ("cross_entropy", "cross-entropy")])
def test_advice_names_the_metric_that_rounding_spoils(metric: str, shown: str) -> None:
    sizes = {"extra_bytes": 0, "header_bytes": 0, "kilobytes": 1.0, "paper_kilobytes": 1.0}
    metrics = {"metric": metric, "split": "test", "float": 0.25, "integer": 0.75, "activation_bits": 12}
    saturated = {"saturations": 0, "input_saturations": 0}

    found = quantize_lines({**sizes, **metrics, **saturated, "inputs": "", "file": ""})

    assert f"advice    12-bit states cost 0.5 of {shown}: try --activation-bits 14 or --finetune" in found


def test_text_output_names_both_metrics_and_the_file(
    run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["quantize", str(run_folder)]) == 0
    text = capsys.readouterr().out

    assert "float     accuracy" in text
    assert "integer   accuracy" in text
    assert str(run_folder / INTEGER_FILE) in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--activation-bits", "5"], "--activation-bits must lie in 6..16, got 5"),
        (["--input-bits", "1"], "--input-bits must lie in 2..16, got 1"),
        (["--percentile", "0"], "--percentile must lie in (0, 100], got '0'"),
        (["--raw-unit", "1"], "digits has its own codes. Leave it out."),
    ],
)
def test_bad_options_are_one_line(
    run_folder: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert main(["quantize", str(run_folder), *options]) == 2
    captured = capsys.readouterr()

    assert message in captured.err
    assert captured.err.count("\n") == 1


def test_eval_integer_needs_quantize_first(
    run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("config.yaml", "run.json", "model.safetensors"):
        (tmp_path / name).write_bytes((run_folder / name).read_bytes())

    assert main(["eval", str(tmp_path), "--integer"]) == 2
    assert f"hadamrnn quantize {tmp_path}" in capsys.readouterr().err


def test_calibration_takes_rows_evenly_from_training_and_validation_data() -> None:
    splits = load_task("digits")

    some = [len(x) for x, _ in calibration_batches((splits.train, splits.validation), samples=100)]
    everything = [len(x) for x, _ in calibration_batches((splits.train, splits.validation), samples=10**6)]

    assert 80 <= sum(some) <= 102
    assert sum(everything) == len(splits.train) + len(splits.validation)
    assert raw_inputs(splits) is not None


def test_a_network_without_input_bias_has_none_in_integers_even_fine_tuned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = ("--hidden-size", "16", "--steps", "5", "--threads", "1", "--quiet")
    assert main(["train", "digits", "--no-input-bias", *small, "--out", str(tmp_path / "run")]) == 0
    capsys.readouterr()
    figures(capsys, "quantize", str(tmp_path / "run"), "--finetune", "--finetune-steps", "3")

    model = fixedpoint.load(tmp_path / "run" / INTEGER_FILE)
    assert not model.network.input_bias


@pytest.mark.parametrize("unit", ["1e-300", "1e-30", "1e-9", "1", "1e9", "1e30", "3e38"])
def test_any_raw_unit_gives_a_network_or_one_line(unit: str, tmp_path: Path, command: Command) -> None:
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "mine.npz", x=rng.normal(5, 2, (30, 6, 2)), y=np.arange(30) % 2)
    small = ("--hidden-size", "8", "--steps", "1", "--threads", "1", "--quiet")
    assert command("train", tmp_path / "mine.npz", *small, "--out", tmp_path / "run").status == 0

    answer = command("quantize", tmp_path / "run", "--raw-unit", unit)

    assert answer.status in (0, 2), answer
    assert answer.err.count("\n") == (answer.status == 2), answer

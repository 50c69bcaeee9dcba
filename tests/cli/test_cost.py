"""`hadamrnn cost`: the formula, and the real file of a run beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hadamrnn import fixedpoint
from hadamrnn.cli import main
from hadamrnn.files import INTEGER_FILE
from hadamrnn.fixedpoint.drawn import draw_model
from hadamrnn.network import Network, architecture
from hadamrnn.nn.model import SequenceModel
from hadamrnn.nn.storage import save_model
from hadamrnn.quantization.calibration import Calibration
from hadamrnn.quantization.lowering import lower
from tests.conftest import Command

COST = ["cost", "--hidden-size", "512", "--input-size", "1", "--output-size", "10"]


def test_cost_prints_the_papers_size_and_both_counts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*COST, "--activation-bits", "12"]) == 0
    text = capsys.readouterr().out
    assert "3.58 kB" in text and "262,144" in text and "4,608" in text

    assert main([*COST, "--activation-bits", "12", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["kilobytes"] == pytest.approx(3.58, abs=0.005)
    assert figures["operations_per_step"]["fast_transform"]["recurrent"]["additions"] == 4608


def test_only_symbols_need_no_multiplication_by_the_input(command: Command) -> None:
    dense, one_hot = (json.loads(command(*COST, *flags, "--json").out) for flags in ((), ("--one-hot",)))

    assert dense["operations_per_step"]["paper"]["input"]["multiplications"] == 512
    assert one_hot["operations_per_step"]["paper"]["input"]["multiplications"] == 0


def test_cost_of_a_quantized_run_is_measured_on_its_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = SequenceModel(Network(1, 512, 10))
    integer = lower(model, Calibration(max_state=4.0, max_input=1.0, seq_length=784, samples=1))
    fixedpoint.save(integer, tmp_path / INTEGER_FILE)

    assert main(["cost", str(tmp_path), "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert main(["cost", str(tmp_path)]) == 0
    text = capsys.readouterr().out

    assert figures["file_bytes"]["payload"] == 3663
    assert figures["file_bytes"]["total"] == (tmp_path / INTEGER_FILE).stat().st_size
    assert round(figures["kilobytes"], 2) == 3.58
    assert "in the file      3.58 kB" in text


def test_cost_of_a_quantized_stack_is_its_file(tmp_path: Path, command: Command) -> None:
    stack = Network(
        32, output_size=12, layer_sizes=(128, 64), num_blocks=4, leak=(1, 2), readouts=("mean", "last"),
        normalize=True, activation_bits=12,
    )  # fmt: skip
    fixedpoint.save(draw_model(stack), tmp_path / INTEGER_FILE)

    figures = json.loads(command("cost", tmp_path, "--json").out)
    text = command("cost", tmp_path).out

    assert 8 * figures["file_bytes"]["payload"] == sum(figures["bits"].values())
    assert text.startswith("network       128 + 64 units in 4 blocks, leak 1,2, reads out mean,last, 4-bit")
    assert "U and V          6.75 kB: 128 x 32, 64 x 128, and 12 x 128" in text
    sizes = ("--layer-sizes", "128,64", "--input-size", 32, "--output-size", 12)
    assert "6.75 kB: 128 x 32" in command("cost", *sizes, "--readouts", "mean,last").out


def test_cost_of_a_trained_run_counts_biases_in_floating_point(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_model(SequenceModel(Network(1, 512, 10)), tmp_path / "model.safetensors")

    assert main(["cost", str(tmp_path), "--json"]) == 0

    figures = json.loads(capsys.readouterr().out)
    assert figures["bits"]["biases"] == 32 * 522
    assert "file_bytes" not in figures


def test_cost_counts_no_input_bias_where_there_is_none(tmp_path: Path, command: Command) -> None:
    save_model(SequenceModel(Network(1, 512, 10, input_bias=False)), tmp_path / "model.safetensors")
    shape = ("--hidden-size", "512", "--input-size", "1", "--output-size", "10", "--no-input-bias")

    of_run = json.loads(command("cost", tmp_path, "--json").out)
    of_shape = json.loads(command("cost", *shape, "--json").out)

    assert of_run["bits"] == of_shape["bits"]
    assert of_run["bits"]["biases"] == 32 * 10


@pytest.mark.parametrize("switches", ["rows", "rows+columns"])
@pytest.mark.parametrize(("num_layers", "bidirectional"), [(1, False), (1, True), (2, False), (3, True)])
def test_cost_of_a_stacked_run_counts_every_parameter(
    num_layers: int, bidirectional: bool, switches: str, tmp_path: Path, command: Command
) -> None:
    config = Network(3, 16, 5, num_layers, bidirectional, switches=switches)
    model = SequenceModel(config)
    save_model(model, tmp_path / "model.safetensors")

    figures = json.loads(command("cost", tmp_path, "--json").out)

    counts = {"signs": 0, "weights": 0, "biases": 0}
    for name, parameter in model.named_parameters():
        part = next(part for part in ("signs", "weight", "bias") if part in name)
        counts[part if part == "signs" else part + ("s" if part == "weight" else "es")] += parameter.numel()
    bits = {"signs": 1, "weights": 4, "biases": 32}
    assert {part: figures["bits"][part] for part in bits} == {
        part: bits[part] * count for part, count in counts.items()
    }
    steps = figures["operations_per_step"]["fast_transform"]
    assert sum(steps[part]["multiplications"] for part in ("input", "output")) == counts["weights"]
    cells = num_layers * (2 if bidirectional else 1)
    assert steps["recurrent"]["additions"] == cells * 16 * 4


@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn"])
@pytest.mark.parametrize(("num_layers", "bidirectional"), [(1, False), (1, True), (3, True)])
def test_cost_of_a_stacked_baseline_counts_every_weight(
    kind: str, num_layers: int, bidirectional: bool, tmp_path: Path, command: Command
) -> None:
    stack: dict[str, Any] = {"num_layers": num_layers, "bidirectional": bidirectional}
    model = SequenceModel(architecture(kind)(3, 16, 5, **stack))
    save_model(model, tmp_path / "model.safetensors")

    figures = json.loads(command("cost", tmp_path, "--json").out)

    weights = sum(parameter.numel() for parameter in model.parameters() if parameter.dim() == 2)
    parts = ("recurrent", "input", "output")
    assert sum(figures["bits"][part] for part in parts) == 32 * weights
    steps = figures["operations_per_step"]["paper"]
    assert sum(steps[part]["multiplications"] for part in parts) == weights


def test_a_baseline_of_one_layer_has_no_stack(command: Command) -> None:
    sizes = ("--hidden-size", 8, "--input-size", 1, "--output-size", 2)
    answer = command("cost", "--model", "ornn", *sizes, "--num-layers", 2)

    assert answer.status == 2
    assert "no setting 'num_layers' of ornn networks" in answer.err


def test_cost_of_an_empty_folder_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", str(tmp_path)]) == 2
    assert "has neither" in capsys.readouterr().err

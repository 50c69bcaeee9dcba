"""`hadamrnn cost RUN`: the real file beside the formula."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hadamrnn import fixedpoint
from hadamrnn.cli import main
from hadamrnn.layers.model import ModelConfig, build_model
from hadamrnn.layers.storage import save_model
from hadamrnn.quantization.calibration import Calibration
from hadamrnn.quantization.lowering import lower


def test_cost_of_a_quantized_run_is_measured_on_its_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = build_model(ModelConfig(1, 512, 10))
    integer = lower(model, Calibration(max_state=4.0, max_input=1.0, seq_length=784, samples=1))
    fixedpoint.save(integer, tmp_path / fixedpoint.FILE_NAME)

    assert main(["cost", str(tmp_path), "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert main(["cost", str(tmp_path)]) == 0
    text = capsys.readouterr().out

    assert figures["file_bytes"]["payload"] == 3663
    assert figures["file_bytes"]["total"] == (tmp_path / fixedpoint.FILE_NAME).stat().st_size
    assert round(figures["kilobytes"], 2) == 3.58
    assert "in the file      3.58 kB" in text


def test_cost_of_a_trained_run_counts_biases_in_floating_point(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_model(build_model(ModelConfig(1, 512, 10)), tmp_path / "model.safetensors")

    assert main(["cost", str(tmp_path), "--json"]) == 0

    figures = json.loads(capsys.readouterr().out)
    assert figures["bits"]["biases"] == 32 * 522
    assert "file_bytes" not in figures


def test_cost_of_an_empty_folder_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", str(tmp_path)]) == 2
    assert "it holds neither" in capsys.readouterr().err

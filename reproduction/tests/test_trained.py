"""Trained networks on real sequences: permuted MNIST and human activities, from training to C."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from hadamrnn.data.tasks import load_task
from hadamrnn.export.golden import make_golden
from hadamrnn.export.targets import measure, target_named
from hadamrnn.fixedpoint.encoding import raw_from_inputs
from hadamrnn.network import Network
from hadamrnn.nn.model import SequenceModel
from hadamrnn.quantization import QuantizeConfig
from hadamrnn.quantization.chain import quantize
from tests.export.programs import SANITIZED, compile_and_run, write_program

needs_data = pytest.mark.skipif("HADAMRNN_DATA" not in os.environ, reason="HADAMRNN_DATA is not set")
needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc installed")


@needs_data
@needs_gcc
@pytest.mark.slow
@pytest.mark.parametrize(("task", "hidden_size", "steps"), [("har2", 128, 20), ("pmnist", 512, 3)])
def test_c_is_the_engine_on_trained_networks_and_real_sequences(
    task: str, hidden_size: int, steps: int, tmp_path: Path
) -> None:
    splits = load_task(task, None)
    config = Network(splits.input_size, hidden_size, splits.output_size)
    model = SequenceModel(config)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(steps):
        x, y, _ = splits.train.batch(torch.arange(16 * step, 16 * (step + 1)))
        assert y is not None
        optimizer.zero_grad()
        model.loss(x, y).backward()
        optimizer.step()
    integer = quantize(model.eval(), splits, QuantizeConfig(calibration_samples=64))
    raw = raw_from_inputs(integer, splits.test.batch(torch.arange(6))[0].numpy())
    golden = make_golden(integer, raw, every=False)

    main = write_program(tmp_path, [integer], packed=[True], golden=golden)

    assert np.abs(golden.hidden[-1]).max() > 1 << integer.activation_bits - 4  # the sequences move the state
    assert compile_and_run("gcc", main, SANITIZED) == "1 models, 0 bad\n"
    cortex = target_named("cortex-m4")
    if not cortex.missing_tools:
        assert measure(integer, cortex).differences == 0

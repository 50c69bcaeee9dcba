"""The engine's guarantees on memory and time."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
import torch

from hadamrnn.kernels.recurrence import Recurrence
from hadamrnn.kernels.scan import native_scan

STEP = """
import sys, torch
torch.set_num_threads(1)
from hadamrnn_benchmarks.training import extra_megabytes
from hadamrnn.nn.model import SequenceModel
from hadamrnn.network import Network
model = SequenceModel(Network(input_size=1, hidden_size=128, output_size=10, readouts=(sys.argv[2],)))
optimizer = torch.optim.Adam(model.parameters())
def step(x):
    optimizer.zero_grad()
    model.loss(x, torch.tensor([3])).backward()
    optimizer.step()
x = torch.rand(1, int(sys.argv[1]), 1)
print(extra_megabytes(lambda: step(x)))
"""

pytestmark = pytest.mark.usefixtures("native")


def extra_megabytes_of_a_step(steps: int, readout: str) -> float:
    command = [sys.executable, "-c", STEP, str(steps), readout]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is reset through /proc")
def test_training_memory_does_not_grow_with_length() -> None:
    lengths = (10_000, 100_000, 1_000_000)
    short, long, longest = (extra_megabytes_of_a_step(steps, "last") for steps in lengths)

    assert longest < 100
    assert long <= 1.1 * short


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is reset through /proc")
def test_training_memory_of_a_pooled_network_grows_like_a_root_at_most() -> None:
    long, longest = (extra_megabytes_of_a_step(steps, "mean") for steps in (100_000, 1_000_000))

    assert longest < 50  # the bits of all steps would take 260
    assert longest < 4 * long


def cpu_seconds_of_a_step(hidden_size: int) -> float:
    """Return the least processor time of a forward and backward scan, which other processes hardly affect."""
    signs = torch.randn(hidden_size).sign().requires_grad_()
    weight = torch.randn(hidden_size, 1, requires_grad=True)
    x = torch.rand(4, 256, 1)
    best = float("inf")
    for _ in range(5):
        start = time.process_time()
        case = Recurrence(signs, hidden_size, x=x, weight=weight, segment=64)
        _, last, *_ = native_scan(signs)(*case.arguments())
        torch.autograd.grad(last.sum(), (signs, weight))
        best = min(best, time.process_time() - start)
    return best


@pytest.mark.slow
def test_the_scan_costs_d_log_d() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        seconds = [cpu_seconds_of_a_step(hidden_size) for hidden_size in (512, 1024, 2048, 4096)]
    finally:
        torch.set_num_threads(before)

    assert (seconds[-1] / seconds[0]) ** (1 / 3) <= 2.6  # a doubling, on average; d^2 would be 4

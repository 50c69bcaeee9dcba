"""What a network takes of a device, in real units."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from hadamrnn.export.budget import Device, Load
from hadamrnn.fixedpoint.drawn import draw_model
from hadamrnn.fixedpoint.instructions import estimate
from hadamrnn.fixedpoint.plan import make_plan
from hadamrnn.network import Network
from tests.conftest import Command

PLAIN = Network(input_size=9, hidden_size=64, output_size=6, weight_bits=4, activation_bits=12)
SHAPE = ("--hidden-size", 64, "--input-size", 9, "--output-size", 6, "--activation-bits", 12)


@pytest.mark.parametrize(
    "network", [PLAIN, replace(PLAIN, num_blocks=4, leak=(1, 2, 3, 4), readouts=("mean", "max"))]
)
def test_a_window_takes_a_state_and_a_step_for_each_of_its_hops(network: Network) -> None:
    one, four = Load.of(network, 32, 32), Load.of(network, 128, 32)

    assert four.ram - one.ram == 3 * make_plan(draw_model(network)).state_bytes
    assert four.instructions - one.instructions == pytest.approx(3 * estimate(network))
    assert four.flash == one.flash


@pytest.mark.parametrize("step", [None, 4000])
def test_a_device_keeps_up_if_its_clock_has_the_cycles(step: int | None) -> None:
    load = Load.of(PLAIN, 64, 64, step)
    most = 16e6 / load.instructions

    assert load.excesses(Device(rate=most * 0.99, clock=16)) == []
    (line,) = load.excesses(Device(rate=most * 1.01, clock=16))
    assert line.startswith("the device cannot keep up: at most")
    assert load.excesses(Device(max_ram=load.ram, max_flash=load.flash)) == []
    assert len(load.excesses(Device(max_ram=load.ram - 1, max_flash=load.flash - 1))) == 2


def test_cost_compares_a_network_with_a_device(command: Command) -> None:
    answer = json.loads(command("cost", *SHAPE, "--rate", 50, "--max-flash", 100, "--json").out)["device"]
    assert 0 < answer["share"] < 0.1 and not answer["fits"]
    said = command("cost", *SHAPE, "--rate", 1e6).out
    assert "of a 64 MHz Cortex-M4" in said and "the device cannot keep up" in said
    assert "device" not in command("cost", *SHAPE).out
    refused = command("cost", *SHAPE, "--clock", 8)
    assert refused.status == 2 and "--clock has no effect without --rate" in refused.err


def test_search_turns_a_rate_into_instructions(command: Command) -> None:
    tight = ("search", "digits", "--max-bytes", 512, "--steps-per-second", 1e6, "--clock", 1)
    refused = command(*tight)
    assert refused.status == 2 and "makes a step in 1 instructions" in refused.err

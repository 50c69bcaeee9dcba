"""The load of a network on a device, in real units."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from hadamrnn.errors import InputError
from hadamrnn.fixedpoint.cost import Device, Load, estimate
from hadamrnn.fixedpoint.drawn import draw_model
from hadamrnn.fixedpoint.plan import make_plan
from hadamrnn.front_end import FrontEnd, front_end_cost
from hadamrnn.network import Network
from hadamrnn.search.space import ESTIMATE_MARGIN, Budget, SearchSpace
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


def test_a_front_end_loads_the_device_as_well() -> None:
    alone = replace(PLAIN, input_size=32)
    network, cost = replace(alone, front_end=FrontEnd()), front_end_cost(FrontEnd())
    load, without = Load.of(network, 98, 98), Load.of(alone, 98, 98)
    added = [getattr(load, each.name) - getattr(without, each.name) for each in fields(Load)]
    slow = Device(rate=100, clock=8)  # the network alone would keep up

    assert added == [cost.instructions, cost.flash, cost.ram]
    assert without.excesses(slow) == [] and load.excesses(slow)
    with pytest.raises(InputError, match="No network of 4096 bytes fits the device"):
        SearchSpace(network, Budget(4096, device=slow))


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


def test_search_refuses_a_rate_that_no_network_keeps_up_with(command: Command) -> None:
    tight = ("search", "digits", "--max-bytes", 512, "--rate", 1e6, "--clock", 1)
    refused = command(*tight)
    assert refused.status == 2 and "fits the device, not even" in refused.err
    assert "the device cannot keep up: at most" in refused.err
    assert command("search", "digits", "--max-bytes", 512, "--clock", 1).status == 2
    refused = command("search", "digits", "--max-bytes", 512, "--max-ram", 20)
    assert refused.status == 2 and "too little RAM" in refused.err


@pytest.mark.parametrize("hop", [16, 64])
def test_a_search_has_only_networks_that_keep_up_with_all_their_windows(hop: int) -> None:
    device = Device(rate=2000, clock=16, max_ram=1500, max_flash=4000)
    space = SearchSpace(PLAIN, Budget(2048, device=device, window=64, hop=hop))
    loads = [Load.of(each, 64, hop) for each in space.candidates]

    assert all(not load.excesses(device) for load in loads)
    assert max(load.share(device) or 0 for load in loads) <= 1 / ESTIMATE_MARGIN + 1e-3
    free = SearchSpace(PLAIN, Budget(2048)).candidates
    assert len(space.candidates) < len(free)
    largest = max(each.hidden_size for each in space.candidates)
    assert largest <= (64 if hop == 16 else 4096)


def test_counted_instructions_decide_where_they_are_known() -> None:
    budget = Budget(4096, device=Device(rate=1000, clock=1), window=1000, hop=1000)

    assert budget.excesses(PLAIN, 100) == [] and budget.counts
    (line,) = budget.excesses(PLAIN, 1001)
    assert line.startswith("the device cannot keep up")
    assert Budget(4096, 50).excesses(PLAIN, 51) == ["a step takes 51 instructions, not 50"]


def test_train_says_what_its_network_takes_and_that_a_device_cannot_keep_up(
    command: Command, tmp_path: Path
) -> None:
    rows = ["x,label", *(f"{np.sin(row / (3 + row // 300 % 2)):.3f},{row // 300 % 2}" for row in range(1800))]
    (tmp_path / "log.csv").write_text("\n".join(rows))
    small = ("--hidden-size", 16, "--steps", 2, "--threads", 1, "--window", 32, "--hop", 8)
    given = ("--rate", 50, "--clock", 0.001, "--max-ram", 100)
    answer = command("train", tmp_path / "log.csv", *small, *given, "--out", tmp_path / "run")

    assert answer.status == 0
    assert "the device cannot keep up: at most" in answer.err and "too little RAM" in answer.err
    quiet = ("--quiet", "--json", "--out", tmp_path / "again")
    found = json.loads(command("train", tmp_path / "log.csv", *small, "--rate", 0.1, *quiet).out)["device"]
    assert found["fits"] and 0 < found["share"] < 1e-3
    refused = command("train", "--resume", tmp_path / "run", "--max-ram", 100)
    assert refused.status == 2 and "--max-ram has no effect with --resume" in refused.err

"""The space of a search contains exactly the candidates that fit, and sizes are those of the file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from optuna.trial import FixedTrial

from hadamrnn import fixedpoint
from hadamrnn.errors import InputError
from hadamrnn.fixedpoint.cost import estimate, network_size
from hadamrnn.fixedpoint.drawn import draw_model
from hadamrnn.network import Network, hadamard
from hadamrnn.search.space import (
    BOARD,
    HIDDEN_SIZES,
    Budget,
    SearchSpace,
    all_candidates,
    count,
)
from hadamrnn.training.config import resolve_config
from tests.edge_targets import installed

DIGITS = Network(1, 8, 10)
NETWORKS = (DIGITS, Network(9, 8, 2), Network(10, 8, 9, input_kind="one_hot", every_output=True))


def candidate_of(network: Network, *choices: int | str) -> Network:
    names = ("hidden_size", "num_blocks", "weight_bits", "activation_bits")
    fields: dict[str, Any] = dict(zip(names, choices, strict=True))
    return replace(network, leak=network.leak[: fields["num_blocks"]], **fields)


@given(st.sampled_from(NETWORKS), st.integers(120, 5000), st.none() | st.integers(2000, 40_000))
@settings(max_examples=20)
def test_the_space_is_all_that_fits(network: Network, most_bytes: int, most_steps: int | None) -> None:
    inside = set(SearchSpace(network, Budget(most_bytes, most_steps)).candidates)

    for candidate in all_candidates(network):
        small = network_size(candidate).bytes <= most_bytes
        quick = most_steps is None or estimate(candidate) <= most_steps
        assert (candidate in inside) == (small and quick)


@given(st.data(), st.integers(120, 5000))
@settings(max_examples=30)
def test_every_candidate_that_fits_can_be_suggested(data: st.DataObject, most_bytes: int) -> None:
    space = SearchSpace(DIGITS, Budget(most_bytes, 20_000))
    candidate = data.draw(st.sampled_from(space.candidates))

    assert space.suggest(FixedTrial(dict(space.indices(candidate)))) == candidate


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("number", range(25))
def test_the_bytes_are_those_of_the_file(network: Network, number: int, tmp_path: Path) -> None:
    family = all_candidates(network)
    candidate = family[number * len(family) // 25]
    if candidate.hidden_size > 512:
        candidate = replace(candidate, hidden_size=8 * candidate.num_blocks)

    size = fixedpoint.save(draw_model(candidate), tmp_path / "model")

    assert size.payload == network_size(candidate).bytes


def test_a_budget_that_nothing_fits_names_the_smallest_network() -> None:
    least = min(network_size(each).bytes for each in all_candidates(DIGITS))
    with pytest.raises(InputError, match=f"fits {least - 1} bytes: the smallest .* takes {least} bytes"):
        SearchSpace(DIGITS, Budget(least - 1))
    assert SearchSpace(DIGITS, Budget(least)).candidates

    with pytest.raises(InputError, match="10 instructions") as caught:
        SearchSpace(DIGITS, Budget(512, 10))
    fewest = int(str(caught.value).split("takes ")[1].split(".")[0])
    assert SearchSpace(DIGITS, Budget(512, fewest)).candidates


def test_the_first_candidate_is_the_preset_if_it_fits() -> None:
    preset = hadamard(resolve_config("digits", preset="quick").network)

    assert SearchSpace(DIGITS, Budget(1 << 16)).nearest(preset) == candidate_of(DIGITS, 64, 1, 4, 12)
    assert SearchSpace(DIGITS, Budget(300)).nearest(preset).hidden_size < 64


def test_candidates_have_blocks_of_at_least_four_units() -> None:
    blocks = {candidate.hidden_size // candidate.num_blocks for candidate in all_candidates(DIGITS)}

    assert blocks == {4 << power for power in range(11)}


def test_the_space_is_the_documented_one() -> None:
    candidates = all_candidates(DIGITS)

    sizes = {2**n for n in range(3, 13)} | {3 * 2**n for n in range(3, 11)}
    assert {each.hidden_size for each in candidates} == sizes
    assert {each.weight_bits for each in candidates} == {"ternary", 2, 3, 4, 6, 8}
    assert {each.activation_bits for each in candidates} == {8, 10, 12}
    blocks = [each.num_blocks for each in candidates if each.hidden_size == 24 and each.weight_bits == 2]
    assert set(blocks) == {3, 6}


def test_stacks_of_several_widths_are_searched_with_one() -> None:
    wide = Network(32, 8, 12, layer_sizes=(64, 128, 128), num_blocks=8)

    found = all_candidates(wide)

    assert {candidate.num_layers for candidate in found} == {3}
    assert {candidate.widths for candidate in found} == {(size,) * 3 for size in HIDDEN_SIZES}


@pytest.mark.edge
@pytest.mark.parametrize("leak", [(), (3,), (1, 2, 3, 4, 5, 6)])
@pytest.mark.parametrize("readouts", [("last",), ("mean", "max")])
@pytest.mark.parametrize(
    ("layers", "choices"), [(1, (96, 3, 8, 8)), (2, (64, 8, 4, 12)), (3, (32, 2, "ternary", 10))]
)
def test_the_estimate_covers_networks_with_leaks_pooled_features_and_layers(
    leak: tuple[int, ...], readouts: tuple[str, ...], layers: int, choices: tuple[int | str, ...]
) -> None:
    installed(BOARD)
    network = Network(
        9, 8, 6, num_layers=layers, num_blocks=8, leak=leak, readouts=readouts, normalize=True, stride=2
    )
    candidate = candidate_of(network, *choices)

    assert estimate(candidate) == pytest.approx(count(candidate), rel=0.15)


@pytest.mark.edge
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize(
    "choices",
    [
        (16, 1, 4, 12),
        (48, 3, "ternary", 8),
        (64, 4, 2, 10),
        (192, 3, 3, 12),
        (256, 64, 6, 12),
        (384, 6, 8, 8),
        (512, 1, 4, 12),
    ],
)
def test_the_estimate_is_within_15_percent_of_the_count(network: Network, choices: tuple[int, ...]) -> None:
    installed(BOARD)
    candidate = candidate_of(network, *choices)

    assert estimate(candidate) == pytest.approx(count(candidate), rel=0.15)


def test_an_output_at_every_step_costs_a_product_a_unit() -> None:
    last = Network(10, 8, 9, input_kind="one_hot")
    every = replace(last, every_output=True)

    for size in (16, 64):
        extra = [
            estimate(replace(network, hidden_size=size)) - estimate(replace(last, hidden_size=size))
            for network in (every, replace(every, output_size=18))
        ]
        products = [each - 6.5 * size for each in extra]  # after the features
        assert products[0] >= 9 * size and products[1] == pytest.approx(2 * products[0], abs=1)

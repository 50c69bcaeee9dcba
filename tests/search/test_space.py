"""The space of a search: everything in it fits, everything that fits is in it, and sizes are the file's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from optuna.trial import FixedTrial

from hadamrnn import fixedpoint
from hadamrnn.bench.shapes import draw_model
from hadamrnn.errors import InputError
from hadamrnn.search.instructions import BOARD, count, estimate
from hadamrnn.search.space import Budget, Candidate, Network, Space, every_candidate
from hadamrnn.training.config import resolve_config
from tests.edge_targets import installed

DIGITS = Network(1, 10, "dense", False)
NETWORKS = (DIGITS, Network(9, 2, "dense", False), Network(10, 9, "one_hot", True))
FAMILY = every_candidate()


def space(network: Network, budget: Budget) -> Space:
    return Space(network, budget, lambda candidate: estimate(candidate, network))


@given(st.sampled_from(NETWORKS), st.integers(120, 5000), st.none() | st.integers(2000, 40_000))
@settings(max_examples=20)
def test_the_space_is_all_that_fits(network: Network, most_bytes: int, most_steps: int | None) -> None:
    inside = set(space(network, Budget(most_bytes, most_steps)).candidates)

    for candidate in FAMILY:
        small = network.payload_bytes(candidate) <= most_bytes
        quick = most_steps is None or estimate(candidate, network) <= most_steps
        assert (candidate in inside) == (small and quick)


@given(st.data(), st.integers(120, 5000))
@settings(max_examples=30)
def test_every_candidate_that_fits_can_be_drawn(data: st.DataObject, most_bytes: int) -> None:
    drawn_from = space(DIGITS, Budget(most_bytes, 20_000))
    candidate = data.draw(st.sampled_from(drawn_from.candidates))

    assert drawn_from.draw(FixedTrial(drawn_from.indices(candidate))) == candidate


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("candidate", FAMILY[:: len(FAMILY) // 25])
def test_the_bytes_are_those_of_the_file(network: Network, candidate: Candidate, tmp_path: Path) -> None:
    small = (
        replace(candidate, hidden_size=8 * candidate.num_blocks) if candidate.hidden_size > 512 else candidate
    )
    model = draw_model(network.shape(small))

    size = fixedpoint.save(model, tmp_path / "model")

    assert size.payload == network.payload_bytes(small)


def test_a_budget_that_nothing_fits_names_the_smallest_network() -> None:
    least = min(map(DIGITS.payload_bytes, FAMILY))
    with pytest.raises(InputError, match=f"fits {least - 1} bytes: the smallest .* takes {least} bytes"):
        space(DIGITS, Budget(least - 1))
    assert space(DIGITS, Budget(least)).candidates

    with pytest.raises(InputError, match="makes a step in 10 instructions: the quickest takes") as caught:
        space(DIGITS, Budget(512, 10))
    fewest = int(str(caught.value).split("takes ")[1].split(".")[0])
    assert space(DIGITS, Budget(512, fewest)).candidates


def test_the_first_guess_is_the_preset_where_it_fits() -> None:
    preset = resolve_config("digits", preset="quick")

    assert space(DIGITS, Budget(1 << 16)).guess(preset) == Candidate(64, 1, 4, 12)
    assert space(DIGITS, Budget(300)).guess(preset).hidden_size < 64


@pytest.mark.edge
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize(
    "candidate",
    [
        Candidate(16, 1, 4, 12),
        Candidate(48, 3, "ternary", 8),
        Candidate(64, 4, 2, 10),
        Candidate(192, 3, 3, 12),
        Candidate(256, 64, 6, 12),
        Candidate(384, 6, 8, 8),
        Candidate(512, 1, 4, 12),
    ],
)
def test_the_estimate_is_within_a_tenth_of_the_count(network: Network, candidate: Candidate) -> None:
    installed(BOARD)

    assert estimate(candidate, network) == pytest.approx(count(candidate, network), rel=0.1)

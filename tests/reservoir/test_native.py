"""The native library's counts and states are the numpy reference's, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from hadamrnn.kernels.library import Library, load_library
from hadamrnn.reservoir import Features, counting, feature_counts, sampled_states
from hadamrnn.reservoir.counting import checked_codes, count_native
from hadamrnn.reservoir.reference import count_features, group_states
from tests.reservoir_models import draw_codes, draw_features, draw_network, draw_units


def libraries() -> list[Library]:
    """Return the library bound to each instruction set of this machine."""
    found = load_library()
    return [] if found is None else [Library(found.path, isa) for isa in found.isas]


@pytest.mark.parametrize("library", libraries(), ids=lambda library: str(library.isa))
@pytest.mark.parametrize("seed", range(5))
def test_counts_and_clipped_states_equal_the_reference(library: Library, seed: int) -> None:
    rng = np.random.default_rng(seed)
    many = {"input_size": 300, "seq_length": 20} if seed == 0 else {}  # channels of two bytes
    network = draw_network(rng, **many)
    units, features = draw_units(rng, network), draw_features(rng, network, most=9)
    codes, lengths = checked_codes(network, *draw_codes(rng, network, 37))
    expected, clipped = count_features(units, features, codes, lengths)

    for threads in (1, 3):
        counts, saturations = count_native(library, units, features, codes, lengths, threads)

        np.testing.assert_array_equal(counts, expected)
        assert saturations == clipped


@pytest.mark.parametrize("library", libraries(), ids=lambda library: str(library.isa))
def test_states_equal_the_reference(library: Library) -> None:
    rng = np.random.default_rng(9)
    network = draw_network(rng, seq_length=40)
    units, empty = draw_units(rng, network), np.zeros(0, np.int64)
    codes, lengths = checked_codes(network, draw_codes(rng, network, 19)[0], None)
    expected = [
        np.stack([h.T for h, _ in group_states(group, units, part, codes)], 1)
        for group, part in zip(network.groups, network.unit_slices, strict=True)
    ]
    states = [np.zeros((each.shape[0], -(-each.shape[1] // 4), each.shape[2]), np.int16) for each in expected]

    count_native(library, units, Features(network, empty, empty, empty), codes, lengths, 2, states, 4)

    for found, each in zip(states, expected, strict=True):
        np.testing.assert_array_equal(found, each[:, ::4])


def test_counts_and_states_are_the_same_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    network = draw_network(rng, seq_length=40)
    units, features = draw_units(rng, network), draw_features(rng, network)
    x, lengths = draw_codes(rng, network, 9)
    counts, states = feature_counts(units, features, x, lengths), sampled_states(units, x, 3)

    monkeypatch.setattr(counting, "load_library", lambda: None)

    np.testing.assert_array_equal(feature_counts(units, features, x, lengths), counts)
    for found, each in zip(sampled_states(units, x, 3), states, strict=True):
        np.testing.assert_array_equal(found, each)

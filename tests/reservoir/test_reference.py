"""The arithmetic of a reservoir: the numpy reference against plain Python numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hadamrnn.errors import InputError
from hadamrnn.reservoir import (
    Features,
    Group,
    Reservoir,
    Units,
    feature_codes,
    feature_counts,
    feature_steps,
    sampled_states,
)
from tests.reservoir_models import draw_codes, draw_features, draw_network, draw_units, plain_counts


@pytest.mark.parametrize("seed", range(12))
def test_counts_are_those_of_the_equations_number_by_number(seed: int) -> None:
    rng = np.random.default_rng(seed)
    network = draw_network(rng)
    units, features = draw_units(rng, network), draw_features(rng, network)
    x, lengths = draw_codes(rng, network, 4)

    counts = feature_counts(units, features, x, lengths)

    high = 1 << network.input_bits - 1
    clipped = x.clip(-high, high - 1)
    for row, series, length in zip(counts, clipped, lengths, strict=True):
        assert row.tolist() == plain_counts(units, features, series, int(length))


def test_codes_are_shares_of_the_counted_steps() -> None:
    rng = np.random.default_rng(0)
    network = draw_network(rng, seq_length=64)
    units, features = draw_units(rng, network), draw_features(rng, network)
    x, lengths = draw_codes(rng, network, 6)
    counts, steps = feature_counts(units, features, x, lengths), feature_steps(network, features, lengths)

    assert (counts <= steps).all()
    codes = feature_codes(counts, steps, np.zeros(len(features), np.int8))

    np.testing.assert_allclose(codes / 2**15, counts / np.maximum(steps, 1), atol=2.0**-15)


def test_sampled_states_are_every_kth_state_of_all() -> None:
    rng = np.random.default_rng(1)
    network = draw_network(rng, seq_length=50)
    units = draw_units(rng, network)
    x, _ = draw_codes(rng, network, 3)

    for thinned, states, group in zip(
        sampled_states(units, x, 3), sampled_states(units, x), network.groups, strict=True
    ):
        assert states.shape == (3, group.counted_steps(50), group.units)
        np.testing.assert_array_equal(thinned, states[:, ::3])


def test_bad_descriptions_arrays_and_series_are_refused_in_one_line() -> None:
    network = Reservoir(groups=(Group(segments=3), Group()), seq_length=9)
    rng = np.random.default_rng(0)
    features = draw_features(rng, network)
    units: Any = draw_units(rng, network)
    make_units: Any = Units  # takes lists
    make_features: Any = Features

    for make, rule in (
        (lambda: Group(width=3), "power of two"),
        (lambda: Group(segments=2), "1 or 3"),
        (lambda: Reservoir(groups=()), "number of groups"),
        (lambda: make_units(network, [0, 1], [1] * 16, [0] * 16), "channel"),
        (lambda: make_units(network, [0, 0], [0] * 16, [0] * 16), "signs"),
        (lambda: make_features(network, [9, 3], [0, 0], [0, 0]), "ascending"),
        (lambda: make_features(network, [3] * 16, [0] * 16, [0] * 16), "15 features"),
        (lambda: make_features(network, [9], [0], [1]), "three segments"),
        (lambda: feature_counts(units, features, np.zeros((2, 9, 2), int)), "n, time, 1"),
        (lambda: feature_counts(units, features, np.zeros((2, 9, 1))), "hold integers"),
        (lambda: feature_counts(units, features, np.zeros((2, 9, 1), int), [10, 0]), r"0\.\.9"),
        (lambda: feature_counts(units, features, np.zeros((2, 10, 1), int)), "must lie in 0..9, got 10"),
    ):
        with pytest.raises(InputError, match=rule):
            make()

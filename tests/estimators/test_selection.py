"""The networks to compare are those that the parameters and the bytes allow."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from hadamrnn.data.splits import Split
from hadamrnn.errors import InputError
from hadamrnn.estimators import selection
from hadamrnn.estimators.selection import (
    DYNAMICS,
    FEATURE_SETS,
    MOST_UNITS,
    ParameterSpace,
    _pools,
    draw_network,
    features_of,
    network_cost,
    place_thresholds,
    select,
    state_bits,
)
from hadamrnn.estimators.target import ValueTarget
from hadamrnn.network import Network


@pytest.mark.parametrize("outputs", [2, 10])
@pytest.mark.parametrize("channels", [1, 9])
def test_networks_fill_the_bytes_and_never_more(outputs: int, channels: int) -> None:
    base = Network(channels, 1, outputs)
    for max_bytes in (700, 4096):
        sizes = [network_cost(each).bytes for each in ParameterSpace(base, max_bytes).candidates()]
        assert max(sizes) <= max_bytes and min(sizes) > 0
    with pytest.raises(InputError, match=r"max_bytes .* 8 units, got 10"):
        ParameterSpace(base, 10).candidates()


@pytest.mark.parametrize("given", [{}, {"readouts": ("last",)}, {"thresholds": 5}, {"leak": (0,)}])
def test_the_least_bytes_that_an_error_names_are_enough(given: dict[str, Any]) -> None:
    base = Network(1, 1, 2)
    with pytest.raises(InputError) as error:
        ParameterSpace(base, 0, **given).candidates()
    least = int(str(error.value).split(" for ")[0].split()[-1])

    assert network_cost(ParameterSpace(base, least, **given).candidates()[0]).bytes == least
    with pytest.raises(InputError, match="max_bytes must"):
        ParameterSpace(base, least - 1, **given).candidates()


def test_readouts_that_count_nothing_have_no_thresholds() -> None:
    found = ParameterSpace(Network(1, 1, 2), 4096, readouts=("last", "max")).candidates()

    assert {network.thresholds for network in found} == {0}


def test_blocks_are_as_many_as_asked_for() -> None:
    found = ParameterSpace(Network(1, 1, 2), 4096, hidden_size=16, num_blocks=4).candidates()

    assert {network.num_blocks for network in found} == {4}
    with pytest.raises(InputError, match=r"num_blocks must lie in 1\.\."):
        ParameterSpace(Network(1, 1, 2), 4096, hidden_size=16, num_blocks=0).candidates()


def test_thresholds_divide_the_states_of_every_unit_evenly_and_a_weight_of_two_is_two_series() -> None:
    network = Network(2, 16, 3, num_blocks=2, leak=(2, 3), readouts=("positive",), thresholds=3)
    series = 5 + torch.randn(40, 30, 2)
    model, weighted, repeated = (draw_network(network, 0) for _ in range(3))
    place_thresholds(model, Split(series, None), torch.ones(40, dtype=torch.float64))
    above = features_of(model, Split(series, None)).mean(0).reshape(3, 16)

    torch.testing.assert_close(
        above, torch.tensor([[0.75], [0.5], [0.25]]).expand(3, 16).double(), atol=0.1, rtol=0
    )

    counts = 1 + torch.arange(40) % 2
    place_thresholds(weighted, Split(series, None), counts.double())
    twice = Split(series.repeat_interleave(counts, 0), None)
    place_thresholds(repeated, twice, torch.ones(60, dtype=torch.float64))

    assert weighted.thresholds is not None and repeated.thresholds is not None
    torch.testing.assert_close(weighted.thresholds, repeated.thresholds)


@pytest.mark.parametrize("given", [{}, {"readouts": ("mean",)}, {"hidden_size": 64}, {"leak": (1, 2, 3)}])
def test_candidates_are_as_wide_as_the_bytes_allow_and_all_differ(given: dict[str, Any]) -> None:
    found = ParameterSpace(Network(2, 1, 3), 1500, **given).candidates()

    assert len(set(found)) == len(found)
    for each in found:
        block = each.block_size
        assert each.normalize and each.hidden_size <= MOST_UNITS and len(each.leak) <= max(each.num_blocks, 3)
        if "hidden_size" in given:
            assert each.hidden_size == 64
        elif each.hidden_size + block <= MOST_UNITS:
            wider = replace(each, hidden_size=each.hidden_size + block, num_blocks=each.num_blocks + 1)
            assert network_cost(each).bytes <= 1500 < network_cost(wider).bytes
    if not given:
        assert {(each.block_size, each.leak[:1]) for each in found} <= {(b, k[:1]) for b, k in DYNAMICS}
        assert [(each.readouts, each.thresholds) for each in found[: len(FEATURE_SETS)]] == list(FEATURE_SETS)


def test_blocks_of_a_given_width_are_those_suggested_where_they_divide_it() -> None:
    def blocks(hidden_size: int) -> set[int]:
        found = ParameterSpace(Network(1, 1, 2), 4096, hidden_size=hidden_size).candidates()
        return {each.block_size for each in found}

    assert blocks(128) == {32, 128, 8}
    assert blocks(96) == {32, 96, 8}
    assert blocks(20) == {20}
    with pytest.raises(InputError, match="num_blocks"):
        ParameterSpace(Network(1, 1, 2), 4096, num_blocks=2).candidates()


def test_states_have_as_many_bits_as_their_sums_leave() -> None:
    mean = Network(1, 8, 2, readouts=("mean",))
    assert [state_bits(mean, steps) for steps in (1, 32_767, 32_768, 65_535, 65_536)] == [16, 16, 15, 15, 14]
    assert state_bits(Network(1, 8, 2, readouts=("max",)), 1 << 20) == 16
    assert state_bits(Network(1, 8, 2), 1 << 20) == 12


@pytest.mark.parametrize("seed", [0, 1])
def test_features_of_a_candidate_are_columns_of_the_wide_network_of_its_pool(seed: int) -> None:
    """Candidates share one pass: each has the first units and some of the thresholds. U is not rounded."""
    candidates = ParameterSpace(Network(2, 1, 3, weight_bits=None), 3000).candidates()
    series = Split(torch.randn(6, 20, 2), None, lengths=torch.tensor([20, 3, 7, 20, 1, 12]))
    pools = list(_pools(candidates))

    assert sorted(map(str, candidates)) == sorted(str(each) for pool in pools for each in pool.members)
    assert len(pools) < len(candidates)
    for pool in pools:
        wide = draw_network(pool.network, seed)
        place_thresholds(wide, series, torch.ones(6, dtype=torch.float64))
        features = features_of(wide, series)
        for member in pool.members:
            own = pool.member(wide, member)
            assert own.network == member
            torch.testing.assert_close(
                features_of(own, series), features[:, pool.columns(member)], rtol=1e-5, atol=1e-6
            )


def test_features_and_thresholds_do_not_depend_on_the_memory_they_may_take(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    network = Network(2, 16, 3, num_blocks=2, readouts=("mean", "max"), thresholds=2)
    series = Split(torch.randn(40, 30, 2), None, lengths=1 + torch.arange(40) % 30)
    found = []
    for limit in (1 << 22, 1):
        monkeypatch.setattr(selection, "ROW_BYTES", limit)
        model = draw_network(network, 0)
        place_thresholds(model, series, torch.ones(40, dtype=torch.float64))
        found.append((model.thresholds, features_of(model, series)))

    torch.testing.assert_close(found[0], found[1], rtol=1e-5, atol=1e-5)


def test_the_selected_network_has_the_least_error_on_what_it_was_selected_by() -> None:
    """The target is the mean of the first channel, which the read-out `last` alone cannot compute."""
    x = torch.randn(60, 12, 1)
    values = x.mean(1).double()
    target = ValueTarget(values, torch.ones(60, dtype=torch.float64), torch.arange(60))
    last = Network(1, 16, 1, normalize=True)
    mean = Network(1, 16, 1, readouts=("mean",), thresholds=1, normalize=True)

    chosen = [
        select(Split(x, values), target, order, seed=0).network for order in ([last, mean], [mean, last])
    ]

    assert chosen == [mean, mean]
    assert select(Split(x, values), target, [last], seed=0).network == last

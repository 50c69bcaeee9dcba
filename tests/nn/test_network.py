"""The description of a network: sizes, counts, defaults and checks."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hadamrnn import InputError, Network, SequenceModel
from hadamrnn.architecture import MAX_SIZE, MAX_VOCABULARY
from hadamrnn.network import (
    MAX_LEAK,
    MAX_STRIDE,
    MAX_THRESHOLDS,
    READOUTS,
    check_deployable,
    network_values,
    read_architecture,
    read_network,
)


@st.composite
def networks(draw: st.DrawFn) -> Network:
    blocks = draw(st.integers(1, 3))
    widths = draw(st.lists(st.sampled_from([4 * blocks, 8 * blocks]), min_size=1, max_size=3))
    readouts = draw(st.lists(st.sampled_from(READOUTS), min_size=1, max_size=4, unique=True))
    counted = {"mean", "positive"} & set(readouts)
    return Network(
        draw(st.sampled_from([1, 3, 4 * blocks])),
        8,
        draw(st.integers(1, 3)),
        layer_sizes=tuple(widths),
        num_blocks=blocks,
        bidirectional=draw(st.booleans()),
        input_bias=draw(st.booleans()),
        leak=tuple(draw(st.lists(st.integers(0, 4), max_size=blocks))),
        readouts=tuple(readouts),
        thresholds=draw(st.integers(0, 3)) if counted else 0,
        skip=draw(st.booleans()),
        normalize=draw(st.booleans()),
        weight_bits=None,
    )


@settings(max_examples=40, deadline=None)
@given(networks())
def test_counts_and_sizes_are_those_of_the_parameters(network: Network) -> None:
    model = SequenceModel(network)
    shapes = {name: tuple(value.shape) for name, value in model.named_parameters()}
    weights = [shape for name, shape in shapes.items() if name.endswith("input_weight")]

    assert weights == list(zip(network.cell_sizes, network.cell_input_sizes, strict=True))
    assert len(weights) == network.cells == network.num_layers * network.directions
    assert shapes["readout.weight"] == (network.output_size, network.num_features)
    assert network.num_weights == sum(a * b for a, b in [*weights, shapes["readout.weight"]])
    biases = [shape[0] for name, shape in shapes.items() if name.endswith(("input_bias", "readout.bias"))]
    assert network.num_biases == sum(biases)
    assert network.state_size == network.directions * network.widths[-1]
    assert network.widths[-1] == network.hidden_size == network.block_size * network.num_blocks
    assert read_network(network_values(network)) == network == read_architecture(network_values(network))


def test_the_network_without_options_is_that_of_the_paper() -> None:
    plain = {
        "input_size": 1,
        "hidden_size": 128,
        "num_layers": 1,
        "bidirectional": False,
        "dropout": 0.0,
        "num_blocks": 1,
        "weight_bits": 4,
        "recurrence": "linear",
        "switches": "rows",
        "input_bias": True,
        "leak": (),
        "readouts": ("last",),
        "thresholds": 0,
        "layer_sizes": (),
        "normalize": False,
        "skip": False,
        "stride": 1,
        "activation_bits": None,
        "every_output": False,
        "input_kind": "dense",
        "vocabulary_size": None,
        "padding_id": None,
        "front_end": None,
    }
    found = dataclasses.asdict(Network())
    assert {name: found[name] for name in plain} == plain
    assert set(found) - set(plain) == {"output_size"}


def test_leaks_are_dealt_to_the_blocks_in_turn() -> None:
    network = Network(1, 24, 1, num_blocks=6, leak=(1, 0, 3, 15))
    assert network.block_leaks == (1, 0, 3, 15, 1, 0)
    assert network.decays == (0.5, 1.0, 0.875, 1 - 2.0**-15, 0.5, 1.0)
    assert Network(1, 24, 1, num_blocks=6, leak=(0, 0)).block_leaks == () == Network().decays


def test_a_skip_needs_equal_widths_and_a_layer_above_that_does_not_read_ids() -> None:
    def skips(input_size: int = 8, **changes: Any) -> list[bool]:
        network = Network(input_size, 8, 1, **{"layer_sizes": (8, 8, 16, 16), "skip": True, **changes})
        return [network.has_skip(layer) for layer in range(network.num_layers)]

    assert skips() == [True, True, False, False]
    assert skips(3) == [False, True, False, False]
    assert skips(skip=False) == [False] * 4
    assert skips(input_kind="one_hot") == [False, True, False, False]
    assert skips(16, bidirectional=True) == [True, True, False, False]


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("input_size", 1, MAX_SIZE),
        ("output_size", 1, MAX_SIZE),
        ("num_layers", 1, None),
        ("thresholds", 0, MAX_THRESHOLDS),
        ("stride", 1, MAX_STRIDE),
        ("activation_bits", 2, 16),
        ("weight_bits", 2, 16),
        ("leak", 0, MAX_LEAK),
    ],
)
def test_the_ends_of_a_range_are_in_it(name: str, low: int, high: int | None) -> None:
    def taken(value: int) -> Network:
        readouts = {"readouts": ("mean",)} if name == "thresholds" else {}
        return Network(**{name: (value,) if name == "leak" else value, **readouts})  # type: ignore[arg-type]

    for value in (low, high):
        if value is not None:
            assert getattr(taken(value), name) in (value, (value,))
    for value in (low - 1, None if high is None else high + 1):
        if value is not None:
            with pytest.raises(InputError, match=str(low)):
                taken(value)


def test_networks_that_contradict_themselves_are_refused_by_the_option() -> None:
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("num_blocks", {"hidden_size": 12, "num_blocks": 5}),
        ("4 and 6", {"hidden_size": 12, "num_blocks": 5}),
        ("orders: 4 and 8", {"hidden_size": 12, "num_blocks": 2}),
        ("orders: 4 and 8", {"layer_sizes": (16, 12, 16), "num_blocks": 2}),
        ("leak", {"hidden_size": 8, "num_blocks": 2, "leak": (1, 1, 1)}),
        ("readouts", {"readouts": ()}),
        ("readouts", {"readouts": ("last", "last")}),
        ("mean and positive", {"thresholds": 1}),
        ("stride", {"every_output": True, "stride": 2}),
        ("read-out last", {"every_output": True, "readouts": ("mean",)}),
        ("layer_sizes", {"layer_sizes": (8,) * 1000}),
        ("vocabulary_size", {"input_kind": "embedded", "vocabulary_size": MAX_VOCABULARY + 1}),
    ]
    for said, fields in wrong:
        with pytest.raises(InputError, match=said):
            Network(**fields)
    equal = Network(layer_sizes=(16, 16, 16))
    assert (equal.layer_sizes, equal.num_layers, equal.hidden_size) == ((), 3, 16)
    for fields in ({"bidirectional": True}, {"switches": "rows+columns"}):
        with pytest.raises(InputError, match=next(iter(fields))):
            check_deployable(Network(**fields), "A form")
    check_deployable(Network(), "A form")
    for name in ("kind", "input_size", "hidden_size", "output_size"):
        with pytest.raises(InputError, match=name):
            read_architecture({key: value for key, value in network_values(Network()).items() if key != name})
    assert not Network().is_pooled and Network(readouts=("max",)).is_pooled
    assert Network(readouts=("max", "last")).is_pooled and not Network(readouts=("max",)).counts_steps
    assert Network(skip=True).scales_layers and Network(normalize=True).scales_layers
    assert not Network(skip=True).scales_features and Network(readouts=("max",)).scales_features


def test_a_description_in_words_names_what_differs_from_the_plain_network() -> None:
    assert str(Network(1, 64, 1)) == "64 units, 4-bit weights, float states"
    words = str(
        Network(
            1, 64, 1, num_blocks=2, leak=(0, 2), weight_bits="ternary", activation_bits=12, readouts=("max",)
        )
    )
    assert words == "64 units in 2 blocks, leak none,2, reads out max, ternary weights, 12-bit states"
    assert "float weights" in str(Network(weight_bits=None))

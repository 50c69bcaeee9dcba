"""The overflow proof: accepted networks never leave 32 bits, and networks close to the limit are accepted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hadamrnn.errors import InputError
from hadamrnn.fixedpoint import Engine, IntegerModel
from hadamrnn.fixedpoint.drawn import draw_integers
from hadamrnn.fixedpoint.layer import IntegerLayer
from hadamrnn.fixedpoint.overflow import feature_bounds, output_bound, readout_bound, recurrence_bound
from hadamrnn.network import Network
from tests.family_models import family_codes, family_model
from tests.plain_integers import run_plainly


def with_layers(model: IntegerModel, **changes: Any) -> IntegerModel:
    """Return a model with fields of its lowest layer changed."""
    lowest, *rest = model.layers
    return replace(model, layers=(replace(lowest, **changes), *rest))


def highest(make: Callable[[int], IntegerModel], start: int) -> IntegerModel:
    """Return the last of make(start), make(start + 1), ... that the proof accepts."""
    model = make(start)
    for value in range(start + 1, 64):
        try:
            model = make(value)
        except InputError:
            break
    return model


def pushed(model: IntegerModel) -> IntegerModel:
    """Return a model with every shift as high as the proof allows."""
    for index in range(len(model.layers)):
        for name in ("input_bias_shift", "offset_shift", "gain_shift", "skip_shift"):
            model = _pushed(model, index, name)
    return highest(lambda shift: replace(model, output_bias_shift=shift), 0)


def _pushed(model: IntegerModel, index: int, name: str) -> IntegerModel:
    layer: IntegerLayer = model.layers[index]
    if getattr(layer, name) is None or (layer.gain_int is None and name != "input_bias_shift"):
        return model

    def changed(value: int) -> IntegerModel:
        layers = list(model.layers)
        change: dict[str, Any] = {name: value}
        layers[index] = replace(layer, **change)
        return replace(model, layers=tuple(layers))

    return highest(changed, getattr(layer, name))


def test_nothing_that_is_proven_leaves_32_bits_when_everything_is_at_its_bounds() -> None:
    rng = np.random.default_rng(31)
    reached = 0
    for _ in range(40):
        model = pushed(family_model(rng, extreme=True))
        codes = family_codes(rng, model, batch=1, time=6)
        logits, plain = run_plainly(model, codes[0])

        for native in (False, True):
            assert Engine(model, native=native).run(codes).logits[0].tolist() == logits
        assert plain.largest < 2**31
        reached += plain.largest > 2**30
    assert reached > 20  # the bounds are reached


@pytest.mark.parametrize("leak", [0, 1, 9, 15])
def test_the_accumulator_may_come_one_below_its_limit_with_the_rounding_of_the_leak(leak: int) -> None:
    network = Network(259, 256, 2, leak=(leak,) if leak else (), weight_bits=8, activation_bits=16)
    half = 1 << leak >> 1
    # state 256 2^15 2^7 = 2^30, input (258 127 + 1) 2^15 = 2^30 - 2^15, and a bias for the rest.
    weight = np.full((256, 259), 127)
    weight[:, 0] = 1

    def layer(bias: int) -> IntegerLayer:
        return IntegerLayer.of(
            network,
            0,
            input_bits=16,
            signs=np.ones(256, np.int8),
            input_weight_int=weight,
            hidden_shift=1,
            accumulator_frac_bits=22,
            input_bias_shift=0,
            input_bias_int=np.full(256, bias),
        )

    rest = 2**15 - half - 1
    assert sum(recurrence_bound(layer(rest))) == 2**31 - 1
    with pytest.raises(InputError, match="it could reach 2147483648"):
        layer(-rest - 1)


def test_a_gain_may_come_near_its_limit_with_the_half_that_rounds_it() -> None:
    network = Network(4, 8, 2, 2, normalize=True, activation_bits=16)
    model = draw_integers(network, np.random.default_rng(0))

    def gained(offset: int) -> IntegerModel:
        codes = {"gain_int": np.full(8, 2**15 - 1), "offset_int": np.full(8, offset)}
        return with_layers(model, **codes, gain_shift=30, offset_shift=15)

    # state (2^15 - 1) 2^15, offset 2^14 2^15 = 2^29, and rounding 2^29: 2^15 below the limit.
    assert sum(output_bound(gained(2**14).layers[0])) == 2**31 - 2**15
    with pytest.raises(InputError, match=r"A gain .* it could reach 2147483648"):
        gained(-(2**14) - 1)


def test_a_sum_over_the_longest_sequence_fits_and_one_step_more_is_not_promised() -> None:
    network = Network(1, 1, 1, readouts=("mean",), thresholds=1, activation_bits=16, input_bias=False)
    drawn = draw_integers(network, np.random.default_rng(0))
    model = replace(drawn, thresholds_int=np.array([[-(2**15)]]), longest=2**15 - 1)
    engine, state = Engine(model), Engine(model).init()
    state.hidden[0][:] = 2**15 - 1
    state.steps = model.longest - 1
    state.pools["mean"][:] = state.steps * (2**16 - 1)  # as if the state had always been at its maximum

    engine._readout.add(state.pools, state.hidden[0])
    state.steps += 1

    assert state.pools["mean"].item() == model.longest * (2**16 - 1) < 2**31
    rate = (int(model.feature_multiplier[0]) << 15) // model.longest if model.feature_multiplier else 0
    shift = int(model.feature_shift[0]) if model.feature_shift is not None else 0
    code = min((model.longest * (2**16 - 1) * rate + (1 << shift - 1)) >> shift, 2**15 - 1)
    assert engine.read(state).item() == int(model.output_weight_int[0, 0]) * code + int(
        model.output_bias_int[0]
    )
    with pytest.raises(InputError, match="Lower longest to 32767, or activation_bits"):
        replace(model, longest=2**15)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"offset_shift": 30}, r"A gain must stay below 2\^31, .* Lower offset_shift or gain_shift"),
        ({"skip_shift": 30}, r"A skip must stay below 2\^31"),
        ({"gain_int": None}, "offset_int belongs to layers with gain_int"),
        ({"skip_shift": None}, "skip_shift belongs to layers that skip"),
        ({"output_bits": None}, "output_bits belongs to the layers below the last"),
        ({"output_bits": 5}, "input_bits of layer 1 must be 6"),
        ({"gain_shift": 31}, "gain_shift must lie in 0..30, got 31"),
    ],
)
def test_what_lies_between_layers_is_checked(change: dict[str, Any], message: str) -> None:
    network = Network(8, 8, 2, 2, skip=True, stride=2, activation_bits=12)
    model = draw_integers(network, np.random.default_rng(0))

    with pytest.raises(InputError, match=message):
        with_layers(model, **change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"longest": 0}, "longest must lie in 1..65535, got 0"),
        ({"longest": 65536}, "longest must lie in 1..65535"),
        ({"thresholds_int": None}, "thresholds_int belongs to a network with thresholds"),
        ({"feature_bits": 17}, "feature_bits must lie in 2..16"),
        ({"feature_bits": None}, "feature_bits belongs to normalize or pooled read-outs"),
        ({"feature_multiplier": (1,)}, "feature_multiplier must be 2, got 1"),
        ({"feature_multiplier": (1, 65536)}, "Every one of feature_multiplier must lie in 1..65535"),
        ({"feature_shift": np.full(16, 0)}, "feature_shift must lie in 1..62, got 0..0"),
        (
            {"feature_shift": np.arange(16) * 2 + 1},
            "The spread of feature_shift must lie in 0..15, got 30",
        ),
        ({"layers": ()}, "The number of layers must be 1, got 0"),
        ({"output_bias_int": np.full(2, 2047), "output_bias_shift": 30}, r"A logit must stay below 2\^31"),
    ],
)
def test_what_lies_before_the_read_out_is_checked(change: dict[str, Any], message: str) -> None:
    network = Network(1, 8, 2, readouts=("mean", "max"), thresholds=1, activation_bits=12)
    model = draw_integers(network, np.random.default_rng(0))

    with pytest.raises(InputError, match=message):
        replace(model, **change)


def test_every_family_model_is_within_its_bounds() -> None:
    rng = np.random.default_rng(9)
    for _ in range(60):
        model = family_model(rng, extreme=True, every_output=False)
        codes = family_codes(rng, model, batch=1, time=8)
        _, plain = run_plainly(model, codes[0])

        assert all(
            abs(code) <= bound for code, bound in zip(plain.features(), feature_bounds(model), strict=True)
        )
        assert sum(readout_bound(model)) < 2**31
        for layer in model.layers:
            assert layer.gain_int is None or sum(output_bound(layer)) < 2**31

"""The range of every number of an integer network: its ends are accepted, the next values refused by name."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hadamrnn.errors import InputError
from hadamrnn.fixedpoint import IntegerModel
from hadamrnn.fixedpoint.alarms import MOST_WINDOWS, NEVER, Decision, Detection
from hadamrnn.fixedpoint.base import (
    MAX_CLASS_NAMES,
    MAX_ENTRIES,
    MAX_ENTRY_LENGTH,
    check_metadata,
    class_metadata,
)
from hadamrnn.fixedpoint.drawn import draw_integers
from hadamrnn.fixedpoint.layer import IntegerLayer
from hadamrnn.network import Network
from hadamrnn.reservoir import IntegerReservoir
from tests.reservoir_models import draw_reservoir

BITS = 6
RAW: dict[str, Any] = {
    "raw_offset": np.zeros(3, np.int32),
    "raw_multiplier": np.ones(3, np.int32),
    "raw_shift": np.zeros(3, np.int32),
    "raw_knee": np.zeros(3, np.int32),
}


def network(**changes: Any) -> IntegerModel:
    fields: dict[str, Any] = {
        "input_size": 3,
        "hidden_size": 4,
        "output_size": 2,
        "num_blocks": 2,
        "num_layers": 3,
        "normalize": True,
        "skip": True,
        "leak": (2, 0),
        "readouts": ("mean", "max"),
        "thresholds": 2,
        "weight_bits": 3,
        "activation_bits": BITS,
        "input_kind": "dense",
    }
    return draw_integers(Network(**{**fields, **changes}), np.random.default_rng(0), input_bits=5)


@pytest.fixture(scope="module")
def models() -> dict[str, Any]:
    """Return owners of fields: networks, a layer of the first, a reservoir."""
    full = replace(network(), **RAW)
    embedded = network(input_kind="embedded", vocabulary_size=5)
    reservoir = replace(
        draw_reservoir(np.random.default_rng(1), raw=False, input_size=3, weight_bits=5), **RAW
    )
    detection = Detection(
        1, 1, np.eye(2, dtype=np.int16), np.ones(2, np.int8), smoothing=1, threshold=1, warmup=1
    )
    decision = Decision(thresholds=(NEVER, 5), needed=3, votes=4, refractory=1, window=8, hop=2)
    return {
        "model": full,
        "layer": full.layers[1],
        "embedded": embedded,
        "reservoir": reservoir,
        "detection": detection,
        "decision": decision,
    }


NUMBERS = [
    ("model", "output_bias_shift", 0, 31),
    ("model", "longest", 1, 0xFFFF),
    ("model", "feature_bits", 2, 16),
    ("layer", "activation_bits", 2, 16),
    ("layer", "input_bits", 2, 16),
    ("layer", "hidden_shift", 0, 31),
    ("layer", "accumulator_frac_bits", -31, 62),
    ("layer", "input_bias_shift", 0, 31),
    ("layer", "gain_shift", 0, 30),
    ("layer", "offset_shift", 0, 30),
    ("layer", "skip_shift", -30, 30),
    ("layer", "output_bits", 2, 16),
    ("layer", "block_size", 1, 4),
    ("reservoir", "output_bias_shift", 0, 16),
    ("detection", "multiplier", 0, (1 << 31) - 1),
    ("detection", "shift", 1, 62),
    ("detection", "smoothing", 0, 15),
    ("detection", "threshold", 0, (1 << 31) - 1),
    ("detection", "warmup", 0, 0xFFFF),
    ("decision", "needed", 1, 4),
    ("decision", "refractory", 0, MOST_WINDOWS),
    ("decision", "window", 2, MOST_WINDOWS),
]
ARRAYS = [
    ("model", "output_weight_int", -4, 3),
    ("model", "output_bias_int", -32, 31),
    ("model", "thresholds_int", -32, 31),
    ("model", "feature_shift", 1, 62),
    ("model", "raw_offset", -(1 << 31), (1 << 31) - 1),
    ("model", "raw_multiplier", -0xFFFF, 0xFFFF),
    ("model", "raw_shift", 0, 46),
    ("model", "raw_knee", 0, 30),
    ("embedded", "embedding_int", -16, 15),
    ("layer", "input_weight_int", -4, 3),
    ("layer", "signs", -1, 1),
    ("layer", "input_bias_int", -32, 31),
    ("layer", "gain_int", -32, 31),
    ("layer", "offset_int", -32, 31),
    ("reservoir", "exponents", 0, 15),
    ("reservoir", "output_weight_int", -16, 15),
    ("reservoir", "output_bias_int", -(1 << 15), (1 << 15) - 1),
    ("reservoir", "raw_offset", -(1 << 31), (1 << 31) - 1),
    ("reservoir", "raw_multiplier", -0xFFFF, 0xFFFF),
    ("reservoir", "raw_shift", 0, 46),
    ("reservoir", "raw_knee", 0, 30),
    ("detection", "whitening", -(1 << 15), (1 << 15) - 1),
    ("detection", "whitening_shift", 1, 62),
]


def refusal(owner: Any, **changes: Any) -> str:
    """Return the error of an owner with other fields, or nothing."""
    try:
        replace(owner, **changes)
    except InputError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(("owner", "name", "low", "high"), NUMBERS)
def test_a_number_lies_in_its_range_ends_included(
    models: dict[str, Any], owner: str, name: str, low: int, high: int
) -> None:
    rule = re.compile(rf"\b{name} must (lie|be|divide)")

    for value in (low - 1, high + 1):
        text = refusal(models[owner], **{name: value})
        assert rule.search(text) and str(value) in text and str(low) in text and str(high) in text
    for value in (low, high):  # other rules may refuse this value
        assert not re.search(rf"\b{name} must lie", refusal(models[owner], **{name: value}))


@pytest.mark.parametrize(("owner", "name", "low", "high"), ARRAYS)
def test_every_entry_of_an_array_lies_in_its_range_ends_included(
    models: dict[str, Any], owner: str, name: str, low: int, high: int
) -> None:
    model = models[owner]
    array = np.asarray(getattr(model, name)).astype(np.int64)

    def changed(value: int) -> Any:
        other = array.copy()
        other.flat[-1] = value
        return other

    rule = f"{name} must lie in {low}..{high}"
    for value in (low - 1, high + 1):
        assert rule in refusal(model, **{name: changed(value)})
    for value in (low, high):
        assert rule not in refusal(model, **{name: changed(value)})
    for wrong in (array[:-1], array.astype(np.float64), np.stack([array, array])):
        assert re.search(rf"\b{name}\b|\bsigns\b|whitening", refusal(model, **{name: wrong}))
    if refusal(model, **{name: changed(high)}) == "":
        kept = getattr(replace(model, **{name: changed(high)}), name)
        assert kept.flat[-1] == high and not kept.flags.writeable


def test_scales_are_finite_positive_floats(models: dict[str, Any]) -> None:
    for owner in ("model", "reservoir"):
        for name in ("input_scale", "logit_scale"):
            for value in (0.0, -1.0, float("inf"), float("nan"), 1):
                assert name in refusal(models[owner], **{name: value})
            assert refusal(models[owner], **{name: 1e-300}) == ""
        assert "raw_unit" in refusal(models[owner], metadata={"raw_unit": 0.0})


def test_shifts_of_features_lie_within_fifteen_of_each_other_and_multipliers_in_sixteen_bits(
    models: dict[str, Any],
) -> None:
    model: IntegerModel = models["model"]
    shifts = np.full(len(model.feature_shift), 40)  # type: ignore[arg-type]
    for spread in (15, 16):
        shifts[0] = 40 + spread
        assert ("spread" in refusal(model, feature_shift=shifts)) == (spread > 15)
    for multipliers in ((0, 1), (1, 1 << 16), (1,), (1, 1, 1)):
        assert "feature_multiplier" in refusal(model, feature_multiplier=multipliers)
    assert "feature_multiplier" not in refusal(model, feature_multiplier=(1, 0xFFFF))


@pytest.mark.parametrize("name", ["thresholds_int", "feature_bits", "feature_multiplier", "feature_shift"])
def test_a_field_is_there_exactly_where_the_network_needs_it(models: dict[str, Any], name: str) -> None:
    plain = network(num_layers=1, normalize=False, skip=False, readouts=("last",), thresholds=0)
    assert name in refusal(models["model"], **{name: None})
    assert name in refusal(plain, **{name: getattr(models["model"], name)})
    assert "longest" in refusal(plain, longest=1) and refusal(plain, longest=0) == ""


@pytest.mark.parametrize(
    "changes",
    [
        {"input_bias_int": None},
        {"gain_int": None, "offset_int": None, "gain_shift": 0, "offset_shift": 0},
        {"skip_shift": None},
        {"output_bits": None},
        {"leak": ()},
    ],
)
def test_a_layer_of_another_description_is_refused(models: dict[str, Any], changes: dict[str, Any]) -> None:
    """Fields that only some layers have, and fields that the network determines."""
    model: IntegerModel = models["model"]
    first, middle, last = model.layers

    name = next(iter(changes))
    bits: dict[str, Any] = {"output_bits": BITS} if name == "gain_int" else {}
    assert name in refusal(model, layers=(first, replace(middle, **changes, **bits), last))
    assert refusal(model, layers=(first, replace(middle), last)) == ""
    assert "number of layers" in refusal(model, layers=(first, last))


@pytest.mark.parametrize("knee", [False, True])
def test_raw_codes_have_all_of_their_fields_or_none(models: dict[str, Any], knee: bool) -> None:
    for owner in ("model", "reservoir"):
        plain = replace(models[owner], **dict.fromkeys(RAW, None))
        assert "raw_knee" in refusal(plain, raw_knee=RAW["raw_knee"])
        for name in ("raw_offset", "raw_multiplier", "raw_shift"):
            assert name in refusal(plain, **{name: RAW[name]})
            assert name in refusal(models[owner], **{name: None}, **({} if knee else {"raw_knee": None}))
    assert "Dense" in refusal(models["embedded"], **{name: RAW[name] for name in list(RAW)[:3]})


def test_layers_without_gains_give_their_states() -> None:
    model = network(normalize=False, skip=False)
    below: IntegerLayer = model.layers[0]
    assert below.output_bits == BITS
    assert "output_bits" in refusal(below, output_bits=BITS - 1)
    assert "gain_shift" in refusal(below, gain_shift=1) and "offset_shift" in refusal(below, offset_shift=1)
    assert "offset_int" in refusal(below, offset_int=np.zeros(4, np.int16))
    assert "input_bits" in refusal(
        model, layers=(below, replace(model.layers[1], input_bits=7), model.layers[2])
    )


def test_features_are_sorted_at_most_fifteen_to_a_unit_and_thirds_only_where_there_are_thirds(
    models: dict[str, Any],
) -> None:
    reservoir: IntegerReservoir = models["reservoir"]
    features, groups = reservoir.features, reservoir.network.groups

    def of_units(unit: list[int], segment: int = 0) -> str:
        count = len(unit)
        return refusal(
            features,
            unit=np.array(unit, np.int64),
            threshold=np.zeros(count, np.int64),
            segment=np.full(count, segment),
        )

    assert of_units([]) == "" and of_units([3] * 15 + [4] * 15) == ""
    assert "15" in of_units([3] * 16) and "ascending" in of_units([4, 3])
    starts = [part.start for part in reservoir.network.unit_slices]
    for start, group in zip(starts, groups, strict=True):
        assert (of_units([start], group.segments - 1) == "") and of_units([start], group.segments)


def test_metadata_has_limits_on_entries_and_lengths() -> None:
    most = {str(i): i for i in range(MAX_ENTRIES)}
    assert check_metadata(most) == most
    with pytest.raises(InputError, match=str(MAX_ENTRIES)):
        check_metadata({**most, "more": 1})
    longest = {"a": "b" * (MAX_ENTRY_LENGTH - 1)}
    assert check_metadata(longest) == longest
    for wrong in ({"a": "b" * MAX_ENTRY_LENGTH}, {"a": -float("inf")}, {"a": None}, {1: "a"}, [("a", 1)]):
        with pytest.raises(InputError, match="metadata"):
            check_metadata(wrong)  # type: ignore[arg-type]
    names = ["x" * (MAX_CLASS_NAMES - 4)]  # with brackets and quotes
    assert class_metadata(names) and not class_metadata(["x" + names[0]]) and not class_metadata([])


def test_class_names_and_lengths_of_the_metadata_count_only_if_they_fit(models: dict[str, Any]) -> None:
    model = models["model"]

    def read(**metadata: Any) -> IntegerModel:
        changed: IntegerModel = replace(model, metadata=metadata)
        return changed

    assert read(class_names='["a", "b"]').class_names == ["a", "b"]
    for text in ('["a"]', '["a", "b", "c"]', '{"a": 1, "b": 2}', "[", "1"):
        assert read(class_names=text).class_names == []
    assert read(calibrated_length=1).calibrated_length == 1
    for value in (0, -1, True, 1.0, "1"):
        assert read(calibrated_length=value).calibrated_length is None
    assert read(raw_unit=0.5).raw_unit == 0.5 and read().raw_unit == 1.0
    plain = replace(model, **dict.fromkeys(RAW, None), metadata={"raw_unit": 0.5}, input_scale=3.0)
    assert plain.raw_unit == 3.0 / 2 ** (plain.input_bits - 1)
    assert models["embedded"].vocabulary_size == 5 and model.vocabulary_size == 0


def test_thresholds_of_a_decision_and_channels_of_a_detector_are_in_their_ranges() -> None:
    def decided(threshold: int) -> Decision:
        return Decision(thresholds=(0, threshold), needed=1, votes=1, refractory=0, window=1, hop=1)

    assert decided(0).thresholds == (0, 0) and decided(NEVER).thresholds == (0, NEVER)
    for value in (-1, NEVER + 1):
        with pytest.raises(InputError, match="thresholds"):
            decided(value)
    for wrong in ({"votes": 0}, {"votes": 33}, {"hop": 0}, {"hop": 2}):
        assert re.search(r"votes|window|hop", refusal(decided(1), **wrong))
    assert refusal(decided(1), votes=32, needed=32) == "" == refusal(decided(1), hop=9, window=9)

    def detector(channels: int, above: int = 0) -> Detection:
        whitening = np.eye(channels, k=1, dtype=np.int16) * above
        return Detection(1, 1, whitening, np.ones(channels, np.int8), smoothing=1, threshold=1, warmup=1)

    assert len(detector(32).whitening) == 32 and len(detector(1).whitening) == 1
    for channels in (0, 33):
        with pytest.raises(InputError, match="channels"):
            detector(channels)
    with pytest.raises(InputError, match="triangular"):
        detector(2, above=1)

"""The integer reservoir: its logits, its proof, its file, its cost."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hadamrnn.errors import InputError
from hadamrnn.fixedpoint.encoding import encode_raw, encode_values
from hadamrnn.reservoir import Group, IntegerReservoir, Reservoir, load_any, reservoir_size
from hadamrnn.reservoir.file import from_bytes, to_bytes
from tests.reservoir_models import draw_codes, draw_reservoir, plain_logits


@pytest.mark.parametrize("seed", range(8))
def test_logits_are_those_of_the_equations_number_by_number(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model = draw_reservoir(rng)
    x, lengths = draw_codes(rng, model.network, 3)

    logits = model.run(x, lengths).logits

    high = 1 << model.input_bits - 1
    for row, series, length in zip(logits, x.clip(-high, high - 1), lengths, strict=True):
        assert row.tolist() == plain_logits(model, series, int(length))


def test_many_series_take_little_memory_beyond_their_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    model = draw_reservoir(rng, groups=(Group(blocks=16),), input_size=2, seq_length=20)
    x = rng.integers(-(1 << 15), 1 << 15, (20_000, 20, 2))

    tracemalloc.start()
    result = model.run(x)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 10 * x.nbytes
    monkeypatch.setattr("hadamrnn.reservoir.model.PART_COUNTS", 1000)
    again = model.run(x[:100])
    np.testing.assert_array_equal(again.logits, result.logits[:100])
    assert again.saturations == sum(model.run(row[None]).saturations for row in x[:100])


def test_no_input_takes_a_logit_beyond_its_bound_and_a_wider_one_is_refused() -> None:
    rng = np.random.default_rng(3)
    model = draw_reservoir(rng, seq_length=60)
    extreme = np.where(rng.integers(0, 2, (50, 60, model.input_size)), 1 << 20, -(1 << 20))

    logits = model.run(extreme).logits

    assert np.abs(logits).max() <= model.logit_bound < 2**31
    with pytest.raises(InputError, match="stay below 2\\^31"):
        replace(model, output_bias_int=np.full(model.output_size, -(1 << 15)), output_bias_shift=16)


@pytest.mark.parametrize("seed", range(6))
def test_a_file_gives_the_model_back_and_its_payload_is_its_cost(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    model = draw_reservoir(rng, raw=bool(seed % 2), **({"input_size": 300} if seed == 0 else {}))

    size = model.save(tmp_path / "model")

    found = load_any(tmp_path / "model")
    assert isinstance(found, IntegerReservoir) and found == model
    assert IntegerReservoir.load(tmp_path / "model") == model
    assert to_bytes(found) == (tmp_path / "model").read_bytes()
    cost = reservoir_size(model.features)
    assert cost.bits <= 8 * size.payload < cost.bits + 9 * 8  # nine arrays, each of whole bytes


def test_a_damaged_file_is_refused_in_one_line() -> None:
    rng = np.random.default_rng(5)
    data = to_bytes(draw_reservoir(rng))

    for place in rng.integers(0, len(data), 300):
        with pytest.raises(InputError) as error:
            from_bytes(data[:place] + bytes([data[place] ^ 1 << int(rng.integers(8))]) + data[place + 1 :])
        assert "\n" not in str(error.value)
    for length in rng.integers(0, len(data), 50):
        with pytest.raises(InputError):
            from_bytes(data[:length])


def test_raw_codes_and_values_are_encoded_as_those_of_other_integer_networks() -> None:
    model = draw_reservoir(np.random.default_rng(0), raw=False, input_size=2)
    values = np.array([[0.5, -3.0], [0.0, 1e9]])

    codes, clipped = encode_values(replace(model, raw_knee=None), values)

    assert clipped == 2 and codes[1].tolist() == [0, 2 ** (model.input_bits - 1) - 1]
    assert encode_raw(model, np.array([[1, 2]]))[0].tolist() == [[1, min(2, 2 ** (model.input_bits - 1) - 1)]]


def test_the_cost_counts_every_bit_by_hand() -> None:
    network = Reservoir(groups=(Group(width=2, dilation=4, is_difference=True, segments=3, blocks=2),))
    rng = np.random.default_rng(0)
    model = draw_reservoir(rng, groups=network.groups, input_size=1, output_size=3, weight_bits=4)
    size, count = reservoir_size(model.features), len(model.features)

    assert size.units == 16 * (1 + 4 + 4)
    assert size.features == count * (16 + 4 + 2)
    assert size.readout == 3 * (4 * count + 16)
    assert size.state_bytes == 4 + 2 * (4 + 4 * 16 + count) + 8


def test_a_model_with_parts_of_another_network_is_refused() -> None:
    rng = np.random.default_rng(0)
    model, other = draw_reservoir(rng), draw_reservoir(rng)

    for change, rule in (
        ({"units": other.units}, "those of the network"),
        ({"exponents": model.exponents + 16}, "exponents"),
        ({"output_weight_int": model.output_weight_int[:, 1:]}, "output_weight_int"),
        ({"output_bias_shift": 17}, "output_bias_shift"),
        ({"logit_scale": 0.0}, "logit_scale"),
        ({"raw_offset": None}, "raw_offset"),
    ):
        with pytest.raises(InputError, match=rule):
            replace(model, **change)

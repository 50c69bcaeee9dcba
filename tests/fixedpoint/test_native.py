"""The native engine equals the numpy engine bit for bit, on every instruction set."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from hadamrnn.fixedpoint import Engine, IntegerModel
from hadamrnn.fixedpoint import engine as engine_module
from hadamrnn.fixedpoint.drawn import draw_integers
from hadamrnn.fixedpoint.integers import signed_range
from hadamrnn.kernels.library import Library, load_library
from hadamrnn.network import Network
from tests.family_models import family_codes, family_model
from tests.integer_models import integer_model

BATCHES = (0, 1, 7, 31, 33, 70)


@pytest.fixture(params=["baseline", "avx2", "avx512"])
def isa(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Run engines on each instruction set in turn."""
    library = load_library()
    if library is None or request.param not in library.isas:
        pytest.skip(f"there is no {request.param} here")
    monkeypatch.setattr(engine_module, "load_library", lambda: Library(library.path, request.param))
    yield request.param


def check_bits(model: IntegerModel, rng: np.random.Generator, batch: int, time: int) -> None:
    codes = family_codes(rng, model, batch, time)
    lengths = None if rng.random() < 0.3 else rng.integers(0, time + 1, batch)
    expected = Engine(model, native=False).run(codes, lengths, threads=1)
    for threads in (1, 2, 5):
        result = Engine(model).run(codes, lengths, threads=threads)
        assert np.array_equal(result.logits, expected.logits)
        assert result.saturations == expected.saturations


@pytest.mark.parametrize("seed", range(3))
def test_the_native_engine_is_the_numpy_engine_over_the_family(isa: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(40):
        model = family_model(rng, extreme=bool(rng.random() < 0.3))
        check_bits(model, rng, int(rng.choice(BATCHES)), int(rng.integers(0, 12)))


WIDE = [
    Network(1, 512, 10, activation_bits=12),
    Network(1, 512, 10, activation_bits=12, recurrence="relu", num_blocks=8),
    Network(3, 256, 4, activation_bits=8, leak=(1, 0), num_blocks=2),
    Network(1, 240, 2, activation_bits=12, weight_bits=2, input_bias=False),
    Network(2, 96, 2, activation_bits=15, num_blocks=2),
    Network(1, 256, 2, activation_bits=16, weight_bits=8),
    Network(10, 128, 9, activation_bits=12, input_kind="one_hot", every_output=True),
]


@pytest.mark.parametrize("network", WIDE, ids=str)
def test_wide_networks_have_the_same_bits(isa: str, network: Network) -> None:
    rng = np.random.default_rng(3)
    check_bits(draw_integers(network, rng), rng, batch=35, time=20)


# Orders of every kind, with inputs that soon fill the states' range.
LOUD = [
    Network(100, 512, 10, activation_bits=12),
    Network(100, 256, 2, activation_bits=12),
    Network(100, 1024, 2, activation_bits=12, weight_bits=2),
    Network(100, 640, 2, activation_bits=12),
    Network(40, 96, 2, activation_bits=12, num_blocks=2),
    Network(20, 64, 2, activation_bits=14, num_blocks=32),
    Network(9, 48, 2, activation_bits=12, num_blocks=12),
    Network(20, 144, 2, activation_bits=10),
]


@pytest.mark.parametrize("network", LOUD, ids=str)
def test_loud_inputs_are_clipped_and_counted_alike(isa: str, network: Network) -> None:
    rng = np.random.default_rng(4)
    model = draw_integers(network, rng)
    codes = family_codes(rng, model, 40, 40)
    for loudness in (4, 1):  # from sums that fit to states that are clipped
        expected = Engine(model, native=False).run(codes // loudness, threads=1)
        result = Engine(model).run(codes // loudness, threads=1)
        assert np.array_equal(result.logits, expected.logits)
        assert result.saturations == expected.saturations
    assert expected.saturations > 0


@pytest.mark.parametrize("block_size", [1, 2, 4, 8, 12, 16, 20])
@pytest.mark.parametrize("activation_bits", [8, 12, 15])
def test_every_sum_rounds_alike(isa: str, block_size: int, activation_bits: int) -> None:
    model = integer_model(
        hidden_size=block_size,
        input_size=1,
        output_size=1,
        input_bits=16,
        weight_bits=2,
        activation_bits=activation_bits,
        signs=np.ones(block_size, int),
        input_weight_int=np.ones((block_size, 1), int),
        output_weight_int=np.ones((1, block_size), int),
        output_bias_int=np.zeros(1, int),
        hidden_shift=0,
        accumulator_frac_bits=16,  # acc is the code itself
        input_bias_shift=0,
        output_bias_shift=0,
        input_scale=1.0,
        logit_scale=1.0,
    )
    codes = np.arange(-(1 << 15), 1 << 15).reshape(-1, 1, 1)

    result, expected = (Engine(model, native=native).run(codes, threads=1) for native in (True, False))

    assert np.array_equal(result.logits, expected.logits)
    assert result.saturations == expected.saturations


def test_a_thousand_networks_have_the_same_bits() -> None:
    rng = np.random.default_rng(7)
    for _ in range(1000):
        model = family_model(rng, extreme=bool(rng.random() < 0.3))
        codes = family_codes(rng, model, int(rng.choice(BATCHES)), int(rng.integers(0, 12)))
        lengths = rng.integers(0, codes.shape[1] + 1, len(codes))
        result, expected = (
            Engine(model, native=native).run(codes, lengths, threads=1) for native in (True, False)
        )
        assert np.array_equal(result.logits, expected.logits)
        assert result.saturations == expected.saturations


@pytest.mark.parametrize("kind", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
def test_codes_of_every_type_saturate(isa: str, kind: str) -> None:
    model = draw_integers(Network(2, 16, 3, activation_bits=12), np.random.default_rng(5))
    low, high = signed_range(model.input_bits)
    limits = np.iinfo(kind)
    codes = np.array([[[limits.min, limits.max], [3, 100]]], kind)
    inside = np.array([[[max(limits.min, low), min(limits.max, high)], [3, 100]]])
    expected = Engine(model, native=False).run(inside, threads=1).logits

    for native in (True, False):
        assert np.array_equal(Engine(model, native=native).run(codes, threads=1).logits, expected)
    engine = Engine(model)
    state = engine.init()
    for step in codes[0]:
        engine.step(state, step)
    assert np.array_equal(engine.read(state), expected)


def test_without_the_native_library_the_engine_gives_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    model = draw_integers(Network(2, 24, 3, activation_bits=12, num_layers=2, stride=2), rng)
    codes = family_codes(rng, model, 40, 9)
    expected = Engine(model).run(codes)
    monkeypatch.setattr(engine_module, "load_library", lambda: None)

    result = Engine(model).run(codes)

    assert np.array_equal(result.logits, expected.logits)
    assert result.saturations == expected.saturations

"""The engine on networks that forget, count and stack, against plain Python integers."""

from __future__ import annotations

import numpy as np
import pytest

from hadamrnn.fixedpoint import Engine, IntegerModel
from tests.family_models import family_codes, family_model
from tests.plain_integers import run_plainly


def check_engine(model: IntegerModel, rng: np.random.Generator) -> None:
    """Batches of different lengths, and streams, against one plain row after the other."""
    codes = family_codes(rng, model, batch=3, time=int(rng.integers(1, 12)))
    lengths = rng.integers(0, codes.shape[1] + 1, 3)
    lengths[0] = codes.shape[1]
    engine = Engine(model)

    result = engine.run(codes, lengths, threads=1)

    plain = [run_plainly(model, row, int(end)) for row, end in zip(codes, lengths, strict=True)]
    assert result.logits.tolist() == [logits for logits, _ in plain]
    assert result.saturations == sum(stream.saturations for _, stream in plain)
    assert max(stream.largest for _, stream in plain) < 2**31
    state = engine.init(3)
    for t in range(codes.shape[1]):
        engine.step(state, codes[:, t])
    whole = engine.run(codes).logits
    assert np.array_equal(engine.read(state), whole[:, -1] if model.every_output else whole)


@pytest.mark.parametrize("seed", range(4))
def test_the_engine_is_plain_integers_over_the_whole_family(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(50):
        check_engine(family_model(rng, extreme=bool(rng.random() < 0.2)), rng)

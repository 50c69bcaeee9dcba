"""The detector's stage: its equations in exact integers, its bounds, and its place in a model's metadata."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hadamrnn.errors import InputError
from hadamrnn.fixedpoint.alarms import MAX_CHANNELS, Detection, detection_of
from hadamrnn.fixedpoint.model import IntegerModel
from tests.export.random_models import random_model


def random_detection(rng: np.random.Generator, channels: int) -> Detection:
    """Return a stage of random numbers over their whole ranges."""
    largest = bool(rng.random() < 0.3)
    return Detection(
        multiplier=2**31 - 1 if largest else int(rng.integers(0, 2**31)),
        shift=int(rng.integers(1, 63)) if largest else int(rng.integers(20, 50)),
        whitening=np.tril(rng.integers(-(2**15), 2**15, (channels, channels))).astype(np.int16),
        whitening_shift=rng.integers(1, 30, channels).astype(np.int8),
        smoothing=int(rng.integers(0, 16)),
        threshold=int(rng.integers(0, 2**29)),
        warmup=int(rng.integers(0, 5)),
    )


def detecting_model(rng: np.random.Generator, channels: int) -> IntegerModel:
    model = random_model(
        rng, input_kind="dense", input_size=channels, output_size=channels, every_output=True, input_bits=16
    )
    return replace(model, metadata=random_detection(rng, channels).metadata())


def rounded(value: int, shift: int, bits: int) -> int:
    return min(max((value + (1 << shift - 1)) >> shift, -(1 << bits - 1)), (1 << bits - 1) - 1)


@pytest.mark.parametrize("channels", [1, 5, MAX_CHANNELS])
def test_distances_and_levels_are_the_equations_in_exact_integers(channels: int) -> None:
    rng = np.random.default_rng(channels)
    for _ in range(5):
        stage = random_detection(rng, channels)
        codes = rng.choice([-(2**15), -7, 0, 300, 2**15 - 1], (9, channels))
        logits = rng.choice([-(2**31), -12345, 0, 77, 2**31 - 1], (9, channels))
        total = 0
        for step, (x, logit, distance, level) in enumerate(
            zip(
                codes,
                logits,
                stage.distances(codes, logits),
                stage.levels(stage.distances(codes, logits)),
                strict=True,
            )
        ):
            predicted = [rounded(int(each) * stage.multiplier, stage.shift, 16) for each in logit]
            residuals = [int(each) - p for each, p in zip(x, predicted, strict=True)]
            sums = [sum(int(w) * r for w, r in zip(row, residuals, strict=True)) for row in stage.whitening]
            z = [rounded(s, int(shift), 13) for s, shift in zip(sums, stage.whitening_shift, strict=True)]
            squares = sum(each * each for each in z)
            total += (squares if step >= stage.warmup else 0) - (total >> stage.smoothing)

            assert max(map(abs, sums)) < 2**37 and squares <= 2**29 and total < 2**45
            assert (distance, level) == (squares, total >> stage.smoothing)


def test_a_stage_of_real_numbers_is_the_mahalanobis_distance() -> None:
    rng = np.random.default_rng(0)
    mixed = rng.normal(size=(4, 4))
    residuals = rng.normal(size=(500, 4)) @ mixed.T
    whitening = np.linalg.inv(np.linalg.cholesky(mixed @ mixed.T))
    step, logit_scale = 2.0**-11, 3e-6
    stage = Detection.of(whitening, 9.0, 3, 0, step=step, logit_scale=logit_scale)
    predicted = rng.uniform(-2, 2, (500, 4))
    codes = np.rint((predicted + residuals) / step).astype(int)

    found = stage.distances(codes, np.rint(predicted / logit_scale).astype(int)) / 2.0**16

    np.testing.assert_allclose(found, ((residuals @ whitening.T) ** 2).sum(1), rtol=0.03, atol=0.03)
    assert stage.threshold == 9 << 16


def test_a_stage_is_saved_with_its_model(tmp_path: Path) -> None:
    model = detecting_model(np.random.default_rng(1), MAX_CHANNELS)
    stage = detection_of(model)
    model.save(tmp_path / "model")

    assert stage is not None and detection_of(IntegerModel.load(tmp_path / "model")) == stage


@pytest.mark.parametrize(
    "damaged",
    [
        "",
        "[]",
        "null",
        "{}",
        '{"whitening": 3}',
        '{"whitening": "zz", "whitening_shift": [1]}',
        '{"multiplier":1,"shift":1,"smoothing":99,"threshold":1,"warmup":0,"whitening_shift":[1],"whitening":"0001"}',
        '{"multiplier":1,"shift":1,"smoothing":1,"threshold":1,"warmup":0,"whitening_shift":[],"whitening":"0001"}',
        '{"multiplier":1,"shift":0.5,"smoothing":1,"threshold":1,"warmup":0,"whitening_shift":[1],"whitening":"0001"}',
    ],
)
def test_a_damaged_stage_is_none(damaged: str) -> None:
    model = detecting_model(np.random.default_rng(1), 1)

    assert detection_of(replace(model, metadata={"detection": damaged})) is None


def test_other_models_have_none() -> None:
    model = detecting_model(np.random.default_rng(1), 3)
    metadata = dict(model.metadata)
    other = random_model(np.random.default_rng(2), input_kind="dense", input_size=3, output_size=2)

    assert detection_of(replace(model, metadata={})) is None
    assert detection_of(replace(other, metadata=metadata)) is None


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("multiplier", -1, "multiplier"),
        ("shift", 0, "shift"),
        ("threshold", 2**31, "threshold"),
        ("warmup", -1, "warmup"),
        ("whitening", np.ones((2, 2), int), "lower triangular"),
        ("whitening", np.full((2, 2), 2**15), "whitening"),
        ("whitening_shift", np.array([0, 1]), "whitening_shift"),
        ("whitening_shift", np.ones(33, int), "channels of a detector"),
    ],
)
def test_numbers_outside_their_range_are_refused(field: str, value: Any, message: str) -> None:
    stage = random_detection(np.random.default_rng(0), 2)
    with pytest.raises(InputError, match=message):
        replace(stage, **{field: value})

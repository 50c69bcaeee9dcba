from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hadamrnn.data.scaling import raw_unit, standardise
from hadamrnn.data.splits import Split
from hadamrnn.data.tasks import load_task
from hadamrnn.errors import InputError


@pytest.mark.parametrize("index", [torch.tensor([2, 0]), slice(1, 3)])
def test_a_batch_is_the_rows_at_the_index(index: torch.Tensor | slice) -> None:
    x = torch.randn(3, 5, 2)
    split = Split(x, torch.tensor([4, 5, 6]), lengths=torch.tensor([1, 5, 3]))

    batch_x, y, lengths = split.batch(index)

    assert len(split) == 3
    assert torch.equal(batch_x, x[index])
    assert y is not None and torch.equal(y, torch.tensor([4, 5, 6])[index])
    assert lengths is not None and torch.equal(lengths, torch.tensor([1, 5, 3])[index])


def test_arrays_are_not_tensors() -> None:
    with pytest.raises(InputError, match="x must be a tensor, got array"):
        Split(torch.zeros(3, 5, 1).numpy(), None)  # type: ignore[arg-type]


def test_codes_become_their_share_of_the_levels_and_ids_stay_integers() -> None:
    codes = torch.arange(256, dtype=torch.uint8).reshape(1, 256, 1)

    dense, _, _ = Split(codes, None, levels=255).batch(slice(None))
    ids, y, lengths = Split(codes.squeeze(-1), None).batch(slice(None))

    assert torch.equal(dense.squeeze(), torch.arange(256) / 255)
    assert ids.dtype == torch.int64 and torch.equal(ids.squeeze(), torch.arange(256))
    assert y is None and lengths is None


def test_regression_targets_stay_floats() -> None:
    _, y, _ = Split(torch.zeros(1, 2, 1), torch.tensor([[0.5]])).batch(slice(None))
    assert y is not None and y.dtype == torch.float32


@pytest.mark.parametrize(("name", "rows"), [("y", 2), ("y", 4), ("lengths", 2)])
def test_every_sample_has_one_label_and_one_length(name: str, rows: int) -> None:
    given: dict[str, Any] = {"y": torch.zeros(3), name: torch.ones(rows)}
    with pytest.raises(InputError, match=f"rows of {name} must be 3, got {rows}"):
        Split(torch.zeros(3, 5, 1), **given)


@given(st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=20)
def test_standardised_channels_have_mean_zero_and_variance_one(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(20, 7, 3, generator=generator) * torch.tensor([1e-3, 1.0, 50.0]) + torch.tensor(
        [5.0, 0, -9]
    )

    offset, scale, _ = standardise(x)
    steps = ((x.double() - offset) / scale).reshape(-1, 3)

    # offset is rounded to float32: relative to a scale of 1e-3 at 5.0 that is 2.4e-4
    torch.testing.assert_close(steps.mean(0), torch.zeros(3).double(), atol=3e-4, rtol=0)
    torch.testing.assert_close(steps.std(0, unbiased=False), torch.ones(3).double(), atol=1e-6, rtol=0)


def test_standardising_skips_invalid_steps_and_leaves_constants_finite() -> None:
    x = torch.tensor([[[1.0, 0.1], [3.0, 0.1], [0.0, 0.0]]])

    offset, scale, _ = standardise(x, lengths=torch.tensor([2]))

    torch.testing.assert_close(offset, torch.tensor([2.0, 0.1]))
    assert scale.tolist() == [1.0, 1.0]


def test_a_deviation_that_float32_rounds_to_zero_is_a_constant() -> None:
    _, scale, _ = standardise(torch.tensor([[[1e-45], [0.0], [0.0], [0.0]]]))
    assert scale.tolist() == [1.0]


@pytest.mark.parametrize(
    ("largest", "deviation", "unit"),
    [
        (2**31 - 1, 1.0, 1.0),  # whole numbers that fit are their own codes
        (2**31, 1.0, None),
        (2**31, 2.0**10, 2.0),
        (0.5, 1.0, 2.0**-12),  # twelve bits below the deviation
        (0.5, 0.0, 2.0**-12),  # a constant has no influence
        (2**18 + 0.5, 1.0, 2.0**-12),
        (2**20 + 0.5, 1.0, 2.0**-10),  # as int32 must reach the largest value
        (2**24 + 0.5, 1.0, 2.0**-6),
        (2**25 + 0.5, 1.0, None),  # less than six bits below the deviation
    ],
)
def test_a_raw_unit_holds_the_largest_value_and_the_least_deviation(
    largest: float, deviation: float, unit: float | None
) -> None:
    x = np.array([[[0.0], [1.0]], [[1.0], [-largest]]])

    assert raw_unit(x, np.array([deviation, 4096.0 if deviation else 0.0])) == unit


@pytest.mark.parametrize("kind", ["float64", "int64"])
@pytest.mark.parametrize("task", ["npz", "recordings"])
def test_an_offset_a_hundred_million_times_the_spread_changes_nothing(
    task: str, kind: str, tmp_path: Path
) -> None:
    spread = np.random.default_rng(0).normal(size=(1200, 2)) * 10
    loaded = []
    for offset in (0, 2_000_000_000):
        values = (np.round(spread * 8) / (8 if kind == "float64" else 1) + offset).astype(kind)
        path = tmp_path / f"{offset}.{'npz' if task == 'npz' else 'csv'}"
        if task == "npz":
            np.savez(path, x=values.reshape(60, 20, 2), y=np.arange(60) % 2)
        else:
            cells = (f"{a!r},{b!r},{row // 60 % 2}" for row, (a, b) in enumerate(values.tolist()))
            path.write_text("\n".join(["a,b,label", *cells]))
        loaded.append(load_task(task, path=path, **({} if task == "npz" else {"window": 5})))

    plain, far = loaded
    torch.testing.assert_close(far.train.x, plain.train.x, atol=1e-4, rtol=0)
    torch.testing.assert_close(far.test.x, plain.test.x, atol=1e-4, rtol=0)
    assert far.test.x.dtype == torch.float32

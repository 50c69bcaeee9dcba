from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from hadamrnn.data.ett import read_ett, read_hours
from hadamrnn.data.splits import Splits
from hadamrnn.data.tasks import load_task
from hadamrnn.errors import InputError


def test_the_months_of_training_alone_standardise_all_hours(real_data: str) -> None:
    splits, hours = load_task("etth1", real_data), torch.from_numpy(read_ett("etth1", real_data)).double()
    assert splits.offset is not None and splits.scale is not None

    training = hours[: 12 * 30 * 24]
    torch.testing.assert_close(splits.offset.double(), training.mean(0), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(splits.scale.double(), training.std(0, unbiased=False), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("task", ["etth1", "etth2"])
def test_ett_has_the_windows_of_the_standard_protocol(
    task: str, real_splits: Callable[[str], Splits]
) -> None:
    splits = real_splits(task)

    assert [len(part) for part in (splits.train, splits.validation, splits.test)] == [8209, 2785, 2785]
    assert (splits.seq_length, splits.input_size, splits.output_size) == (336, 7, 672)
    assert splits.metric == "mse" and splits.class_names == ()


def test_what_is_forecast_follows_what_is_read(real_data: str) -> None:
    splits = load_task("etth1", real_data, look_back=24, horizon=12)
    x, y, _ = splits.test.batch(slice(None))

    assert y is not None
    torch.testing.assert_close(y[:-12].reshape(-1, 12, 7), x[12:, 12:])
    assert splits.offset is not None and splits.scale is not None
    first = splits.train.x[0, 0] * splits.scale + splits.offset
    torch.testing.assert_close(first[[0, 6]], torch.tensor([5.827, 30.531]), atol=1e-4, rtol=0)


def test_a_table_of_another_length_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ETTh1.csv"
    path.write_text("date,a,b,c,d,e,f,g\n" + "x,1,2,3,4,5,6,7\n" * 3)

    with pytest.raises(InputError, match="17420 rows of 7"):
        read_hours(path)


def test_a_series_that_is_not_there_is_answered_with_the_nearest_name() -> None:
    with pytest.raises(InputError, match="Did you mean 'etth1'"):
        read_ett("ETTm1")

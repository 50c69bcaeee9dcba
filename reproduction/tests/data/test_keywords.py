from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from hadamrnn.data.splits import Splits


def test_google12_has_the_published_sizes(real_splits: Callable[[str], Splits]) -> None:
    splits = real_splits("google12")
    parts = (splits.train, splits.validation, splits.test)

    assert [len(part) for part in parts] == [22_246, 3_093, 3_081]
    assert (splits.seq_length, splits.input_size, splits.output_size) == (99, 32, 12)
    assert splits.test.y is not None and splits.test.y.bincount(minlength=12).min() > 200
    steps = splits.train.x.reshape(-1, 32)
    torch.testing.assert_close(steps.mean(0), torch.zeros(32), atol=1e-3, rtol=0)
    assert splits.offset is not None and splits.scale is not None
    codes = 2 * (splits.test.x[:50] * splits.scale + splits.offset + 8)
    torch.testing.assert_close(codes, codes.round(), atol=1e-3, rtol=0)


@pytest.mark.slow
def test_keywords_are_the_same_clips_as_codes_of_a_front_end(real_splits: Callable[[str], Splits]) -> None:
    splits = real_splits("keywords")
    assert [len(part) for part in (splits.train, splits.validation, splits.test)] == [25_006, 3_093, 1_560]
    assert (splits.seq_length, splits.input_size, splits.raw_unit) == (98, 32, 1.0)
    assert splits.front_end is not None and splits.front_end.rate == 16_000
    assert splits.offset is not None and splits.scale is not None
    known, heard = splits.train.x[:22_246], splits.train.x[22_246:]
    codes = heard * splits.scale + splits.offset
    torch.testing.assert_close(codes, codes.round(), atol=2e-3, rtol=0)
    assert codes.min() > -1e-3
    assert (known.mean((0, 1)) - heard.mean((0, 1))).abs().max() < 0.35  # in standard deviations

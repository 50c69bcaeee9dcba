from __future__ import annotations

import pytest
import torch

from hadamrnn.data.har import with_fine
from hadamrnn.errors import InputError


@pytest.mark.parametrize(
    ("values", "changes", "message"),
    [
        ([0.1, 0.1, 0.1], [0.5], "got 3 and 1 for 3 channels"),
        ([0.1] * 4, [0.5] * 4, "got 4 and 4 for 3 channels"),
        ([0.1], [0.0], "in the sensor's units, must .*, got 0.0"),
        ([float("nan")], [0.5], "in the sensor's units, must .*, got nan"),
    ],
)
def test_limits_of_fine_channels_that_fit_no_channel_are_refused(
    values: list[float], changes: list[float], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        with_fine(torch.zeros(2, 5, 3), values, changes)

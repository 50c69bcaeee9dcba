from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hadamrnn.data.splits import Splits
from hadamrnn.errors import InputError
from hadamrnn.training.config import make_config
from hadamrnn.training.folder import RunFolder
from hadamrnn.training.inference import read_split
from hadamrnn.training.models import build


@pytest.mark.parametrize(
    ("name", "complaint"),
    [("lengths", "Leave them out, and pad on the left with 0"), ("weights", "got 'weights'")],
)
def test_an_array_that_ids_do_not_have_is_refused(
    name: str, complaint: str, copy_task: Splits, tmp_path: Path
) -> None:
    config = make_config(task="copy", steps=1, hidden_size=8)
    folder = RunFolder.create(tmp_path / "run", config, copy_task)
    ids, file = np.ones((2, copy_task.seq_length), np.int64), tmp_path / "mine.npz"

    np.savez(file, x=ids)
    split, _ = read_split(file, folder, build(config, copy_task), None, labelled=False)
    assert split.x.tolist() == ids.tolist()
    more: dict[str, Any] = {name: np.array([3, 4])}
    np.savez(file, x=ids, **more)
    with pytest.raises(InputError, match=complaint):
        read_split(file, folder, build(config, copy_task), None, labelled=False)

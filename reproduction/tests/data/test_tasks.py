from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from hadamrnn.data.splits import Splits
from hadamrnn.data.tasks import find_task, load_task
from hadamrnn.errors import InputError
from tests.data.test_tasks import check_batch

TASKS = ("smnist", "pmnist", "imdb", "sst2", "qqp", "dsa19", "google12", "keywords")


@pytest.mark.parametrize("task", TASKS)
def test_without_files_and_network_the_error_is_one_line_with_the_way_out(task: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()

    with pytest.raises(InputError) as error:
        load_task(task, tmp_path / "empty")

    message = str(error.value)
    assert "\n" not in message
    assert "http" in message and str(tmp_path / "empty") in message
    known = re.search(r"SHA-256 [0-9a-f]{64}", message)
    assert known if task != "dsa19" else "no published checksum is known" in message


@pytest.mark.parametrize("task", TASKS)
def test_facts_fit_the_batches(task: str, real_splits: Callable[[str], Splits]) -> None:
    splits = real_splits(task)

    assert splits.task == task
    for split in (splits.train, splits.validation, splits.test):
        assert split.labelled
        check_batch(splits, *split.batch(torch.tensor([1, 0])))


@pytest.mark.parametrize("task", TASKS)
def test_the_documents_list_every_task_with_its_help_and_its_options(task: str) -> None:
    page = Path(__file__).parents[3] / "docs/reproduce.md"
    lines = page.read_text(encoding="utf-8").splitlines()
    (row,) = [line for line in lines if line.startswith(f"| `{task}` |")]

    assert row.split("|")[2].strip() == find_task(task).help
    options = find_task(task).options.keys()
    assert set(re.findall(r"`(\w+)`", row.split("|")[3])) - {"none"} == options

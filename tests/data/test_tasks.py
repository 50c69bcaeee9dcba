from __future__ import annotations

import dataclasses
import inspect
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from hadamrnn.data.splits import Splits
from hadamrnn.data.tasks import LIBRARY, find_task, load_task
from hadamrnn.errors import InputError


def test_an_unknown_task_is_answered_with_the_nearest_name() -> None:
    with pytest.raises(InputError, match=r"got 'digist'. Did you mean 'digits'\?"):
        load_task("digist")


def test_an_unknown_option_is_answered_with_the_nearest_name() -> None:
    with pytest.raises(InputError, match=r"got 'dealy'. Did you mean 'delay'\?"):
        load_task("copy", dealy=5)
    with pytest.raises(InputError, match=r"digits .* got 'zzz'"):
        load_task("digits", zzz=1)


def test_a_missing_option_is_named() -> None:
    with pytest.raises(InputError, match="npz needs the option path"):
        load_task("npz")


@pytest.mark.parametrize(
    "task", [task for task in LIBRARY if task not in ("copy", "digits", "npz", "recordings")]
)
def test_without_files_and_network_the_error_is_one_line_with_the_way_out(task: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()

    with pytest.raises(InputError) as error:
        load_task(task, tmp_path / "empty")

    message = str(error.value)
    assert "\n" not in message
    assert "http" in message and str(tmp_path / "empty") in message
    assert re.search(r"SHA-256 [0-9a-f]{64}", message)


@pytest.mark.parametrize("task", [task for task in LIBRARY if task not in ("npz", "recordings")])
def test_facts_fit_the_batches(task: str, real_splits: Callable[[str], Splits]) -> None:
    splits = real_splits(task)

    assert splits.task == task
    for split in (splits.train, splits.validation, splits.test):
        assert split.labelled
        check_batch(splits, *split.batch(torch.tensor([1, 0])))


def check_batch(
    splits: Splits, x: torch.Tensor, y: torch.Tensor | None, lengths: torch.Tensor | None
) -> None:
    if splits.vocabulary_size is None:
        assert x.shape == (2, splits.seq_length, splits.input_size) and x.dtype == torch.float32
    else:
        assert x.shape == (2, splits.seq_length) and x.dtype == torch.int64
        assert 0 <= x.min() and x.max() < splits.vocabulary_size
    if splits.metric == "mse":
        assert y is not None and y.shape == (2, splits.output_size) and y.dtype == torch.float32
        return
    classes = max(splits.output_size, 2)
    assert len(splits.class_names) == classes
    assert y is not None and y.dtype == torch.int64 and 0 <= y.min() and y.max() < classes
    assert y.shape == ((2, splits.seq_length) if splits.every_output else (2,))
    assert lengths is None


@pytest.mark.parametrize("task", LIBRARY)
def test_the_documents_list_every_task_with_its_help_and_its_options(task: str) -> None:
    page = Path(__file__).parents[2] / "docs/tasks.md"
    lines = page.read_text(encoding="utf-8").splitlines()
    (row,) = [line for line in lines if line.startswith(f"| `{task}` |")]

    options = find_task(task).options.keys()
    assert row.split("|")[2].strip() == find_task(task).help
    assert set(re.findall(r"`(\w+)`", row.split("|")[3])) - {"none"} == options


@pytest.mark.parametrize("task", LIBRARY)
def test_recipes_and_the_defaults_of_options_are_those_that_gave_the_published_figures(task: str) -> None:
    golden = json.loads((Path(__file__).parents[1] / "golden/recipes.json").read_text())

    assert json.loads(json.dumps(published(task))) == golden[task]


def published(task: str) -> dict[str, Any]:
    found = find_task(task)
    defaults = {
        each.name: each.default
        for each in inspect.signature(found.loader).parameters.values()
        if each.default is not inspect.Parameter.empty and each.name not in found.option_groups
    }
    for group in found.option_groups.values():
        defaults |= {each.name: each.default for each in dataclasses.fields(group)}
    told = {name: value if value is not dataclasses.MISSING else "needed" for name, value in defaults.items()}
    return {"recipes": found.recipes, "options": told}

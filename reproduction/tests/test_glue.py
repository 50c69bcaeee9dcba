"""GLUE submissions: one index and label per line."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from hadamrnn.data.splits import Split, Splits
from hadamrnn.run import Run
from tests.conftest import Command

SMALL = ("--epochs", "1", "--hidden-size", "8", "--batch-size", "8", "--threads", "1", "--quiet")


def text_splits(labelled: bool) -> Splits:
    """Return sentences of ids with one class each, like the GLUE tasks."""
    torch.manual_seed(0)
    ids, labels = torch.randint(0, 20, (40, 6)), torch.arange(40) % 2
    test = Split(ids[:7], labels[:7] if labelled else None)
    return Splits(
        "sst2",
        Split(ids, labels),
        Split(ids, labels),
        test,
        6,
        4,
        1,
        vocabulary_size=20,
        class_names=("n", "p"),
    )


@pytest.mark.parametrize("labelled", [True, False])
def test_predictions_are_an_index_and_a_label_a_line(
    labelled: bool, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    splits = text_splits(labelled)
    monkeypatch.setattr("hadamrnn.run.load_task", lambda *arguments, **options: splits)
    run, file = tmp_path / "run", tmp_path / "SST-2.tsv"
    assert command("train", "sst2", *SMALL, "--out", run).status == 0
    assert command("glue", run, "--out", file).status == 0

    labels = (Run.open(run).model(splits.test.x)[:, 0] > 0).long().tolist()
    assert file.read_text() == "index\tprediction\n" + "".join(f"{i}\t{y}\n" for i, y in enumerate(labels))
    if labelled:
        assert command("quantize", run).status == command("glue", run, "--integer", "--out", file).status == 0
        assert len(file.read_text().splitlines()) == 8


def test_another_task_is_refused_in_one_line(command: Command, tmp_path: Path) -> None:
    assert command("train", "digits", *SMALL, "--out", tmp_path / "run").status == 0

    answer = command("glue", tmp_path / "run", "--out", tmp_path / "file.tsv")

    assert answer.status == 2 and "hadamrnn predict" in answer.err and answer.err.count("\n") == 1
    assert not (tmp_path / "file.tsv").exists()

"""DSA-19: UCI's text format on small files, and the compact files themselves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from hadamrnn.data.splits import Splits
from hadamrnn.data.tasks import load_task
from hadamrnn.errors import InputError
from hadamrnn_paper.data.dsa import read_segment


def segment(activity: int, subject: int, number: int) -> NDArray[np.float64]:
    rng = np.random.default_rng([activity, subject, number])
    return np.round(rng.normal(subject, 1 + activity, size=(125, 45)), 5)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a data folder with one segment per activity and person, two for person 4."""
    for activity in range(1, 20):
        for subject in range(1, 9):
            place = tmp_path / f"data/a{activity:02d}/p{subject}"
            place.mkdir(parents=True)
            for number in (1, 2) if subject == 4 else (1,):
                values = segment(activity, subject, number)
                np.savetxt(place / f"s{number:02d}.txt", values, fmt="%.5f", delimiter=",")
    return tmp_path


def test_dsa19_is_split_by_subject(folder: Path) -> None:
    splits = load_task("dsa19", folder)
    parts = [splits.train, splits.validation, splits.test]

    assert [tuple(part.x.shape) for part in parts] == [(57, 125, 45), (38, 125, 45), (76, 125, 45)]
    assert [part.y.bincount().tolist() for part in parts if part.y is not None] == [
        [3] * 19,
        [2] * 19,
        [4] * 19,
    ]
    assert splits.offset is not None and splits.scale is not None
    raw = splits.validation.x * splits.scale + splits.offset
    expected = [segment(activity, 4, number) for activity in range(1, 20) for number in (1, 2)]
    torch.testing.assert_close(raw, torch.from_numpy(np.stack(expected)).float(), atol=1e-4, rtol=1e-5)
    steps = splits.train.x.reshape(-1, 45)
    torch.testing.assert_close(steps.mean(0), torch.zeros(45), atol=1e-5, rtol=0)
    torch.testing.assert_close(steps.std(0, unbiased=False), torch.ones(45))
    assert (splits.seq_length, splits.input_size, splits.output_size) == (125, 45, 19)
    assert len(splits.class_names) == 19 and "people" in splits.note


def test_an_empty_place_is_named(folder: Path) -> None:
    (folder / "data/a07/p3/s01.txt").unlink()

    with pytest.raises(InputError, match=r"s01\.txt .* in .*a07/p3, found none"):
        load_task("dsa19", folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "125 lines of 45 finite numbers, got 0"),
        ("1,2\n1,2,3\n", "not a readable table of numbers"),
        ("1,2,3\n", "125 lines of 45 finite numbers, got 1 of 3"),
        ((",".join(["nan"] * 45) + "\n") * 125, "finite"),
        ("1,2,x\n", "not a readable table of numbers"),
    ],
)
def test_a_malformed_segment_is_refused(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "s01.txt").write_text(text)

    with pytest.raises(InputError, match=message) as error:
        read_segment(tmp_path / "s01.txt")
    assert "\n" not in str(error.value)


def test_dsa19_has_sixty_segments_of_everybody_and_every_activity(
    real_splits: Callable[[str], Splits],
) -> None:
    splits = real_splits("dsa19")
    parts = (splits.train, splits.validation, splits.test)

    assert [len(part) for part in parts] == [3420, 1140, 4560]
    for part, people in zip(parts, (3, 1, 4), strict=True):
        assert part.y is not None and part.y.bincount().tolist() == [60 * people] * 19
    assert splits.offset is not None and splits.scale is not None
    raw = splits.train.x[0, :2, :3] * splits.scale[:3] + splits.offset[:3]
    torch.testing.assert_close(raw[:, 0], torch.tensor([8.13, 8.14]), atol=0.02, rtol=0)  # gravity, sitting


def test_everybody_can_be_trained_on_and_the_halves_can_be_swapped(folder: Path) -> None:
    swapped = load_task("dsa19", folder, swap=True, left_out=1)
    everybody = load_task("dsa19", folder, left_out=None)

    assert swapped.note.startswith("people 6-8 train, 5 validation, 1-4 test")
    assert [len(part) for part in (swapped.train, swapped.validation, swapped.test)] == [57, 19, 95]
    assert len(everybody.train) == 95 and "4 validation, who is in training" in everybody.note
    with pytest.raises(InputError, match=r"left_out must lie in 1\.\.4, got 5"):
        load_task("dsa19", folder, left_out=5)

"""Labels are matched by their text, whatever type a file gives them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hadamrnn import InputError, load_task
from hadamrnn.data.labels import class_names, class_numbers


@pytest.mark.parametrize(
    "y",
    [np.array([3, 1, 2]), np.array(["3", "1", "2"]), np.array(["3.0", "1", "2"]), np.array([3, 1, 2], "u1")],
)
def test_integers_name_a_class_and_are_not_its_position(
    y: np.ndarray[tuple[int], np.dtype[np.generic]],
) -> None:
    assert class_numbers(y, ("1", "2", "3"), "new.npz").tolist() == [2, 0, 1]


def test_a_label_that_no_class_has_is_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"classes of the run, '1, 2, 3', got '0' in new\.npz"):
        class_numbers(np.array([0, 1, 2]), ("1", "2", "3"), "new.npz")
    with pytest.raises(InputError, match="'0' and 1 more"):
        class_numbers(np.array([0, 1]), ("run", "walk"), "new.npz")


def test_three_and_three_point_zero_are_one_class(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros((30, 20, 1)), y=np.array(["3", "3.0", "10"] * 10))
    rows = [f"{(-1) ** row},{('3', '3.0', '10')[row // 40 % 3]}" for row in range(480)]
    (tmp_path / "a.csv").write_text("\n".join(["value,label", *rows]))

    assert load_task("npz", path=tmp_path / "a.npz").class_names == ("3", "10")
    assert load_task("recordings", path=tmp_path / "a.csv", window=10).class_names == ("3", "10")


@pytest.mark.parametrize("label", ["a\x1b[31mb", "a\nb", "a\x00b", "a\u2028b", "a\u202eb", "x" * 201])
def test_labels_that_could_not_be_printed_on_a_line_are_refused(label: str) -> None:
    with pytest.raises(InputError) as error:
        class_names({"walk", label}, "log.csv")
    assert str(error.value).isprintable() and len(str(error.value)) < 300


def test_letters_of_every_script_are_printable() -> None:
    assert class_names({"läuft", "走る", "👩‍💻"}, "log.csv") == tuple(sorted(("läuft", "走る", "👩‍💻")))

"""Metadata are short strings and finite numbers: accepted at the limit, refused beyond it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping

import pytest

from hadamrnn.errors import InputError
from hadamrnn.fixedpoint.base import (
    MAX_CLASS_NAMES,
    MAX_ENTRIES,
    MAX_ENTRY_LENGTH,
    check_metadata,
    class_metadata,
)

LONG = MAX_ENTRY_LENGTH - 4


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"name": "x" * LONG},
        {"x" * LONG: 1234},
        {"a": True, "b": -3, "c": sys.float_info.max, "d": -sys.float_info.max},
        {str(number): number for number in range(MAX_ENTRIES)},
    ],
)
def test_short_strings_and_finite_numbers_are_taken_as_they_are(metadata: Mapping[str, object]) -> None:
    assert check_metadata(metadata) == metadata


@pytest.mark.parametrize(
    "metadata",
    [
        {"name": "x" * (LONG + 1)},
        {"x" * LONG: 12345},
        {"a": float("inf")},
        {"a": -float("inf")},
        {"a": float("nan")},
        {"a": 10**5000},
        {"a": None},
        {"a": [1]},
        {1: "a"},
        {str(number): number for number in range(MAX_ENTRIES + 1)},
        [],
    ],
)
def test_other_metadata_are_refused_in_one_line(metadata: Mapping[str, object]) -> None:
    with pytest.raises(InputError) as error:
        check_metadata(metadata)
    assert "\n" not in str(error.value) and len(str(error.value)) < 200


def test_names_of_classes_are_left_out_if_they_are_longer_than_metadata() -> None:
    longest = "x" * (MAX_CLASS_NAMES - len('["", "b"]'))

    assert json.loads(str(class_metadata([longest, "b"])["class_names"])) == [longest, "b"]
    assert class_metadata([longest + "x", "b"]) == class_metadata([]) == {}

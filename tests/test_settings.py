"""JSON becomes a dataclass only if every field has its type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import pytest

from hadamrnn.errors import InputError
from hadamrnn.settings import OneOf, Range, from_json, read_text


@dataclass
class Inner:
    size: int


@dataclass
class Outer:
    inner: Inner | None
    kind: Literal["a", "b"] = "a"
    sizes: tuple[float, ...] = ()
    names: dict[str, int | None] | None = None


def test_nested_fields_lists_and_none_are_read() -> None:
    assert from_json(Outer, {"inner": None}, "file") == Outer(None)
    values = {"inner": {"size": 3}, "kind": "b", "sizes": [1, 2.5], "names": {"x": None, "y": 2}}
    assert from_json(Outer, values, "file") == Outer(Inner(3), "b", (1.0, 2.5), {"x": None, "y": 2})


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ([], "must hold names and values"),
        ({}, "it has no inner"),
        ({"inner": 3}, "inner must be"),
        ({"inner": {"size": True}}, "size must be int, got True"),
        ({"inner": {"size": 1.0}}, "size must be int, got 1.0"),
        ({"inner": {"size": 1, "more": 2}}, "'more', which is not one of its fields"),
        ({"inner": None, "kind": "c"}, "kind must be"),
        ({"inner": None, "sizes": [10**400]}, "sizes must be"),
        ({"inner": None, "names": {"x": "y"}}, "names must be"),
        ({"inner": None, "names": {1: 2}}, "names: a name must be str, got 1"),
    ],
)
def test_a_field_of_another_type_is_refused_in_one_line(values: object, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint) as caught:
        from_json(Outer, values, "file")
    assert "file is damaged" in str(caught.value) and "\n" not in str(caught.value)


def test_none_is_a_value_where_it_is_listed_as_one() -> None:
    hint = Annotated[str, OneOf(("none", "mel"))] | None
    assert read_text("features", "none", hint) == "none"
    assert read_text("epochs", "none", int | None) is None


@pytest.mark.parametrize(
    ("bounds", "inside", "outside"),
    [
        (Range(1, 8), (1, 8), (0.99, 8.01)),
        (Range(0.0, 1.0, "[)"), (0.0, 0.99), (-0.01, 1.0)),
        (Range(0.0, 1.0, "(]"), (0.01, 1.0), (0.0, 1.01)),
        (Range(0.0, 1.0, "()"), (0.01, 0.99), (0.0, 1.0)),
    ],
)
def test_an_end_belongs_to_its_range_if_its_bracket_is_square(
    bounds: Range, inside: tuple[float, ...], outside: tuple[float, ...]
) -> None:
    assert all(value in bounds for value in inside)
    assert not any(value in bounds for value in (*outside, float("nan"), "1"))

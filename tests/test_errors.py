"""The shared checks of values: types matter, and both ends of a range belong to it."""

from __future__ import annotations

from typing import Annotated

import pytest

from hadamrnn.errors import InputError, check_name, short
from hadamrnn.settings import OneOf, Range, check, check_int


@pytest.mark.parametrize("value", [True, 1.0, 9, "1", "ternary ", None])
def test_a_value_has_a_declared_type_and_lies_in_its_range(value: object) -> None:
    declared = Annotated[int, Range(1, 8)] | Annotated[str, OneOf(("ternary",))]
    for offered in (1, 8, "ternary"):
        check("bits", offered, declared)
    with pytest.raises(InputError, match=r"bits must (lie in 1\.\.8 or be ternary|be int or str), got "):
        check("bits", value, declared)


@pytest.mark.parametrize("value", [1, 9, True, 2.0, "3"])
def test_a_whole_number_lies_in_its_range(value: object) -> None:
    for inside in (2, 8):
        check_int("bits", inside, 2, 8)
    with pytest.raises(InputError, match=r"bits must (lie in 2\.\.8|be int), got "):
        check_int("bits", value, 2, 8)


def test_an_unknown_name_gets_the_nearest_known_one() -> None:
    check_name("A preset", "best", ["quick", "best"])
    with pytest.raises(InputError, match=r"got 'qick'\. Did you mean 'quick'"):
        check_name("A preset", "qick", ["quick", "best"])


def test_a_value_in_an_error_takes_sixty_characters_at_most() -> None:
    assert short("x" * 58) == repr("x" * 58)
    assert len(short("x" * 59)) == 60 and short("x" * 59).endswith("...")

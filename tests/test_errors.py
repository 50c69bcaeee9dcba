"""The checks that every room uses: types count, and both ends of a range belong to it."""

from __future__ import annotations

import pytest

from hadamrnn.errors import InputError, check_choice, check_int, check_name, check_unset, short


@pytest.mark.parametrize("value", [True, 1.0, 3, "1", "ternary ", None])
def test_a_choice_has_the_value_and_the_type_of_an_offer(value: object) -> None:
    for offered in (1, 2, "ternary"):
        check_choice("bits", offered, (1, 2, "ternary"))
    with pytest.raises(InputError, match="bits must be one of 1, 2, 'ternary', got "):
        check_choice("bits", value, (1, 2, "ternary"))


@pytest.mark.parametrize("value", [1, 9, True, 2.0, "3"])
def test_a_whole_number_lies_in_its_range(value: object) -> None:
    for inside in (2, 8):
        check_int("bits", inside, 2, 8)
    with pytest.raises(InputError, match=r"bits must be an int in 2\.\.8 or none, got "):
        check_int("bits", value, 2, 8, "or none")


def test_a_setting_that_is_not_there_must_be_unset() -> None:
    check_unset("LSTMs", "leak", (), ())
    with pytest.raises(InputError, match="LSTMs have no leak: it must be none, got 3"):
        check_unset("LSTMs", "leak", 3, None)


def test_an_unknown_name_gets_the_nearest_known_one() -> None:
    check_name("A preset", "best", ["quick", "best"])
    with pytest.raises(InputError, match=r"got 'qick'\. Did you mean 'quick'"):
        check_name("A preset", "qick", ["quick", "best"])


def test_a_value_in_an_error_takes_sixty_characters_at_most() -> None:
    assert short("x" * 58) == repr("x" * 58)
    assert len(short("x" * 59)) == 60 and short("x" * 59).endswith("...")

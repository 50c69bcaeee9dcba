"""Define the exception for input that breaks a rule, and format values for its messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from unicodedata import category

UNPRINTABLE = {"Cc", "Cs", "Zl", "Zp"}  # control characters, surrogates, line separators
REORDERING = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


class InputError(ValueError):
    """Bad input: the message gives the rule, the value and the way out, in one line.

    The command line prints it and exits with 2; anything else is a bug and shows its traceback.
    """


class SaturationWarning(UserWarning):
    """Warning that values in an integer network were clipped, so its outputs may be wrong."""


@contextmanager
def naming(source: object) -> Iterator[None]:
    """Prefix the message of any `InputError` raised in this block with the name of a source."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{source}: {error}") from error


def damaged(source: object, reason: object) -> InputError:
    """Return the error for a file whose content this package did not write."""
    return InputError(f"{source} is damaged: {reason}")


def missing_package(purpose: str, package: object, extra: str) -> InputError:
    """Return the error for a missing optional package, with the extra that installs it."""
    return InputError(f"{purpose} need {package}. Install it: pip install 'hadamrnn[{extra}]'.")


def check_name(kind: str, name: str, known: Iterable[str]) -> None:
    """Raise unless `name` is known; the error names the nearest one.

    >>> check_name("A preset", "bset", ["paper", "quick", "best"])
    Traceback (most recent call last):
    hadamrnn.errors.InputError: A preset must be one of paper, quick, best, got 'bset'. Did you mean 'best'?
    """
    names = list(known)
    if name not in names:
        raise InputError(
            f"{kind} must be one of {', '.join(names)}, got {short(name)}.{did_you_mean(name, names)}"
        )


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a question with the nearest known name, to append to a sentence; empty if no name is known."""
    nearest = get_close_matches(str(name), list(known), n=1, cutoff=0.0)
    return f" Did you mean {nearest[0]!r}?" if nearest else ""


def printable(text: str) -> str:
    """Escape control characters, so that a text is safe on one line of a terminal.

    >>> printable("a\\x1b[31m b\\nc")
    'a\\\\x1b[31m b\\\\nc'
    """
    return "".join(
        ascii(letter)[1:-1] if category(letter) in UNPRINTABLE or letter in REORDERING else letter
        for letter in text
    )


def short(value: object) -> str:
    """Format a value for an error message: on one line, shortened if it is long."""
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # an int with too many digits to print
        text = "a number of too many digits"
    return text if len(text) <= 60 else f"{text[:57]}..."

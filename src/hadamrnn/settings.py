"""Declare the type and range of a setting once, in the annotation of its field or parameter.

    epochs: Annotated[int, Range(1, 10**6)] | None = option(None, "passes through the training set")

`coerce` checks and converts a value from a YAML file, a caller or the command line by such a declaration, and
`check` does so without reading numbers in texts. `read_text` first parses the text of a command line.
`from_json` reads a dataclass that this package wrote. Every error is one line.
"""

from __future__ import annotations

import dataclasses
import os
import re
import types
import typing
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from numbers import Real
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from hadamrnn.errors import InputError, damaged, naming, short

T = TypeVar("T")


@dataclass(frozen=True)
class Range:
    """The numbers from `low` to `high`; a round bracket in `ends` excludes that end.

    >>> str(Range(1, 64)), str(Range(0, 1, "(]")), 0 in Range(0, 1, "(]")
    ('1..64', '(0, 1]', False)
    """

    low: float
    high: float
    ends: str = "[]"

    def __contains__(self, value: Any) -> bool:
        if not issubclass(type(value), Real):
            return False
        above = value > self.low if self.ends[0] == "(" else value >= self.low
        return bool(above and (value < self.high if self.ends[1] == ")" else value <= self.high))

    @property
    def rule(self) -> str:
        return f"lie in {self}"

    def __str__(self) -> str:
        if self.ends == "[]" and isinstance(self.low, int) and isinstance(self.high, int):
            return f"{self.low}..{self.high}"
        return f"{self.ends[0]}{self.low:g}, {self.high:g}{self.ends[1]}"


@dataclass(frozen=True)
class OneOf:
    """One of these values, for a `str` setting whose type need not be a Literal.

    >>> "mean" in OneOf(("last", "mean")), str(OneOf(("last", "mean")))
    (True, 'last, mean')
    """

    values: tuple[str, ...]

    def __contains__(self, value: object) -> bool:
        return value in self.values

    @property
    def rule(self) -> str:
        return f"be {'one of ' if len(self.values) > 1 else ''}{self}"

    def __str__(self) -> str:
        return ", ".join(self.values)


Count = Annotated[int, Range(1, 10**9)]
Seed = Annotated[int, Range(0, 2**32 - 1)]
Threads = Annotated[int, Range(1, 1024)]
Positive = Annotated[float, Range(0, 3e38, "(]")]
NotNegative = Annotated[float, Range(0, 3e38)]
Share = Annotated[float, Range(0, 1)]


def option(default: Any, help: str) -> Any:
    """Return a dataclass field with its help text."""
    return field(default=default, metadata={"help": help})


def field_types(owner: Any) -> dict[str, Any]:
    """Return the declared type of every field of a dataclass, or of every parameter of a function."""
    return _cached_types(owner)


@cache
def _cached_types(owner: Any) -> dict[str, Any]:
    return typing.get_type_hints(owner, include_extras=True)


def validate_fields(instance: Any) -> None:
    """Check and convert every field of a frozen dataclass by its declaration, in its `__post_init__`."""
    types = field_types(type(instance))
    for each in dataclasses.fields(instance):
        value = coerce(each.name, getattr(instance, each.name), types[each.name])
        object.__setattr__(instance, each.name, value)


def coerce(name: str, value: object, hint: Any) -> Any:
    """Convert `value` to the type in `hint`; accept whole numbers as floats, and text such as 1e-3.

    >>> coerce("learning_rate", "1e-3", float), coerce("weight_bits", "ternary", int | str | None)
    (0.001, 'ternary')
    >>> coerce("leak", [1, 2, None], tuple[int, ...]), coerce("leak", 3, tuple[int, ...])
    ((1, 2, 0), (3,))
    """
    if typing.get_origin(hint) is tuple:
        item = typing.get_args(hint)[0]
        items = value if isinstance(value, (list, tuple)) else [] if value is None else [value]
        whole = _choices(item)[0][0] is int
        return tuple(0 if part is None and whole else coerce(name, part, item) for part in items)
    if isinstance(value, str):
        kinds = [kind for kind, _ in _choices(hint)]
        if float in kinds and str not in kinds:
            number: object = value
            with suppress(ValueError):
                number = float(value)
            return check(name, number, hint, given=value)
    return check(name, value, hint)


def check_int(name: str, value: object, low: int, high: int) -> None:
    """Refuse anything but an int in low..high, for ranges that are only known at run time."""
    check(name, value, Annotated[int, Range(low, high)])


def check_equal(name: str, value: object, expected: object) -> None:
    """Refuse a value that differs from the one that something else determines."""
    if value != expected:
        raise InputError(f"{name} must be {short(expected)}, got {short(value)}.")


def check_shape(name: str, array: Any, *axes: int | str) -> None:
    """Refuse an array or tensor whose shape differs from this one; a text stands for an axis of any length.

    >>> check_shape("x", memoryview(b"abc"), "batch", 4)
    Traceback (most recent call last):
    hadamrnn.errors.InputError: x must have shape (batch, 4), got (3,).
    """
    found = tuple(array.shape)
    fits = len(found) == len(axes)
    if not fits or any(isinstance(n, int) and n != size for n, size in zip(axes, found, strict=True)):
        shown = ", ".join(map(str, axes)) + ("," if len(axes) == 1 else "")
        raise InputError(f"{name} must have shape ({shown}), got {found}.")


def from_json(kind: type[T], values: object, source: str | Path) -> T:
    """Build a dataclass from `values`, which must have exactly its fields with their declared types.

    Lists become tuples if the field is a tuple, and floats may be whole numbers; errors name `source`.

    >>> from_json(Range, {"low": 1, "high": 2.5}, "a file")
    Range(low=1.0, high=2.5, ends='[]')
    """
    if not isinstance(values, dict):
        raise damaged(source, f"it must hold names and values, got {short(values)}.")
    known = {each.name: each for each in dataclasses.fields(typing.cast(Any, kind))}
    for name in values.keys() - known.keys():
        raise damaged(source, f"it holds {short(name)}, which is not one of its fields.")
    hints = field_types(kind)
    fields: dict[str, Any] = {}
    for name, each in known.items():
        if name in values:
            fields[name] = check(f"{source} is damaged: {name}", values[name], hints[name])
        elif each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING:
            raise damaged(source, f"it has no {name}.")
    with naming(source):
        return kind(**fields)


def read_text(name: str, text: str, hint: Any) -> Any:
    """Parse `text` from a command line as a setting declared as `hint`.

    >>> read_text("epochs", "none", int | None), read_text("weight_bits", "4", int | str | None)
    (None, 4)
    >>> read_text("leak", "1,2,none", tuple[int, ...]), read_text("readouts", "mean, max", tuple[str, ...])
    ((1, 2, 0), ('mean', 'max'))
    """
    if typing.get_origin(hint) is tuple:
        item = typing.get_args(hint)[0] | None
        parts = [] if text.lower() == "none" else text.split(",")
        return coerce(name, [read_text(name, part.strip(), item) for part in parts], hint)
    kinds = [kind for kind, _ in _choices(hint)]
    if types.NoneType in kinds and text.lower() == "none" and not _is_choice(text.lower(), hint):
        return None
    if int in kinds and re.fullmatch(r"[+-]?\d{1,30}", text):
        return coerce(name, int(text), hint)
    if bool in kinds and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if Path in kinds and not _is_path(text):
        raise InputError(f"{name} must name a file or folder, got {short(text)}.")
    return coerce(name, Path(text) if Path in kinds else text, hint)


def read_scalar(text: str) -> int | float | bool | str | None:
    """Parse text without a declared type: as a number, true, false, none, or the text itself.

    >>> [read_scalar(text) for text in ("16", "0.5", "true", "none", "2020-13-45")]
    [16, 0.5, True, None, '2020-13-45']
    """
    hints: tuple[Any, ...] = (int | None, bool, float)
    for hint in hints:
        with suppress(InputError):
            return typing.cast("int | float | bool | None", read_text("value", text, hint))
    return text


_UNFIT = object()


def check(name: str, value: object, hint: Any, given: object = None) -> Any:
    """Return `value` if it has the type and range that `hint` declares, else refuse it; parse no text.

    The error quotes `given`, the original text, if there is one.

    >>> check("bits", 9, Annotated[int, Range(2, 8)] | Annotated[str, OneOf(("ternary",))])
    Traceback (most recent call last):
    hadamrnn.errors.InputError: bits must lie in 2..8 or be ternary, got 9.
    """
    bounds: list[str] = []
    for kind, bound in _choices(hint):
        fitting = _fitting(name, value, kind)
        if fitting is _UNFIT:
            continue
        if bound is None or fitting in bound:
            return fitting
        bounds = [bound.rule for _, bound in _choices(hint) if bound is not None]
    given = short(value if given is None else given)
    if bounds:
        raise InputError(f"{name} must {' or '.join(bounds)}, got {given}.")
    wanted = " or ".join(_called(kind) for kind, _ in _choices(hint))
    raise InputError(f"{name} must be {wanted}, got {given}.")


@cache
def _choices(hint: Any) -> list[tuple[Any, Range | OneOf | None]]:
    """Return the types that `hint` allows, each with its range."""
    union = typing.get_origin(hint) in (types.UnionType, typing.Union)
    each = typing.get_args(hint) if union else (hint,)
    return [typing.get_args(one) if typing.get_origin(one) is Annotated else (one, None) for one in each]


def _fitting(name: str, value: Any, kind: Any) -> Any:
    """Return `value` as a `kind`, or `_UNFIT`."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return value
    if origin in (list, tuple) and isinstance(value, (list, tuple)):
        return origin(check(name, each, arguments[0]) for each in value)
    if origin is dict and isinstance(value, dict):
        return {
            check(f"{name}: a name", key, arguments[0]): check(name, each, arguments[1])
            for key, each in value.items()
        }
    if dataclasses.is_dataclass(kind) and isinstance(value, dict):
        return from_json(typing.cast(type, kind), value, name)
    if kind is float and type(value) is int:
        try:
            return float(value)
        except OverflowError:
            return _UNFIT
    if kind is Path and isinstance(value, (str, Path)):
        return Path(value)
    if origin is Literal:
        fits = any(type(value) is type(member) and value == member for member in arguments)
    elif dataclasses.is_dataclass(kind):
        fits = isinstance(value, typing.cast(type, kind))
    else:
        fits = value is None if kind is types.NoneType else type(value) is kind
    return value if fits else _UNFIT


def _is_choice(text: str, hint: Any) -> bool:
    """Return whether a text is one of the listed values of a setting."""
    return any(isinstance(bound, OneOf) and text in bound for _, bound in _choices(hint))


def _is_path(text: str) -> bool:
    try:
        return b"\0" not in os.fsencode(text) and text != ""
    except UnicodeEncodeError:
        return False


def _called(kind: Any) -> str:
    if typing.get_origin(kind) is Literal:
        return f"one of {', '.join(typing.get_args(kind))}"
    if kind is types.NoneType:
        return "none"
    if typing.get_origin(kind) is dict:
        return "names and values"
    return str((typing.get_origin(kind) or kind).__name__)

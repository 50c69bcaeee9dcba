"""Dataclasses from JSON: every field must be there, no other, and each of its type. Start at `from_json`."""

from __future__ import annotations

import dataclasses
import types
import typing
from pathlib import Path
from typing import Any, TypeVar

from hadamrnn.errors import InputError, short

T = TypeVar("T")


def from_json(kind: type[T], values: object, source: str | Path) -> T:
    """Return the `kind` that `values` describe; `source` is the file that an error names.

    Lists become tuples where the field has one, whole numbers pass as floats.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Point:
    ...     at: tuple[float, ...]
    >>> from_json(Point, {"at": [1, 2.5]}, "a file")
    Point(at=(1.0, 2.5))
    """
    if not isinstance(values, dict):
        raise InputError(f"{source} is damaged: it must hold names and values, got {short(values)}.")
    known = {each.name: each for each in dataclasses.fields(typing.cast(Any, kind))}
    for name in values.keys() - known.keys():
        raise InputError(f"{source} is damaged: it holds {short(name)}, which is not one of its fields.")
    hints = typing.get_type_hints(kind)
    fields: dict[str, Any] = {}
    for name, each in known.items():
        if name in values:
            try:
                fields[name] = _typed(values[name], hints[name], f"{name} in {source}")
            except (TypeError, OverflowError):
                wanted = getattr(hints[name], "__name__", str(hints[name]))
                raise InputError(
                    f"{source} is damaged: {name} must be {wanted}, got {short(values[name])}."
                ) from None
        elif each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING:
            raise InputError(f"{source} is damaged: it has no {name}.")
    try:
        return kind(**fields)
    except InputError as error:
        raise InputError(f"{source}: {error}") from error


def _typed(value: Any, hint: Any, source: str) -> Any:
    """Return `value` as `hint` has it; raise TypeError where it is not of that type."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return value
    if origin in (typing.Union, types.UnionType):
        return _first(value, arguments, source)
    if origin is typing.Literal:
        return _member(value, arguments)
    if origin in (list, tuple):
        return origin(_typed(each, arguments[0], source) for each in _instance(value, list))
    if origin is dict:
        pairs = _instance(value, dict).items()
        return {_instance(name, str): _typed(each, arguments[1], source) for name, each in pairs}
    if dataclasses.is_dataclass(hint):
        return from_json(typing.cast(type, hint), _instance(value, dict), source)
    if hint is float:
        return float(_instance(value, (int, float)))
    return _instance(value, hint)


def _first(value: Any, hints: tuple[Any, ...], source: str) -> Any:
    """Return `value` as the first of `hints` that takes it."""
    for hint in sorted(hints, key=lambda hint: hint is float):  # an int stays an int where both are allowed
        try:
            return _typed(value, hint, source)
        except TypeError:
            continue
    raise TypeError


def _instance(value: Any, kind: Any) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise TypeError
    return value


def _member(value: Any, members: tuple[Any, ...]) -> Any:
    if not any(type(value) is type(member) and value == member for member in members):
        raise TypeError
    return value

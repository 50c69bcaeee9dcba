"""One mark for torch.compile and torch.export, without loading them."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def constant_when_traced(function: Callable[P, R]) -> Callable[P, R]:
    """Let a tracer call `function` once and take its result as a constant.

    What `torch.compiler.assume_constant_result` does, but that imports the whole compiler: seconds
    at every start of a command.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function

"""Format Markdown tables for the pages that benchmarks write."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def markdown_table(header: Sequence[str], lines: Iterable[Sequence[str]], numbers: int) -> str:
    """Return a Markdown table whose last `numbers` columns are right-aligned.

    >>> print(markdown_table(("set", "bytes"), [("digits", "927")], numbers=1))
    | set | bytes |
    |---|---:|
    | digits | 927 |
    """
    words = len(header) - numbers
    rule = "|" + "---|" * words + "---:|" * numbers
    return "\n".join([f"| {' | '.join(header)} |", rule, *(f"| {' | '.join(line)} |" for line in lines)])

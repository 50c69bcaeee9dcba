"""Types of command-line values that several commands share."""

from __future__ import annotations

import argparse


def weight_bits(text: str) -> int | str | None:
    """Parse `4`, `ternary` or `none`."""
    if text == "ternary":
        return text
    if text.lower() == "none":
        return None
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be an integer, ternary or none, got {text!r}") from None


def add_json_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")

"""What a reader of the exported folder wants to know about the network, from its metadata."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from hadamrnn.fixedpoint.model import IntegerModel


@dataclass(frozen=True)
class Summary:
    """A title and lines of prose that fit into a C comment."""

    title: str
    lines: tuple[str, ...]


def summarise(model: IntegerModel) -> Summary:
    """Return the summary of `model`: sizes, bits, scales, then every metadata entry.

    Metadata is the user's text: what would end a comment or a line is replaced.
    """
    weights = "ternary" if model.weight_bits == "ternary" else f"{model.weight_bits}-bit"
    shifts = ", ".join(str(layer.hidden_shift) for layer in model.layers)
    blocks = f"{model.num_blocks} blocks" if model.num_blocks > 1 else "one block"
    entries = [f"{plain(key)}: {plain(value)}" for key, value in sorted(model.metadata.items())]
    return Summary(
        title=f"a Hadamard recurrent network of {model.hidden_size} units, {weights} weights",
        lines=(
            f"{model.hidden_size} units in {blocks} of {model.block_size}, {model.recurrence} recurrence",
            f"{model.input_kind} input of size {model.input_size} in {model.input_bits} bits, "
            f"{model.output_size} outputs {'at every step' if model.every_output else 'after the last step'}",
            f"states in {model.activation_bits} bits, hidden shift {shifts}",
            f"scales: input {model.input_scale:.9g}, logit {model.logit_scale:.9g}",
            *entries,
        ),
    )


def calibrated_length(model: IntegerModel) -> int | None:
    """Return the steps that the state was scaled for, where the metadata has them."""
    length = model.metadata.get("calibrated_length")
    return length if isinstance(length, int) and not isinstance(length, bool) and length > 0 else None


def class_names(model: IntegerModel) -> list[str]:
    """Return the names of the classes, none where the metadata has none.

    Metadata holds `class_names`, a list in JSON; a single output tells two classes apart.
    """
    try:
        names = json.loads(str(model.metadata.get("class_names", "[]")))
    except ValueError:
        return []
    if not isinstance(names, list) or len(names) != max(model.output_size, 2):
        return []
    return [str(name) for name in names]


def class_symbols(model: IntegerModel) -> list[tuple[str, str]]:
    """Return what C calls each class, part of an identifier and text of a string; none without names."""
    texts = [
        plain(name).replace("\\", "/").replace('"', "'").replace("??", "? ?") for name in class_names(model)
    ]
    symbols = [re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_").upper()[:40] for text in texts]
    unique = len(set(symbols)) == len(symbols) and all(symbols)
    return [(s if unique else f"{k}", text) for k, (s, text) in enumerate(zip(symbols, texts, strict=True))]


def plain(value: object) -> str:
    """Return printable ASCII on one line that can neither end a comment nor open one.

    >>> plain("a */ b" + chr(10) + "c")
    'a * / b c'
    """
    text = " ".join(str(value).split()).encode("ascii", "replace").decode()
    text = "".join(char if char.isprintable() else "?" for char in text)
    return text.replace("*/", "* /").replace("/*", "/ *").replace("??/", "? ?/").rstrip("\\")[:200]

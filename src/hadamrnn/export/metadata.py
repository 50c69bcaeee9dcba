"""Describe an exported network for readers, build systems and package managers.

`summarise` describes the network from its metadata. A few small files accompany the C:

    CMakeLists.txt                         CMake; within ESP-IDF, a component
    zephyr/                                a Zephyr module
    idf_component.yml                      ESP-IDF's component manager
    library.properties, library.json       Arduino and PlatformIO
"""

from __future__ import annotations

import json
import re
import unicodedata
from dataclasses import dataclass
from typing import Any

from hadamrnn.errors import printable
from hadamrnn.export.reservoir import reservoir_lines
from hadamrnn.fixedpoint.base import IntegerBase
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.packages import package_version
from hadamrnn.reservoir.model import IntegerReservoir


@dataclass(frozen=True)
class Summary:
    """A title and lines of text that are safe in a C comment."""

    title: str
    lines: tuple[str, ...]


def summarise(model: IntegerModel | IntegerReservoir) -> Summary:
    """Summarise `model`: sizes, bits and scales, then every metadata entry.

    Metadata are the user's text, so anything that would end a comment or a line is replaced.
    """
    entries = [f"{plain(key)}: {plain(value)}" for key, value in sorted(model.metadata.items())]
    if isinstance(model, IntegerReservoir):
        title = f"a reservoir of {model.hidden_size} units and {len(model.features)} features"
        return Summary(title, (*reservoir_lines(model), *entries))
    weights = "ternary" if model.weight_bits == "ternary" else f"{model.weight_bits}-bit"
    shifts = ", ".join(str(layer.hidden_shift) for layer in model.layers)
    units = " + ".join(map(str, model.network.widths)) + " units"
    blocks = f"{model.network.num_blocks} blocks" if model.network.num_blocks > 1 else "one block"
    sizes = " or ".join(map(str, sorted({layer.block_size for layer in model.layers})))
    return Summary(
        title=f"a Hadamard recurrent network of {units}, {weights} weights",
        lines=(
            f"{units} in {blocks} of {sizes}, {model.network.recurrence} recurrence",
            f"{model.input_kind} input of size {model.input_size} in {model.input_bits} bits, "
            f"{model.output_size} outputs {'at every step' if model.every_output else 'after the last step'}",
            f"states in {model.activation_bits} bits, hidden shift {shifts}",
            f"scales: input {model.input_scale:.9g}, logit {model.logit_scale:.9g}",
            *_beyond_paper(model),
            *entries,
        ),
    )


def _beyond_paper(model: IntegerModel) -> list[str]:
    """Describe leaks, layers and read-outs that the paper's network lacks."""
    network, lines = model.network, []
    if network.block_leaks:
        leaks = ", ".join(str(k) if k else "none" for k in network.block_leaks)
        lines.append(f"leak 1 - 2^-k, k of each block: {plain(leaks)}")
    if len(model.layers) > 1:
        parts = (("skip connections", network.skip), (f"stride {network.stride}", network.stride > 1))
        extras = [text for text, wanted in parts if wanted]
        lines.append(f"{len(model.layers)} layers{''.join(f', {text}' for text in extras)}")
    if network.is_pooled:
        thresholds = f", {network.thresholds} thresholds a unit" if network.thresholds else ""
        limit = f", at most {model.longest} steps" if model.longest else ""
        lines.append(f"reads out {', '.join(network.readouts)}{thresholds}{limit}")
    return lines


def class_symbols(model: IntegerBase) -> list[tuple[str, str]]:
    """Return each class's enum suffix and string literal in C; empty if the classes have no names.

    Enum names are ASCII and unique: the class number is appended to names that would be equal, and replaces a
    name without letters.
    """
    shown = [printable(name) for name in model.class_names]
    bases = [_symbol(text) for text in shown]
    # NET_CLASS_NAMES is the macro of all names.
    unique = {base for base in bases if base not in ("", "NAMES") and bases.count(base) == 1}
    taken, symbols = set(unique), []
    for k, base in enumerate(bases):
        symbol = base
        if base not in unique:
            symbol = f"{base}_{k}".lstrip("_")
            while symbol in taken:
                symbol += f"_{k}"
            taken.add(symbol)
        symbols.append(symbol)
    return [(symbol, _literal(text)) for symbol, text in zip(symbols, shown, strict=True)]


def _symbol(text: str) -> str:
    """Return a text's letters and digits in upper-case ASCII, with underscores between words."""
    ascii_text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"\W+", "_", ascii_text).strip("_").upper()[:40].rstrip("_")


def _literal(text: str) -> str:
    """Return a C string literal of the UTF-8 bytes of `text`, in ASCII and without trigraphs."""
    escapes = {ord(char): f"\\{char}" for char in '"\\?'}
    characters = [chr(byte) if byte < 0x80 else f"\\{byte:03o}" for byte in text.translate(escapes).encode()]
    return f'"{"".join(characters)}"'


def plain(value: object) -> str:
    """Convert a text to one line of printable ASCII that neither ends nor opens a comment.

    >>> plain("a */ b" + chr(10) + "c")
    'a * / b c'
    """
    text = " ".join(str(value).split()).encode("ascii", "replace").decode()
    text = "".join(char if char.isprintable() else "?" for char in text)
    return text.replace("*/", "* /").replace("/*", "/ *").replace("??/", "? ?/").rstrip("\\")[:200]


def manager_files(name: str, summary: Summary) -> dict[str, str]:
    """Return the files for Arduino and PlatformIO by name; sources are in the folder or in src/."""
    properties = {
        "name": name,
        "version": version_numbers(package_version()),
        "author": "hadamrnn",
        "maintainer": "hadamrnn",
        "sentence": f"{summary.title[0].upper()}{summary.title[1:]}.",
        "paragraph": "Integers only: no heap, no floating point. The same bits as the reference in Python.",
        "category": "Data Processing",
        "architectures": "*",
        "includes": f"{name}.h,{name}_window.h",
    }
    manifest = {
        "name": name,
        "version": version_numbers(package_version()),
        "description": summary.title,
        "keywords": ["neural network", "classification", "tinyml"],
        "frameworks": "*",
        "platforms": "*",
        "headers": [f"{name}.h", f"{name}_window.h"],
    }
    return {
        "library.properties": "".join(f"{key}={value}\n" for key, value in properties.items()),
        "library.json": _json(manifest),
    }


def component_files(name: str, summary: Summary) -> dict[str, str]:
    """Return the files for ESP-IDF's component manager and Zephyr by name."""
    component = {"version": version_numbers(package_version()), "description": summary.title}
    return {
        "idf_component.yml": _json(component),
        "zephyr/module.yml": _json({"name": name, "build": {"cmake": "zephyr"}}),
    }


def version_numbers(version: str) -> str:
    """Return the x.y.z part of a version, the form that library managers require.

    >>> version_numbers("0.1.0.dev3"), version_numbers("unknown")
    ('0.1.0', '0.0.0')
    """
    match = re.match(r"\d+\.\d+\.\d+", version)
    return match.group() if match else "0.0.0"


def _json(content: dict[str, Any]) -> str:
    return json.dumps(content, indent=2) + "\n"

"""Ways to damage a file: flipped bits, missing ends, spliced parts, and false headers."""

from __future__ import annotations

import io
import json
import random
import struct
import zipfile
from collections.abc import Iterator
from typing import Any, NamedTuple

from hadamrnn.files import seal

HOSTILE_JSON = (
    *("null", "true", "0", "-1", "1", "3", "0.5", "-0.5", "2147483648", "10000000", "1000000000"),
    *("1000000000000000000000000", "1e308", "1e999", "NaN", "9" * 5000, '""', '"x"', '"\\ud800"'),
    *('"' + "A" * 5000 + '"', "[]", "{}", "[1, [2]]", '{"a": {}}', "[" * 5000 + "]" * 5000, "[" * 100_000),
)
HOSTILE_YAML = (
    *("", "null", "true", "0", "-1", "2147483648", "1000000000000", "1e400", ".nan", "2020-13-45", "0x_"),
    *("9" * 5000, "''", "x", "'" + "A" * 5000 + "'", "[]", "{}", "[1, [2]]", "{a: {b: 1}}", "[" * 5000),
    *(
        "&a [*a]",
        "*missing",
        "!!python/object:os.system x",
        "!!int x",
        "!!timestamp x",
        "!!binary x",
        "? [a]",
    ),
)
BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12))
HOSTILE_SHAPES = (
    *("(1000000000000,)", "(-1,)", "(1000000, 1000000, 1000000)", "('a',)", "(" * 200, "(3,)", "()"),
)
HOSTILE_TYPES = ("'|O'", "'<f8'", "'V0'", "'<U1000000000'", "[('a', '<f4')]", "'x'", "None")
MARK = "HOSTILE"


class Damaged(NamedTuple):
    """A damaged file, and whether a reader that accepts it must return the original content."""

    how: str
    content: bytes
    must_differ_loudly: bool


def worn(content: bytes, draw: random.Random) -> Damaged:
    """Return `content` with the damage of bad disks and broken transfers."""
    kind = draw.randrange(5)
    at, end = sorted(draw.randrange(len(content) + 1) for _ in range(2))
    if kind == 0:
        changed = bytearray(content)
        for _ in range(draw.choice((1, 1, 2, 8))):
            changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
        return Damaged("bits flipped", bytes(changed), True)
    if kind == 1:
        return Damaged("cut short", content[:at], True)
    if kind == 2:
        return Damaged("a part zeroed", content[:at] + bytes(end - at) + content[end:], True)
    if kind == 3:
        return Damaged("a part repeated", content[:end] + content[at:], True)
    return Damaged("a part random", content[:at] + draw.randbytes(end - at) + content[end:], True)


def lying_json(text: str) -> Iterator[tuple[str, str]]:
    """Yield a description of the change and `text` with one value removed or replaced by hostile ones."""
    original = json.loads(text)
    for path in _paths(original):
        name = ".".join(map(str, path))
        without = json.loads(text)
        parent = _at(without, path[:-1])
        del parent[path[-1]]
        yield f"{name} removed", json.dumps(without)
        marked = json.loads(text)
        _at(marked, path[:-1])[path[-1]] = MARK
        for value in HOSTILE_JSON:
            yield f"{name} = {value[:20]}", json.dumps(marked).replace(f'"{MARK}"', value)


def lying_yaml(text: str) -> Iterator[tuple[str, str]]:
    """Yield `text` with the value of each top-level name replaced."""
    yield "an alias bomb", text + BOMB
    lines = text.splitlines()
    for number, line in enumerate(lines):
        for value in HOSTILE_YAML:
            name = line.partition(":")[0]
            yield (
                f"{name} = {value[:20]}",
                "\n".join([*lines[:number], f"{name}: {value}", *lines[number + 1 :]]),
            )


def lying_header(content: bytes) -> Iterator[Damaged]:
    """Yield a safetensors file with each value of its header, and of the JSON texts in it, changed.

    Each appears unchanged and with a new checksum, as an attacker would write it.
    """
    length = int.from_bytes(content[:8], "little")
    header, tensors = json.loads(content[8 : 8 + length]), content[8 + length :]
    texts = list(lying_json(json.dumps(header)))
    for name, inner in header["__metadata__"].items():
        if inner.startswith("{"):
            for how, changed in lying_json(inner):
                metadata = {**header["__metadata__"], name: changed}
                texts.append((f"{name}: {how}", json.dumps({**header, "__metadata__": metadata})))
    for how, text in texts:
        encoded = text.encode(errors="surrogatepass")
        whole = len(encoded).to_bytes(8, "little") + encoded + tensors
        yield Damaged(how, whole, True)
        try:
            yield Damaged(f"{how}, sealed", seal(whole), False)
        except (ValueError, RecursionError, KeyError, TypeError):
            continue  # no writer could seal this


def lying_npz(content: bytes) -> Iterator[Damaged]:
    """Yield archives whose arrays claim other shapes and types, or whose members claim other sizes."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    for name, data in members.items():
        header = data[10 : 10 + struct.unpack("<H", data[8:10])[0]].decode()
        body = data[10 + len(header) :]
        for field, values in (("'shape': ", HOSTILE_SHAPES), ("'descr': ", HOSTILE_TYPES)):
            for value in values:
                before, _, after = header.partition(field)
                rest = after[after.index(")") + 1 :] if "shape" in field else after[after.index(", ") :]
                text = f"{before}{field}{value}{rest.rstrip()}\n".encode()
                lie = data[:8] + struct.pack("<H", len(text)) + text + body
                yield Damaged(f"{name} {field}{value[:20]}", _zipped({**members, name: lie}), False)
    for at in (i for i in range(len(content)) if content[i : i + 4] == b"PK\x01\x02"):
        lies = ((8, b"\x01\x00"), (10, b"\x0c\x00"), (10, b"\x63\x00"), (24, b"\xff\xff\xff\x7f"))
        for offset, bits in lies:
            changed = content[: at + offset] + bits + content[at + offset + len(bits) :]
            yield Damaged(f"central directory at {offset}", changed, False)
    yield Damaged("a bomb", _zipped({**members, "z.npy": bytes(1 << 29)}, zipfile.ZIP_DEFLATED), False)


def _zipped(members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return file.getvalue()


def _paths(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = (
        value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    )
    for key, inner in items:
        yield (*above, key)
        yield from _paths(inner, (*above, key))


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value

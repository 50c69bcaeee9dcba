"""Files that are written whole or not at all."""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path


def write_atomically(path: str | Path, content: bytes) -> None:
    """Replace `path` by `content` in one step: a crash or a full disk leaves the old file as it was."""
    target = Path(path)
    draft = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        with draft.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def with_sorted_header(content: bytes) -> bytes:
    """Return a safetensors file with the keys of its header in order: equal content, equal bytes.

    The library writes its metadata in the random order of a hash map.
    """
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.dumps(json.loads(content[8:end]), sort_keys=True, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)  # tensors start at a multiple of 8, as in the original
    return len(header).to_bytes(8, "little") + header + content[end:]

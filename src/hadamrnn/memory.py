"""How much memory there is, and a check before a program asks for more."""

from __future__ import annotations

import os
from pathlib import Path

from hadamrnn.errors import InputError

CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")
UNKNOWN = 8 * 2**30  # assumed where the system does not say


def memory_bytes() -> int:
    """Return the memory of this machine, or of the container that holds the process to less."""
    try:
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        machine = UNKNOWN
    try:
        return min(machine, int(CONTAINER_LIMIT.read_text()))
    except (OSError, ValueError):  # no container, or one without a limit
        return machine


def check_memory(needed: int, what: str, way_out: str) -> None:
    """Refuse `what` if it needs more bytes than there are."""
    present = memory_bytes()
    if needed > present:
        raise InputError(
            f"{what} must fit into {present / 2**30:.1f} GB of memory, but it needs about "
            f"{needed / 2**30:,.1f} GB. {way_out}"
        )

"""Locks: `held` gives one process a run folder, `claim` shares work between machines.

`held` is a lock of the operating system. It ends with its process, even if that is killed, so nothing is left
that blocks the next command. A claim also works on shared file systems, where such locks are not reliable:
its owner refreshes a file while it works.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, SoftFileLease, Timeout

from hadamrnn.errors import InputError

LOCK_NAME = ".lock"
LEASE_SECONDS = 30.0  # without a refresh, after which the owner of a claim is dead


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold `folder` for this block, creating it if need be; raise `InputError` if it is held already."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / LOCK_NAME
    lock = FileLock(path, timeout=0, preserve_lock_file=True, on_acquired=_sign)
    try:
        lock.acquire()
    except Timeout as error:
        raise InputError(
            f"Another process is writing {folder} (process {_signature(path)}). "
            "Wait until it ends or stop it, then repeat the command."
        ) from error
    try:
        yield
    finally:
        lock.release()


def _sign(descriptor: int) -> None:
    """Write the number of this process into the file that it has locked."""
    os.ftruncate(descriptor, 0)
    os.write(descriptor, str(os.getpid()).encode())


def _signature(path: Path) -> str:
    try:
        return path.read_text()[:20] or "unknown"
    except OSError:  # Windows lets nobody read a locked file
        return "unknown"


@contextmanager
def claim(
    folder: Path, name: str, *, patient: bool = False, stop: Callable[[], bool] | None = None
) -> Iterator[SoftFileLease | None]:
    """Yield the claim on `name`, or None if another process has it.

    A claim whose process died on this machine is free at once. One of another machine is free when it has not
    been refreshed for `LEASE_SECONDS`, which only a patient caller finds out. The owner of a claim that was
    taken over sees it by its `compromise`.

    Args:
        stop: asked while waiting; ends the wait.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lease = SoftFileLease(folder / f"{name}.lock", lease_duration=LEASE_SECONDS)
    try:
        lease.acquire(timeout=LEASE_SECONDS + 1 if patient else 0, cancel_check=stop)
    except Timeout:
        yield None
        return
    try:
        yield lease
    finally:
        lease.release()

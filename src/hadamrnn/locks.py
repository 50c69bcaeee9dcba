"""Locks: `held` gives one process a run folder, `claim` shares work between machines.

`held` is a lock of the operating system on one file. It ends with its process, even if that is killed, so
nothing is left that blocks the next command.

A claim also works on shared file systems, where such locks are not reliable. It is a file
NAME.GENERATION.lock, created with O_EXCL, so only one process succeeds. Its owner touches it while it works.
A claim that has not been touched for `STALE_SECONDS` is dead. Another process takes over by creating the next
generation; the highest generation counts. Ages are measured by the file system's own clock, so machines need
not agree on the time.
"""

from __future__ import annotations

import errno
import os
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hadamrnn.errors import InputError

LOCK_NAME = ".lock"
HEARTBEAT_SECONDS = 10.0
STALE_SECONDS = 120.0


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold `folder`, made if need be, for this block; raise `InputError` if another process or block does."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK_NAME).open("a+") as file:
        try:
            _lock(file.fileno())
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
            file.seek(0)
            raise InputError(
                f"Another process is writing {folder} (process {file.read(20) or 'unknown'}). "
                "Wait until it ends or stop it, then repeat the command."
            ) from error
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def _lock(descriptor: int) -> None:
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
    else:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


class Claim:
    """A held claim.

    `lost` asks the file system whether another process has taken over; `seen_lost` is what the last
    heartbeat found, for callers that ask often.
    """

    def __init__(self, folder: Path, name: str, generation: int, token: str) -> None:
        self.folder, self.name, self.generation, self.token = folder, name, generation, token
        self.path = lock_path(folder, name, generation)
        self.seen_lost = False

    @property
    def lost(self) -> bool:
        newest = generations(self.folder, self.name)
        return not newest or newest[-1] != self.generation or read_token(self.path) != self.token

    def beat(self) -> None:
        """Show that the owner is alive, and check that it still owns the claim."""
        with suppress(FileNotFoundError):
            os.utime(self.path)
        self.seen_lost = self.lost

    def release(self) -> None:
        """Release the claim. Its own file is removed last, so it counts until the end."""
        if not self.lost:
            for generation in generations(self.folder, self.name):
                lock_path(self.folder, self.name, generation).unlink(missing_ok=True)


@contextmanager
def claim(folder: Path, name: str, heartbeat_seconds: float = HEARTBEAT_SECONDS) -> Iterator[Claim | None]:
    """Yield the claim on `name`, kept alive by a thread, or None if another process holds it."""
    folder.mkdir(parents=True, exist_ok=True)
    made = acquire(folder, name)
    if made is None:
        yield None
        return
    done = threading.Event()

    def beat() -> None:
        while not done.wait(heartbeat_seconds):
            made.beat()

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        done.set()
        thread.join()
        made.release()


def acquire(folder: Path, name: str) -> Claim | None:
    """Return a claim on `name`, or None if a living one exists.

    The order of the steps makes this safe: create the file, then look again. Of two processes that overlap,
    at least one sees the other's file and backs off.
    """
    top = max(generations(folder, name), default=-1)  # there is no file of generation -1
    newest = lock_path(folder, name, top)
    dead = read_token(newest)
    if top >= 0 and age(newest) < STALE_SECONDS:
        return None
    made = Claim(folder, name, top + 1, secrets.token_hex(8))
    try:
        descriptor = os.open(made.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
    except FileExistsError:
        return None
    with os.fdopen(descriptor, "w") as file:
        file.write(made.token)
    if made.lost or read_token(newest) not in (None, dead):  # the latter was revived
        made.path.unlink(missing_ok=True)
        return None
    return made


def lock_path(folder: Path, name: str, generation: int) -> Path:
    return folder / f"{name}.{generation}.lock"


def generations(folder: Path, name: str) -> list[int]:
    """Return the generations of claims on `name`, ascending."""
    found = (
        path.name[len(name) + 1 : -len(".lock")]
        for path in folder.glob("*.lock")
        if path.name.startswith(f"{name}.")
    )
    return sorted(int(part) for part in found if part.isdecimal())


def read_token(path: Path) -> str | None:
    """Return the owner's token, None if the file is gone."""
    try:
        return path.read_text()
    except FileNotFoundError:
        return None


def age(path: Path) -> float:
    """Return the seconds since `path` was touched, by the file system's clock; 0 if it is gone."""
    probe = path.with_name(f".clock.{secrets.token_hex(8)}")
    try:
        probe.touch()
        return probe.stat().st_mtime - path.stat().st_mtime
    except FileNotFoundError:
        return 0.0
    finally:
        probe.unlink(missing_ok=True)

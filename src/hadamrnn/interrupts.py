"""End a command on SIGINT (Ctrl-C) or SIGTERM with one line and exit status 130 or 143.

`raise_on_signals` is for a whole process, before its slow imports; `stopped_by_signals` is for work that can
stop on request, as training does by writing a checkpoint.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import contextmanager

from hadamrnn.errors import InputError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType
    from typing import NoReturn

SIGNALS = (signal.SIGINT, signal.SIGTERM)
REPEAT = "repeat the command to begin again"


class Interrupted(KeyboardInterrupt):
    """A signal has ended the command; `advice` says how to continue.

    >>> str(Interrupted(signal.SIGINT)), Interrupted(signal.SIGINT).status
    ('stopped by SIGINT; repeat the command to begin again', 130)
    """

    def __init__(self, number: int = signal.SIGINT, advice: str = REPEAT) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}; {advice}")
        self.status = 128 + number


def raise_on_signals() -> None:
    """Make the first signal raise `Interrupted`, so that clean-up runs; the second ends the process at once.

    A signal during an import also ends the process at once, because an exception inside a C module's import
    would end in a traceback.
    """

    def handle(number: int, frame: FrameType | None) -> None:
        for each in SIGNALS:
            signal.signal(each, leave)
        if _is_importing(frame):
            leave(number, frame)
        raise Interrupted(number)

    def leave(number: int, frame: FrameType | None) -> NoReturn:
        interrupted = Interrupted(number)
        os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, f"hadamrnn: {interrupted}\n".encode())
        os._exit(interrupted.status)

    for each in SIGNALS:
        signal.signal(each, handle)


def restore_defaults() -> None:
    """Restore the system's default, so that signals kill the process, once nothing is left to clean up."""
    for each in SIGNALS:
        signal.signal(each, signal.SIG_DFL)


@contextmanager
def stopped_by_signals(advice: Callable[[], str] = lambda: REPEAT) -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether a signal has arrived.

    The block should then finish, and `Interrupted` is raised at its end. A second signal raises at once.
    `advice` tells the user how to continue.
    """
    caught: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        caught.append(number)
        if len(caught) > 1:
            raise Interrupted(number, advice())

    previous = {number: signal.signal(number, handle) for number in SIGNALS}
    try:
        yield lambda: bool(caught)
    except InputError:
        if not caught:
            raise  # after a signal, errors of the unfinished work do not matter
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    if caught:
        raise Interrupted(caught[0], advice())


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False

"""Run cases in a forked process with limits on time and memory, and return their outcomes."""

from __future__ import annotations

import os
import resource
import signal
import traceback
from collections.abc import Callable, Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path

SECONDS = 5  # CPU time, which other work on the machine does not affect
PATIENCE = 60  # seconds of waiting
BYTES = 1 << 30
INTERRUPTED = f"hangs for more than {SECONDS} s"


class TimeOut(BaseException):
    """A case computed for longer than `SECONDS`."""


def run_limited(cases: Sequence[Callable[[], str]]) -> list[str]:
    """Return the result of every case, or what went wrong.

    A case that ends its process is reported as such, and the rest run in a new one. So do the cases after one
    that was interrupted, perhaps while a module was being imported.
    """
    outcomes: list[str] = []
    while len(outcomes) < len(cases):
        receiver, sender = Pipe(duplex=False)
        child = os.fork()
        if child == 0:
            _work(cases[len(outcomes) :], sender)
        sender.close()
        answers = True
        try:
            while len(outcomes) < len(cases):
                if not receiver.poll(PATIENCE):  # the case is waiting, or its alarm had no effect
                    answers = False
                    os.kill(child, signal.SIGKILL)
                outcomes.append(receiver.recv())
                if outcomes[-1] == INTERRUPTED:
                    break
        except EOFError:
            outcomes.append("ends its process" if answers else f"hangs for more than {PATIENCE} s")
        os.waitpid(child, 0)
        receiver.close()
    return outcomes


def _work(cases: Sequence[Callable[[], str]], sender: Connection) -> None:
    """Send the outcome of every case, and leave the process."""

    def expire(number: int, frame: object) -> None:
        raise TimeOut

    try:
        signal.signal(signal.SIGPROF, expire)
        limit = virtual_bytes() + BYTES
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        for case in cases:
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            try:
                outcome = case()
            except TimeOut:
                outcome = INTERRUPTED
            except MemoryError:
                outcome = "takes more than 1 GB"
            except BaseException:
                outcome = "raises: " + traceback.format_exc()[-1500:]
            signal.setitimer(signal.ITIMER_PROF, 0)
            sender.send(outcome)
            if outcome == INTERRUPTED:
                break
    finally:
        os._exit(0)


def virtual_bytes() -> int:
    """Return the size of this process's address space."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()

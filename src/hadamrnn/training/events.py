"""TensorBoard event files, written at once.

tensorboardX's `SummaryWriter` hands events to a thread, where a full disk would go unseen; its
`RecordWriter` underneath writes when it is told to.
"""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from pathlib import Path

from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.record_writer import RecordWriter
from tensorboardX.summary import scalar


class EventLog:
    """Scalars by step, in a new event file of `folder`.

    Args:
        folder: made if need be.
        start_step: where this session begins; TensorBoard drops what earlier files have after it.
    """

    def __init__(self, folder: Path, start_step: int) -> None:
        folder.mkdir(exist_ok=True)
        name = f"events.out.tfevents.{time.time_ns()}.{socket.gethostname()}.{os.getpid()}"
        self._writer = RecordWriter(str(folder / name))
        self._add(Event(wall_time=time.time(), file_version="brain.Event:2"))
        if start_step:
            session = SessionLog(status=SessionLog.START)
            self._add(Event(wall_time=time.time(), step=start_step + 1, session_log=session))

    def write(self, step: int, values: dict[str, float]) -> None:
        for name, value in values.items():
            self._add(Event(wall_time=time.time(), step=step, summary=scalar(name, value)))
        self._writer.flush()

    def close(self) -> None:
        with suppress(OSError):  # every row was flushed: there is nothing left to lose
            self._writer.close()

    def _add(self, event: Event) -> None:
        self._writer.write(event.SerializeToString())

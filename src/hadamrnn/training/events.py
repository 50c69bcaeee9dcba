"""TensorBoard event files, written at once.

tensorboardX's `SummaryWriter` hands events to a thread, where a full disk would go unseen; its
`EventsWriter` underneath writes when it is told to.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.summary import scalar


class EventLog:
    """Scalars by step, in a new event file of `folder`.

    Args:
        folder: made if need be.
        start_step: where this session begins; TensorBoard drops what earlier files have after it.
    """

    def __init__(self, folder: Path, start_step: int) -> None:
        folder.mkdir(exist_ok=True)
        self._writer = EventsWriter(str(folder / "events"), f".{os.getpid()}")
        if start_step:
            session = SessionLog(status=SessionLog.START)
            self._writer.write_event(Event(wall_time=time.time(), step=start_step + 1, session_log=session))
            self._writer.flush()

    def write(self, step: int, values: dict[str, float]) -> None:
        for name, value in values.items():
            self._writer.write_event(Event(wall_time=time.time(), step=step, summary=scalar(name, value)))
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()

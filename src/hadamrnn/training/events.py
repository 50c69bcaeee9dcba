"""TensorBoard event files, where tensorboardX is installed: `pip install 'hadamrnn[tensorboard]'`."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def open_events(folder: Path, start_step: int) -> Any | None:
    """Return a `SummaryWriter` on a new event file in `folder`, or None without tensorboardX.

    Args:
        folder: made if need be.
        start_step: where this session begins; TensorBoard drops what earlier files have after it.
    """
    try:
        from tensorboardX import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder), purge_step=start_step + 1 if start_step else None)

"""The tasks: each loader returns `Splits(train, validation, test)`, in memory. Start at `load_task`.

Names are resolved on first use: the command line reads options from here without importing torch.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hadamrnn.data.splits import Batch as Batch
    from hadamrnn.data.splits import Preparation as Preparation
    from hadamrnn.data.splits import Split as Split
    from hadamrnn.data.splits import Splits as Splits
    from hadamrnn.data.tasks import Task as Task
    from hadamrnn.data.tasks import load_task as load_task
    from hadamrnn.data.tasks import task_names as task_names

_HOME = {
    "Batch": "splits",
    "Preparation": "splits",
    "Split": "splits",
    "Splits": "splits",
    "Task": "tasks",
    "load_task": "tasks",
    "task_names": "tasks",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'hadamrnn.data' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"hadamrnn.data.{_HOME[name]}"), name)

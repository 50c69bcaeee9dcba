"""The tasks: each loader returns `Splits(train, validation, test)`, in memory. Start at `load_task`."""

from hadamrnn.data.splits import Batch, Preparation, Split, Splits
from hadamrnn.data.tasks import Task, load_task, task_names

__all__ = ["Batch", "Preparation", "Split", "Splits", "Task", "load_task", "task_names"]

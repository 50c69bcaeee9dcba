"""The tasks: each loader returns `Splits(train, validation, test)`, in memory. Start at `load_task`."""

from hadamrnn.data.splits import Batch, Preparation, Split, Splits
from hadamrnn.data.tasks import TASKS, load_task

__all__ = ["TASKS", "Batch", "Preparation", "Split", "Splits", "load_task"]

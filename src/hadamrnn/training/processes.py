"""Run in one process, or under torchrun in several data-parallel processes, by lightning-fabric.

Every process takes `batch_size` samples per step and gradients are averaged, so two processes are equivalent
to one with twice the batch size. Start at `join_processes`.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from hadamrnn.errors import missing_package
from hadamrnn.settings import Count, read_text
from hadamrnn.training.evaluate import Objective

AGREE_STEPS = 20  # steps between two agreements of all processes, which take a round trip

LossFunction = Callable[[Tensor, Tensor, Tensor | None], Tensor]


class Processes:
    """A single process, and the interface of several."""

    rank = 0
    count = 1

    def loss_function(self, objective: Objective) -> LossFunction:
        """Return `objective.loss`, with gradients averaged over the processes."""
        return objective.loss

    def mean(self, value: float) -> float:
        """Return the mean of `value` over the processes."""
        return value

    def agree(self, wish: bool, step: int) -> bool:
        """Return whether any process wants to stop after `step` steps; all get the same answer."""
        return wish


class FabricProcesses(Processes):
    """The processes that torchrun started, on one machine or several."""

    def __init__(self, dtype: str) -> None:
        try:
            from lightning_fabric import Fabric
        except ImportError as error:
            raise missing_package("Several processes", "lightning-fabric", "distributed") from error
        self._fabric: Any = Fabric(
            accelerator="cpu",
            strategy="ddp",
            devices=int(os.environ.get("LOCAL_WORLD_SIZE", "1")),
            num_nodes=int(os.environ.get("GROUP_WORLD_SIZE", "1")),
            precision="64-true" if dtype == "float64" else "32-true",
        )
        self._fabric.launch()
        # gloo's threads must end before the interpreter, or they may abort the process.
        atexit.register(torch.distributed.destroy_process_group)
        self.rank = int(self._fabric.global_rank)
        self.count = int(self._fabric.world_size)

    def loss_function(self, objective: Objective) -> LossFunction:
        wrapped = self._fabric.setup_module(objective)
        wrapped.mark_forward_method("loss")
        loss: LossFunction = wrapped.loss
        return loss

    def agree(self, wish: bool, step: int) -> bool:
        return step % AGREE_STEPS == 0 and self.mean(float(wish)) > 0

    def mean(self, value: float) -> float:
        return float(self._fabric.all_reduce(torch.tensor(value, dtype=torch.float64), reduce_op="mean"))


def join_processes(dtype: str) -> Processes:
    """Return the processes of this run: torchrun's if WORLD_SIZE is above 1, or else only this one."""
    count = read_text("WORLD_SIZE", os.environ.get("WORLD_SIZE", "1"), Count)
    return FabricProcesses(dtype) if count > 1 else Processes()

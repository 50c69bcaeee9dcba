"""Adam for small networks: torch's AdamW, computed in the calling thread alone.

torch splits every parameter among its threads, however small it is. Waking them costs more than the step, and
then they spin on the cores that the kernels' own threads need. numpy does neither.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.optimizer import ParamsT

# With a parameter of more numbers than this, torch's threads are worth it.
LARGEST = 1 << 16
DTYPES = (torch.float32, torch.float64)  # that numpy has too


class Adam(torch.optim.AdamW):
    """torch.optim.AdamW with its state and its results, but for rounding; groups name their weight decay."""

    def __init__(self, parameters: ParamsT, *, lr: float, betas: tuple[float, float] = (0.9, 0.999)) -> None:
        super().__init__(parameters, lr, betas, weight_decay=0.0, fused=True)

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        parameters = [parameter for group in self.param_groups for parameter in group["params"]]
        if not all(map(_is_small, parameters)):
            return super().step(closure)
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        with np.errstate(all="ignore"):  # a run that diverges is seen by its loss
            for group in self.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is not None:
                        _step(parameter, self.state[parameter], group)
        return loss


def _is_small(parameter: Tensor) -> bool:
    known = parameter.device.type == "cpu" and parameter.dtype in DTYPES
    return known and parameter.numel() <= LARGEST


def _step(parameter: nn.Parameter, state: dict[str, Tensor], group: dict[str, Any]) -> None:
    """Move a parameter w against its gradient g, at rate r with decay d.

    m = b_1 m + (1 - b_1) g,  v = b_2 v + (1 - b_2) g^2
    w = (1 - r d) w - r m / (1 - b_1^t) / (sqrt(v / (1 - b_2^t)) + epsilon)
    """
    if not state:
        moments = {name: torch.zeros_like(parameter) for name in ("exp_avg", "exp_avg_sq")}
        state.update(step=torch.zeros(()), **moments)
    state["step"] += 1
    time, rate, (beta1, beta2) = state["step"].item(), group["lr"], group["betas"]
    assert parameter.grad is not None
    w, g = parameter.numpy(), parameter.grad.numpy()
    m, v = state["exp_avg"].numpy(), state["exp_avg_sq"].numpy()
    m += (1 - beta1) * (g - m)
    v *= beta2
    v += (1 - beta2) * (g * g)
    spread = np.sqrt(v)
    spread /= (1 - beta2**time) ** 0.5
    spread += group["eps"]
    w *= 1 - rate * group["weight_decay"]
    w -= rate / (1 - beta1**time) * (m / spread)

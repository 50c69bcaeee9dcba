"""An integer model that is called as the float network is: it maps the same inputs to real logits."""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from hadamrnn.fixedpoint.encoding import encode_inputs
from hadamrnn.fixedpoint.engine import Engine
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.nn.normalization import counted


def input_codes(model: IntegerModel, x: Tensor) -> tuple[NDArray[Any], int]:
    """Return a batch of a task as codes or ids of `model`, and how many inputs saturated."""
    inputs = x.detach().cpu().numpy()
    return encode_inputs(model, inputs) if model.input_kind == "dense" else (inputs, 0)


class IntegerNetwork:
    """Logits of an `IntegerModel`, in float64, for inputs and lengths as `SequenceModel` takes them.

    Every figure comes out of the reference engine; torch only carries it. `saturations` counts clipped
    state entries, `input_saturations` clipped inputs.
    """

    def __init__(self, model: IntegerModel, threads: int | None = None) -> None:
        self.model = model
        self.saturations = 0
        self.input_saturations = 0
        self._engine = Engine(model)
        self._threads = threads

    def __call__(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        if lengths is not None and self.model.input_kind == "dense":
            # Padding is never read: whatever it holds, it counts as no clipped input.
            x = x.masked_fill(~counted(x, lengths)[:, :, None], 0)
        codes, clipped = input_codes(self.model, x)
        self.input_saturations += clipped
        result = self._engine.run(codes, None if lengths is None else lengths.numpy(), self._threads)
        self.saturations += result.saturations
        return torch.from_numpy(result.logits).double() * self.model.logit_scale

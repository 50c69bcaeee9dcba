"""Implement one Hadamard layer in one direction, with its latent signs, U and b_i."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from hadamrnn.kernels.backend import constant_tensor, constant_when_traced, derivatives_are_off, widen
from hadamrnn.kernels.methods import run, run_pooled
from hadamrnn.kernels.recurrence import Recurrence, dense_step, fast_product
from hadamrnn.network import Network
from hadamrnn.nn.interface import Tokens, project_tokens
from hadamrnn.nn.linear import initialize_projection
from hadamrnn.nn.straight_through import quantize, sign
from hadamrnn.nn.weight import recurrent_weight

MAX_START = 1 - 2.0**-10  # largest initial value of a trained lambda: the sigmoid still has a gradient


class HadamCell(nn.Module):
    """One layer, one direction: h_t = lambda W(u) h_(t-1) + q(U) x_t + b_i.

    Args:
        input_size, hidden_size: sizes of this cell; the layers of a network may have different sizes.
        network: all other settings: blocks, bits, recurrence, switches, leak, bias.
        train_signs: whether the latent signs require a gradient.
        decay: lambda of each block in turn, instead of the network's leak.
        train_decay: whether to train the lambda of every block, as the sigmoid of a parameter.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        network: Network,
        *,
        train_signs: bool,
        decay: tuple[float, ...] = (),
        train_decay: bool = False,
        device: torch.device | str | None,
        dtype: torch.dtype | None,
    ) -> None:
        super().__init__()
        self.network = network
        self.hidden_size = hidden_size
        self.block_size = hidden_size // network.num_blocks

        def parameter(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(*shape, device=device, dtype=dtype))

        self.input_weight = parameter(hidden_size, input_size)
        self.input_bias = parameter(hidden_size) if network.input_bias else None
        self.latent_signs = parameter(hidden_size)
        self.latent_column_signs = parameter(hidden_size) if network.column_switches else None
        repeated = tuple(decay[block % len(decay)] for block in range(network.num_blocks)) if decay else ()
        self.decays = repeated or network.decays
        self.latent_decay = parameter(network.num_blocks) if train_decay else None
        for latent in self._latents():
            latent.requires_grad_(train_signs)
        self._kept: tuple[Tensor, ...] | None = None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise U and latent signs by Glorot's rule, b_i within +-1/sqrt(hidden_size); reset lambda."""
        initialize_projection(self.input_weight)
        for latent in self._latents():
            nn.init.xavier_uniform_(latent.detach()[None])
        if self.input_bias is not None:
            bound = self.hidden_size**-0.5
            nn.init.uniform_(self.input_bias, -bound, bound)
        if self.latent_decay is not None:
            with torch.no_grad():
                start = self.latent_decay.new_tensor(self.decays or (MAX_START,))
                self.latent_decay.copy_(torch.logit(start.clamp(max=MAX_START)))

    def _apply(self, *arguments: Any, **options: Any) -> HadamCell:
        self._kept = None  # cached matrices have the previous type and device
        return super()._apply(*arguments, **options)  # type: ignore[no-any-return, no-untyped-call]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kept": None}

    @torch.no_grad()
    def draw_signs(self, negative: float) -> None:
        """Make this fraction of the signs negative, at random positions, without changing magnitudes.

        The Sylvester matrix is symmetric, so without negative signs W^2 = I and half of the states simply add
        up their inputs. With k negative row signs, at least d_h/2 - k such states remain.
        """
        count = round(negative * self.hidden_size)
        for latent in self._latents():
            latent.abs_()
            latent[torch.randperm(self.hidden_size, device=latent.device)[:count]] *= -1

    def _latents(self) -> list[nn.Parameter]:
        """Return the latent signs of the rows and, if used, of the columns."""
        latents = (self.latent_signs, self.latent_column_signs)
        return [latent for latent in latents if latent is not None]

    def signs(self) -> Tensor:
        """Return u, entries +-1."""
        return sign(self.latent_signs)

    def column_signs(self) -> Tensor | None:
        """Return v, entries +-1, or None if only rows have signs."""
        return None if self.latent_column_signs is None else sign(self.latent_column_signs)

    @property
    def decay(self) -> Tensor | None:
        """The decay lambda of every unit, in the dtype of the recurrence; None if no block leaks.

        The weights may be float16 or bfloat16, in which 1 - 2^-k would round to 1.
        """
        if self.latent_decay is not None:
            return torch.sigmoid(widen(self.latent_decay)).repeat_interleave(self.block_size)
        if not self.decays:
            return None
        dtype = torch.promote_types(self.input_weight.dtype, torch.float32)
        return _decay_tensor(self.decays, self.block_size, dtype, self.input_weight.device)

    def recurrent_weight(self) -> Tensor:
        """Return the matrix lambda W(u) that multiplies h_(t-1), `(hidden_size, hidden_size)`."""
        weight, decay = recurrent_weight(self.signs(), self.block_size, self.column_signs()), self.decay
        return weight if decay is None else decay[:, None].to(weight.dtype) * weight

    def quantized_weight(self) -> Tensor:
        """Return q(U), `(hidden_size, input_size)`."""
        return quantize(self.input_weight, self.network.weight_bits)

    def run(
        self, x: Tensor | Tokens, readouts: tuple[str, ...] = (), **asked: Any
    ) -> tuple[Tensor | None, Tensor | None]:
        """Return the requested outputs of all steps and each row's last state (None with read-outs).

        Args:
            readouts: some of last, mean, positive and max; see `kernels.methods.run_pooled`.
            asked: further fields of `Recurrence`: h_0, lengths, and one of every_output, output_weight with
                output_bias, or thresholds for read-outs.
        """
        if readouts:
            return run_pooled(self._describe(x, **asked), readouts), None
        return run(self._describe(x, sigma=self.network.recurrence == "linear", **asked))

    def step(self, x_t: Tensor | Tokens, h: Tensor) -> Tensor:
        """Return h_t from x_t `(batch, input_size)`, or ids `(batch,)`, and h_(t-1) `(batch, units)`."""
        if isinstance(x_t, Tensor) and h.dtype == self.input_weight.dtype and derivatives_are_off(h):
            weight, transposed = self._matrices(x_t)
            new = linear(x_t, weight, self.input_bias).add_(h @ transposed)
            return new.relu_() if self.network.recurrence == "relu" else new
        recurrence = self._describe(x_t)
        carried = fast_product(recurrence)(h)
        carried = carried if recurrence.decay is None else carried * recurrence.decay
        new = carried + recurrence.projected()
        return new.relu() if recurrence.relu else new

    def _matrices(self, x_t: Tensor) -> tuple[Tensor, Tensor]:
        """Return q(U) and (lambda W(u))', recomputed if parameters have changed since the last call."""
        every = (self.input_weight, *self._latents(), self.latent_decay)
        own = [parameter for parameter in every if parameter is not None]
        if self._kept is None or not all(map(torch.equal, own, self._kept[2:])):
            weight, transposed = self.quantized_weight(), dense_step(self._describe(x_t))
            self._kept = (weight, transposed, *(parameter.detach().clone() for parameter in own))
        return self._kept[0], self._kept[1]

    def _describe(self, x: Tensor | Tokens, **asked: Any) -> Recurrence:
        """Return this cell's recurrence over x, in the dtype of x, float32 or float64."""
        column_signs = self.column_signs()
        weight = widen(self.quantized_weight())
        bias = None if self.input_bias is None else widen(self.input_bias)
        inputs: dict[str, Tensor | None] = {"weight": weight, "bias": bias}
        if isinstance(x, Tokens):
            inputs = dict(zip(("ids", "weight"), project_tokens(x, weight, bias), strict=True))
        else:
            inputs["x"] = x
        signs, decay = widen(self.signs()), self.decay
        if self.latent_decay is not None and decay is not None:
            # lambda W(u) = W(lambda u), so the gradient reaches lambda through the signs.
            signs, decay = signs * decay, torch.ones_like(decay.detach())
        return Recurrence(
            signs=signs,
            block_size=self.block_size,
            decay=decay,
            relu=self.network.recurrence == "relu",
            column_signs=None if column_signs is None else widen(column_signs),
            **inputs,  # type: ignore[arg-type]
            **asked,
        )


@constant_when_traced
def _decay_tensor(
    decays: tuple[float, ...], block_size: int, dtype: torch.dtype, device: torch.device
) -> Tensor:
    return constant_tensor(np.repeat, (decays, block_size), dtype, device)

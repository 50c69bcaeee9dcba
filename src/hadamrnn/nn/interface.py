"""What `SequenceModel` and the training loop ask of a recurrent layer that is more than a plain torch one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn
from torch.nn.functional import linear

from hadamrnn.kernels.backend import full_precision
from hadamrnn.nn.inputs import Tokens


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Keep a module in evaluation mode for this block."""
    was_training = module.training
    module.eval()
    try:
        yield
    finally:
        module.train(was_training)


class RecurrentLayer(nn.Module, ABC):
    """A recurrent layer that takes tokens and lengths, and can give the last state alone.

    Batch first throughout. `input_size` and `output_size` are the widths of what it reads and gives;
    `needs_activation` says whether the read-out applies sigma to its outputs (linear recurrences) or not.
    """

    input_size: int
    output_size: int
    needs_activation: bool

    @abstractmethod
    def every_state(self, x: Tensor | Tokens, lengths: Tensor | None = None) -> Tensor:
        """Return the states of all steps, `(batch, time, output_size)`, zero past a row's length."""

    @abstractmethod
    def end_state(self, x: Tensor | Tokens, lengths: Tensor | None = None) -> Tensor:
        """Return the state at each row's end, `(batch, output_size)`."""

    def every_readout(
        self, x: Tensor | Tokens, weight: Tensor, bias: Tensor | None, lengths: Tensor | None = None
    ) -> Tensor:
        """Return V sigma(h_t) + b_o for all steps, `(batch, time, len(weight))`; a layer may fuse the two."""
        states = self.every_state(x, lengths)
        with full_precision(weight):
            return linear(states.relu() if self.needs_activation else states, weight, bias)


class Constrained(ABC):
    """A layer whose parameters must stay in a set that the optimizer knows nothing about."""

    @abstractmethod
    def constrain(self, progress: float) -> None:
        """Bring the parameters back into their set; called after every step of the optimizer.

        `progress` is the share of the run that is done, in (0, 1].
        """

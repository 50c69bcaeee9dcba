"""The search space: all networks of a family that fit a budget, found by formula before any training.

Hidden sizes are 2^n and 3 2^n from 8 to 4096, in blocks of 2^k >= 4; U and V are ternary or have 2 to 8 bits,
states 8 to 12. Start at `Space`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from hadamrnn.bits import WeightBits, stored_bits
from hadamrnn.errors import InputError
from hadamrnn.fixedpoint.cost import network_size
from hadamrnn.network import Network
from hadamrnn.training.config import TrainingConfig

HIDDEN_SIZES = tuple(sorted({8 << n for n in range(10)} | {24 << n for n in range(8)}))
WEIGHT_BITS: tuple[WeightBits, ...] = ("ternary", 2, 3, 4, 6, 8)
ACTIVATION_BITS = (8, 10, 12)
SMALLEST_BLOCK = 4
RATE_RANGE = 10.0  # learning rates are tried from a tenth to ten times the preset's


CHOICES = ("hidden_size", "num_blocks", "weight_bits", "activation_bits")  # where candidates differ


def payload_bytes(network: Network) -> int:
    """Return the weight payload of the integer file; an embedding table is not in it.

    Sizes are multiples of 8, so every tensor but b_o fills whole bytes and the sum is rounded up once.
    """
    return -(-network_size(network).bits // 8)


@dataclass(frozen=True)
class Budget:
    max_bytes: int
    max_instructions: int | None = None


class Space:
    """The candidates within a budget, and how a trial draws one of them.

    Args:
        network: the task's; candidates differ from it in `CHOICES`.
        instructions: the estimated instructions of a candidate's step.
    """

    def __init__(self, network: Network, budget: Budget, instructions: Callable[[Network], int]) -> None:
        self.budget, self.instructions = budget, instructions
        self.family = every_candidate(network)
        if not self.candidates:
            raise InputError(self._smallest())

    @cached_property
    def candidates(self) -> tuple[Network, ...]:
        """All that fit, by bits, then size, then the number of blocks."""
        return tuple(filter(self.fits, self.family))

    def fits(self, candidate: Network) -> bool:
        most = self.budget.max_instructions
        fits = payload_bytes(candidate) <= self.budget.max_bytes
        return fits and (most is None or self.instructions(candidate) <= most)

    def draw(self, trial: Any) -> Network:
        """Return the candidate of an optuna trial. Each choice leaves only candidates that fit.

        Within a study categories must not change, but ranges of integers may.
        """
        found = {each.weight_bits for each in self.candidates}
        chosen = trial.suggest_categorical("weight_bits", [bits for bits in WEIGHT_BITS if bits in found])
        left = [each for each in self.candidates if each.weight_bits == chosen]
        for name in ("activation_bits", "hidden_size", "num_blocks"):
            values = sorted({getattr(each, name) for each in left})
            value = values[trial.suggest_int(f"{name}_index", 0, len(values) - 1)]
            left = [each for each in left if getattr(each, name) == value]
        return left[0]

    def indices(self, candidate: Network) -> dict[str, Any]:
        """Return the parameters with which `draw` gives `candidate`."""
        left = [each for each in self.candidates if each.weight_bits == candidate.weight_bits]
        found: dict[str, Any] = {"weight_bits": candidate.weight_bits}
        for name in ("activation_bits", "hidden_size", "num_blocks"):
            values = sorted({getattr(each, name) for each in left})
            found[f"{name}_index"] = values.index(getattr(candidate, name))
            left = [each for each in left if getattr(each, name) == getattr(candidate, name)]
        return found

    def guess(self, preset: TrainingConfig) -> Network:
        """Return the candidate closest to a preset's network: its bits if they fit, then the largest size."""

        def distance(candidate: Network) -> tuple[int, ...]:
            wanted = preset.network.weight_bits if isinstance(preset.network.weight_bits, int) else 4
            bits = abs(stored_bits(candidate.weight_bits) - wanted)
            size = abs(candidate.hidden_size - preset.network.hidden_size)
            return bits, -(candidate.activation_bits or 0), size, candidate.num_blocks

        return min(self.candidates, key=distance)

    def _smallest(self) -> str:
        """Return which budget is too small, and what it would need."""
        least = min(self.family, key=payload_bytes)
        needed = payload_bytes(least)
        if needed > self.budget.max_bytes:
            return (
                f"No network of this task fits {self.budget.max_bytes} bytes: the smallest has {least} and "
                f"takes {needed} bytes. Give --max-bytes {needed} or more."
            )
        small = [each for each in self.family if payload_bytes(each) <= self.budget.max_bytes]
        fewest = min(map(self.instructions, small))
        return (
            f"No network of {self.budget.max_bytes} bytes makes a step in {self.budget.max_instructions} "
            f"instructions: the quickest takes {fewest}. Give --max-instructions {fewest} or more."
        )


def every_candidate(network: Network) -> list[Network]:
    """Return the whole family, whatever the budget; all layers of a stack have the same width."""
    network = replace(network, layer_sizes=())
    return [
        replace(network, hidden_size=size, num_blocks=blocks, weight_bits=bits, activation_bits=states)
        for bits in WEIGHT_BITS
        for states in ACTIVATION_BITS
        for size in HIDDEN_SIZES
        for blocks in range(1, size // SMALLEST_BLOCK + 1)
        if size % blocks == 0 and (size // blocks).bit_count() == 1
    ]


def draw_rates(trial: Any, preset: TrainingConfig) -> dict[str, Any]:
    """Return the learning rates of a trial, and whether its signs learn, as fields of `TrainingConfig`."""
    low, high = preset.learning_rate / RATE_RANGE, preset.learning_rate * RATE_RANGE
    rates: dict[str, Any] = {"learning_rate": trial.suggest_float("learning_rate", low, high, log=True)}
    if trial.suggest_categorical("signs", ["held", "learnt"]) == "held":
        return {**rates, "sign_freeze_epoch": 0.0, "sign_learning_rate": None}
    signs = trial.suggest_float("sign_learning_rate", low, high, log=True)
    return {**rates, "sign_freeze_epoch": None, "sign_learning_rate": signs}

"""Define the search space: all candidates that fit a budget, computed before any training.

Hidden sizes are 2^n and 3 2^n from 8 to 4096, in blocks of 2^k >= 4. U and V are ternary or have 2 to 8 bits,
and states have 8 to 12 bits. The instructions of a step on a Cortex-M4 are counted in an emulator, or
estimated if its tools are missing. Start at `SearchSpace`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from hadamrnn.architecture import WeightBits, stored_bits
from hadamrnn.errors import InputError
from hadamrnn.export.targets import target_named, try_measure
from hadamrnn.fixedpoint.cost import Device, Load, estimate, network_size
from hadamrnn.fixedpoint.drawn import draw_model
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.network import Network, hadamard
from hadamrnn.training.config import TrainingConfig

HIDDEN_SIZES = tuple(sorted({8 << n for n in range(10)} | {24 << n for n in range(8)}))
WEIGHT_BITS: tuple[WeightBits, ...] = ("ternary", 2, 3, 4, 6, 8)
ACTIVATION_BITS = (8, 10, 12)
SMALLEST_BLOCK = 4
RATE_RANGE = 10.0  # learning rates range from a tenth to ten times the preset's
SEARCHED_FIELDS = ("weight_bits", "activation_bits", "hidden_size", "num_blocks")
BOARD = "cortex-m4"
NO_LIMITS = Device()
ESTIMATE_MARGIN = 1.15  # one of 209 random networks took 14 % more instructions than estimated


@dataclass(frozen=True)
class Budget:
    """The budget of a network.

    Args:
        max_bytes: limit on the bytes of weights.
        max_instructions: limit on the instructions of a step on a Cortex-M4.
        device: limits for the network and its windows of `window` steps every `hop`.
    """

    max_bytes: int
    max_instructions: int | None = None
    device: Device = NO_LIMITS
    window: int = 1
    hop: int = 1

    @property
    def counts(self) -> bool:
        """Whether the budget limits instructions."""
        return self.max_instructions is not None or self.device.rate is not None

    def fits(self, candidate: Network) -> bool:
        return network_size(candidate).bytes <= self.max_bytes and not self.excesses(candidate)

    def excesses(self, candidate: Network, step: int | None = None) -> list[str]:
        """Return the budgets that a candidate exceeds; estimated instructions are increased by 15 %."""
        taken, found = estimate(candidate) if step is None else step, []
        if self.max_instructions is not None and taken > self.max_instructions:
            found.append(f"a step takes {taken:,} instructions, not {self.max_instructions:,}")
        if self.device == Device(clock=self.device.clock):
            return found
        sure = round(ESTIMATE_MARGIN * taken) if step is None else step
        return found + Load.of(candidate, self.window, self.hop, sure).excesses(self.device)


class SearchSpace:
    """The candidates within a budget; each trial trains one of them.

    Args:
        network: the task's network; candidates differ from it in `SEARCHED_FIELDS`.
    """

    def __init__(self, network: Network, budget: Budget) -> None:
        every = all_candidates(network)
        self.candidates = tuple(filter(budget.fits, every))
        if not self.candidates:
            raise InputError(_budget_too_small(every, budget))

    def suggest(self, trial: Any) -> Network:
        """Return the candidate of an optuna trial.

        A parameter is an index into the values of a field among the remaining candidates. optuna forbids
        categories that change within a study, but allows changing ranges of integers.
        """
        return self._choose(lambda name, values: trial.suggest_int(name, 0, len(values) - 1))

    def indices(self, candidate: Network) -> dict[str, int]:
        """Return the parameters for which `suggest` returns `candidate`."""
        found: dict[str, int] = {}

        def index(name: str, values: list[Any]) -> int:
            found[name] = values.index(getattr(candidate, name))
            return found[name]

        self._choose(index)
        return found

    def preset_parameters(self, preset: TrainingConfig) -> dict[str, Any]:
        """Return the parameters of a trial that is as close to the preset as the budget allows."""
        signs = "frozen" if preset.sign_freeze_epoch == 0 else "learned"
        indices = self.indices(self.nearest(hadamard(preset.network)))
        return {**indices, "learning_rate": preset.learning_rate, "signs": signs}

    def nearest(self, network: Network) -> Network:
        """Return the candidate closest to a network, first in bits, then in size."""
        wanted = network.weight_bits if isinstance(network.weight_bits, int) else 4

        def distance(candidate: Network) -> tuple[int, ...]:
            bits = abs(stored_bits(candidate.weight_bits) - wanted)
            size = abs(candidate.hidden_size - network.hidden_size)
            return bits, -(candidate.activation_bits or 0), size, candidate.num_blocks

        return min(self.candidates, key=distance)

    def _choose(self, index: Callable[[str, list[Any]], int]) -> Network:
        """Return the candidate that `index` selects field by field."""
        left = list(self.candidates)
        for name in SEARCHED_FIELDS:
            values = list(dict.fromkeys(getattr(each, name) for each in left))
            value = values[index(name, values)]
            left = [each for each in left if getattr(each, name) == value]
        return left[0]


def _budget_too_small(every: list[Network], budget: Budget) -> str:
    """Return an error message that names the budget that is too small and the least value that works."""
    smallest = min(every, key=lambda each: network_size(each).bytes)
    needed = network_size(smallest).bytes
    if needed > budget.max_bytes:
        return (
            f"No network of this task fits {budget.max_bytes} bytes: the smallest has {smallest} and "
            f"takes {needed} bytes. Give --max-bytes {needed} or more."
        )
    within = [each for each in every if network_size(each).bytes <= budget.max_bytes]
    fewest = min(map(estimate, within))
    if budget.max_instructions is not None and fewest > budget.max_instructions:
        return (
            f"No network of {budget.max_bytes} bytes makes a step in {budget.max_instructions} "
            f"instructions: the quickest takes {fewest}. Give --max-instructions {fewest} or more."
        )
    lightest = min(within, key=estimate)
    return (
        f"No network of {budget.max_bytes} bytes fits the device, not even {lightest}: "
        f"{'; '.join(budget.excesses(lightest))}. Allow more."
    )


def all_candidates(network: Network) -> list[Network]:
    """Return the candidates of every size; all layers of a stack have the same width.

    A candidate with fewer blocks than values of `leak` uses the first values.
    """
    network = replace(network, layer_sizes=())
    return [
        replace(
            network,
            hidden_size=size,
            num_blocks=blocks,
            leak=network.leak[:blocks],
            weight_bits=bits,
            activation_bits=states,
        )
        for bits in WEIGHT_BITS
        for states in ACTIVATION_BITS
        for size in HIDDEN_SIZES
        for blocks in range(1, size // SMALLEST_BLOCK + 1)
        if size % blocks == 0 and (size // blocks).bit_count() == 1
    ]


def suggest_rates(trial: Any, preset: TrainingConfig) -> dict[str, Any]:
    """Return the learning rates of a trial, and whether it trains signs, as fields of `TrainingConfig`."""
    low, high = preset.learning_rate / RATE_RANGE, preset.learning_rate * RATE_RANGE
    rates: dict[str, Any] = {"learning_rate": trial.suggest_float("learning_rate", low, high, log=True)}
    if trial.suggest_categorical("signs", ["frozen", "learned"]) == "frozen":
        return {**rates, "sign_freeze_epoch": 0.0, "sign_learning_rate": None}
    signs = trial.suggest_float("sign_learning_rate", low, high, log=True)
    return {**rates, "sign_freeze_epoch": None, "sign_learning_rate": signs}


def count(network: Network, model: IntegerModel | None = None) -> int | str:
    """Count the instructions of a step, by default of a random model; return a message if that fails."""
    found = try_measure(model or draw_model(network), target_named(BOARD))
    if isinstance(found, str):
        return found
    return found.step + (found.readout if network.every_output else 0)

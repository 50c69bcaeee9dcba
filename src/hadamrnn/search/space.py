"""The search space: all networks of a family that fit a budget, found by formula before any training.

Hidden sizes are 2^n and 3 2^n from 8 to 4096, in blocks of 2^k >= 4; U and V are ternary or have 2 to 8 bits,
states 8 to 12. Start at `Space`. A step on a Cortex-M4 is counted in an emulator, or estimated without tools:

    layer    = d_h (16.4 + 1.32 k + [2.5 if k is odd] + [3.75 + c_p d_in] + extra)     blocks of 2^k
    extra    = [2.5 for one leak, 10 for several] + [9 for gains] + 8 for each pooled feature
    read-out = d_out (15.6 + r_p d_h)                       added if every step is read out

The bracket with d_in is for two dense channels or more; an odd k rounds by a product. A layer above a stride
counts once in that many steps. The constants were fitted to counts (`gcc -O2`, packed weights, QEMU, as in
docs/edge.md) of 80 networks with 16 to 1024 units, blocks of 4 to 1024, 1 to 45 channels, `extra` to 28
networks that forget, count and stack. From 16 units on the estimate is within 10 % of the count, of three
layers within 15 %.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from hadamrnn.bits import WeightBits, stored_bits
from hadamrnn.errors import InputError
from hadamrnn.export.targets import target_named, try_measure
from hadamrnn.fixedpoint.cost import network_size
from hadamrnn.fixedpoint.drawn import draw_model
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.network import Network, features_per_unit
from hadamrnn.training.config import TrainingConfig

HIDDEN_SIZES = tuple(sorted({8 << n for n in range(10)} | {24 << n for n in range(8)}))
WEIGHT_BITS: tuple[WeightBits, ...] = ("ternary", 2, 3, 4, 6, 8)
ACTIVATION_BITS = (8, 10, 12)
SMALLEST_BLOCK = 4
RATE_RANGE = 10.0  # learning rates are tried from a tenth to ten times the preset's
CHOICES = ("hidden_size", "num_blocks", "weight_bits", "activation_bits")  # where candidates differ
BOARD = "cortex-m4"
PER_UNIT, PER_STAGE, PER_PRODUCT_ROUNDING, PER_DENSE_UNIT, PER_OUTPUT = 16.4, 1.32, 2.5, 3.75, 15.6
PER_SINGLE_LEAK, PER_LEAK, PER_GAIN, PER_POOLED = 2.5, 10.0, 9.0, 8.0
PER_CHANNEL: dict[WeightBits, float] = {"ternary": 3.1, 2: 3.1, 3: 4.2, 4: 3.83, 6: 5.1, 8: 2.7}  # c_p
PER_PRODUCT: dict[WeightBits, float] = {"ternary": 3.82, 2: 3.82, 3: 4.2, 4: 4.07, 6: 4.43, 8: 3.33}  # r_p


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
    """

    def __init__(self, network: Network, budget: Budget) -> None:
        self.budget = budget
        self.family = every_candidate(network)
        # By bits, then size, then the number of blocks.
        self.candidates = tuple(filter(self.fits, self.family))
        if not self.candidates:
            raise InputError(self._smallest())

    def fits(self, candidate: Network) -> bool:
        most = self.budget.max_instructions
        fits = payload_bytes(candidate) <= self.budget.max_bytes
        return fits and (most is None or estimate(candidate) <= most)

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
        fewest = min(map(estimate, small))
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


def estimate(network: Network) -> int:
    """Return the estimated instructions of a step, on average over the steps that a stride skips."""
    step = sum(
        units * _unit_cost(network, layer, size_read) / float(network.stride) ** layer
        for layer, (units, size_read) in enumerate(zip(network.widths, network.cell_input_sizes, strict=True))
    )
    if network.every_output:
        row = PER_OUTPUT + PER_PRODUCT[network.weight_bits] * network.hidden_size
        step += network.output_size * row
    return round(step)


def _unit_cost(network: Network, layer: int, size_read: int) -> float:
    """Return the instructions of one unit of a layer that reads `size_read` numbers."""
    stages = (network.widths[layer] // network.num_blocks).bit_length() - 1
    cost = PER_UNIT + PER_STAGE * stages + PER_PRODUCT_ROUNDING * (stages % 2)
    if size_read > 1 and (layer > 0 or network.input_kind != "one_hot"):
        cost += PER_DENSE_UNIT + PER_CHANNEL[network.weight_bits] * size_read
    if network.block_leaks:
        cost += PER_LEAK if len(set(network.block_leaks)) > 1 else PER_SINGLE_LEAK
    if layer < network.num_layers - 1:
        return cost + (PER_GAIN if network.scales_layers else 0.0)
    pooled = [kind for kind in network.readouts if kind != "last"]
    return cost + PER_POOLED * features_per_unit(pooled, network.thresholds)


def count(network: Network, model: IntegerModel | None = None) -> int | str:
    """Return the counted instructions of a step, or why there is no count; by default of a drawn model."""
    found = try_measure(model or draw_model(network), target_named(BOARD))
    if isinstance(found, str):
        return found
    return found.step + (found.readout if network.every_output else 0)

"""Compare estimated with counted instructions per step, on networks that the estimate was not fitted to.

Start at `run_instructions`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hadamrnn.errors import InputError
from hadamrnn.fixedpoint.cost import estimate
from hadamrnn.network import Network
from hadamrnn.search.space import count


@dataclass(frozen=True)
class InstructionRow:
    network: str
    estimated: int
    counted: int

    @property
    def error(self) -> float:
        """The estimate's relative error."""
        return self.estimated / self.counted - 1


def draw_networks(networks: int, seed: int = 0) -> list[Network]:
    """Return random networks of 4 to 512 units and 1 to 16 channels; most leak, pool or have two layers."""
    rng = np.random.default_rng(seed)
    found: list[Network] = []
    while len(found) < networks:
        block = 1 << int(rng.integers(2, 8))
        blocks = int(rng.integers(1, max(512 // block, 1) + 1))
        shape: dict[str, Any] = {"num_blocks": blocks}
        if rng.random() < 0.4:
            shape["leak"] = tuple(rng.integers(1, 6, blocks).tolist())
        if rng.random() < 0.3:
            shape |= {"readouts": ("mean", "max")} if rng.random() < 0.5 else {"readouts": ("last", "mean")}
        if rng.random() < 0.25:
            shape |= {
                "num_layers": 2,
                "stride": int(rng.choice([1, 2])),
                "normalize": bool(rng.random() < 0.5),
            }
        bits: Any = rng.choice(np.array(["ternary", 2, 3, 4, 5, 6, 8], object))
        states, channels = int(rng.choice([8, 10, 12])), int(rng.integers(1, 17))
        try:
            found.append(
                Network(channels, block * blocks, 6, weight_bits=bits, activation_bits=states, **shape)
            )
        except InputError:  # the random shapes are incompatible
            continue
    return found


def run_instructions(networks: int = 40, seed: int = 1) -> list[InstructionRow]:
    """Return a row for each network."""
    rows = []
    for network in draw_networks(networks, seed):
        counted = count(network)
        if isinstance(counted, str):
            raise InputError(f"Instructions are counted in an emulator: {counted}.")
        rows.append(InstructionRow(str(network), estimate(network), counted))
    return rows


def summary(rows: list[InstructionRow]) -> str:
    """Summarise the errors of the estimates in words."""
    errors = np.sort([abs(row.error) for row in rows])
    within = int((errors <= 0.15).sum())
    return (
        f"{within} of {len(rows)} networks within 15 %; half of them within "
        f"{np.median(errors):.1%}, the worst {errors[-1]:.1%} off"
    )

"""The memorization experiment of Appendix G.2.2: how much does the last state depend on x_t?

    e_t = || h_T(x_1, ..., x_T) - h_T(x_1, ..., x_t + (1, 0), ..., x_T) ||        f_t: with (0, 1)

h_T is the state of a linear and of a ReLU recurrence with the same W = S / sqrt(d_h) and U ~ N(0, 1), without
bias; x is a random walk. Linear: e_t = ||U (1, 0)'|| for every t, since W is orthogonal. ReLU: e_t fades
with T - t.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from hadamrnn.errors import InputError
from hadamrnn.files import read_json
from hadamrnn.nn.rnn import HadamRNN
from hadamrnn.settings import from_json
from hadamrnn_paper.results import ADVICE, FORMAT_VERSION, write_fields

FORMAT = "hadamrnn memorization"
FILE_NAME = "memorization.json"
DIGITS = 8


@dataclass(frozen=True)
class Memorization:
    """The four curves, one figure for each t = 1 ... T; names as in the paper's equations (18) and (19)."""

    seed: int
    hidden_size: int
    seq_length: int
    e_linear: list[float]
    f_linear: list[float]
    e_relu: list[float]
    f_relu: list[float]

    def __post_init__(self) -> None:
        for curve in (self.e_linear, self.f_linear, self.e_relu, self.f_relu):
            if len(curve) != self.seq_length or not all(map(math.isfinite, curve)):
                raise InputError(f"Each curve must hold {self.seq_length} finite numbers.")


def run_memorization(seed: int = 0, hidden_size: int = 128, seq_length: int = 200) -> Memorization:
    """Run the experiment, in float64.

    >>> found = run_memorization(hidden_size=16, seq_length=30)
    >>> max(found.e_linear) - min(found.e_linear) < 1e-6 and min(found.e_relu) < max(found.e_relu)
    True
    """
    generator = torch.Generator().manual_seed(seed)
    walk = torch.randn(seq_length, 2, generator=generator, dtype=torch.float64).cumsum(0)
    input_weight = torch.randn(hidden_size, 2, generator=generator, dtype=torch.float64)
    curves: dict[str, list[float]] = {}
    for recurrence in ("linear", "relu"):
        for axis, name in enumerate("ef"):
            states = last_states(recurrence, input_weight, perturbed(walk, axis))
            distances = torch.linalg.vector_norm(states[1:] - states[0], dim=1).tolist()
            curves[f"{name}_{recurrence}"] = [float(f"{distance:.{DIGITS}g}") for distance in distances]
    return Memorization(seed, hidden_size, seq_length, **curves)


def perturbed(walk: Tensor, axis: int) -> Tensor:
    """Return the walk in row 0, and in row t the walk with 1 added to x_t along `axis`: `(T + 1, T, 2)`."""
    steps = len(walk)
    rows = walk.expand(steps + 1, steps, 2).clone()
    rows[torch.arange(1, steps + 1), torch.arange(steps), axis] += 1
    return rows


def last_states(recurrence: str, input_weight: Tensor, rows: Tensor) -> Tensor:
    """Return h_T of every row, `(rows, hidden_size)`, with u = 1 and b_i = 0."""
    hidden_size, input_size = input_weight.shape
    layer = HadamRNN(
        input_size, hidden_size, batch_first=True, weight_bits=None, recurrence=recurrence
    ).double()
    cell = layer.cell(0)
    assert cell.input_bias is not None
    with torch.no_grad():
        cell.latent_signs.fill_(1)
        cell.input_weight.copy_(input_weight)
        cell.input_bias.zero_()
        states: Tensor = layer.end_state(rows)
    return states


def write_memorization(folder: Path, found: Memorization) -> Path:
    return write_fields(folder / FILE_NAME, FORMAT, asdict(found))


def read_memorization(folder: Path) -> Memorization | None:
    """Read the result of the experiment; return None if it has not run."""
    path = folder / FILE_NAME
    if not path.is_file():
        return None
    return from_json(Memorization, read_json(path, FORMAT, FORMAT_VERSION, ADVICE), path)

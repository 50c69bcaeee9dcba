"""The integer network: everything a device needs, in integers.

`IntegerModel` is where training ends and deployment begins: `quantization.lowering` makes one, the
reference engine runs it, the exporters print it. One step of it, with b = `block_size`:

    a     = u * H (v * h)                                              exact
    acc   = (a << state_shift) + shift(U x, input_shift) + (b_i << input_bias_shift)
    h     = saturate(round(acc * round_multiplier / 2^round_shift))    to activation_bits
    h     = max(h, 0)                                                  recurrence "relu" only
    logit = V max(h, 0) + (b_o << output_bias_shift)

`round` takes ties towards +infinity: (y + 2^(s-1)) >> s. A negative `input_shift` is such a rounded right
shift. u is `signs`, v is `column_signs` (ones when None), H the block-diagonal Hadamard matrix
I kron `orders.hadamard_matrix(block_size)`. A product of acc with `round_multiplier` needs 64 bits, all
else fits 32: `__post_init__` proves it, and refuses a model for which it cannot.
Start reading at the fields; `overflow.py` holds the proof.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from hadamrnn.bits import stored_bits
from hadamrnn.errors import InputError, check_int
from hadamrnn.fixedpoint.overflow import prove_input, prove_readout, prove_recurrence
from hadamrnn.fixedpoint.validation import check_array, check_metadata, check_scale
from hadamrnn.network import Network, check_paper_form

if TYPE_CHECKING:
    from hadamrnn.fixedpoint.file import FileSize

WeightBits = int | Literal["ternary"]
Metadata = Mapping[str, str | int | float | bool]

MULTIPLIER_BITS = 16


@dataclass(frozen=True, eq=False)
class IntegerModel:
    """A network of integers and shifts. Arrays are read-only; the floats are for the reader only.

    Input of one step, by `input_kind`:
        "dense":    codes x of input_bits, one per channel. A sensor's raw int32 codes r become
                    x = saturate(round((r - raw_offset) * raw_multiplier / 2^raw_shift)), see `encoding`;
        "one_hot":  the index j of the hot channel; input_bits is 2 and x is 1 at j, so U x = U[:, j];
        "embedded": a token id; x = embedding_int[id].

    Scales, for who wants real numbers: real logit = logit * logit_scale; a real input value v of a dense
    model has x = round(v * 2^(input_bits - 1) / input_scale).
    """

    network: Network  # sizes, bits and kind; its activation_bits, 2..16, are the states' and biases'
    input_bits: int  # 2..16

    signs: NDArray[np.int8]  # u, +-1, (hidden_size,)
    input_weight_int: NDArray[np.int8]  # U, (hidden_size, input_size)
    output_weight_int: NDArray[np.int8]  # V, (output_size, hidden_size)
    output_bias_int: NDArray[np.int16]  # b_o, (output_size,), activation_bits

    hidden_shift: int  # n_h: alpha_W alpha_h = 2^n_h
    accumulator_frac_bits: int  # F: acc counts in units of 2^-F
    input_bias_shift: int  # s3
    output_bias_shift: int  # s_o

    input_scale: float  # alpha_i
    logit_scale: float  # alpha_i alpha_U alpha_V alpha_h / 2^(weight_frac_bits + activation_bits - 1)

    input_bias_int: NDArray[np.int16] | None = None  # b_i, (hidden_size,), activation_bits
    column_signs: NDArray[np.int8] | None = None  # v of "rows+columns", +-1, (hidden_size,)
    embedding_int: NDArray[np.int16] | None = None  # (vocabulary, input_size), input_bits; "embedded" only
    raw_offset: NDArray[np.int32] | None = None  # (input_size,); "dense" only; None: x = saturate(r)
    raw_multiplier: NDArray[np.int32] | None = None  # (input_size,), below 2^16 in magnitude
    raw_shift: NDArray[np.int32] | None = None  # (input_size,), 0..46
    metadata: Metadata = field(default_factory=dict)  # task, metrics, version

    def __post_init__(self) -> None:
        self._check_sizes()
        self._check_arrays()
        self._check_inputs()
        object.__setattr__(self, "metadata", check_metadata(self.metadata))
        prove_input(self)
        prove_recurrence(self)
        prove_readout(self)

    def __eq__(self, other: object) -> bool:
        """Two models are equal when every field is: the same integers, the same metadata."""
        if not isinstance(other, IntegerModel):
            return NotImplemented
        return all(_same(getattr(self, f.name), getattr(other, f.name)) for f in fields(self))

    __hash__ = None  # type: ignore[assignment]

    @staticmethod
    def load(path: Path | str) -> IntegerModel:
        """Read a model that `save` or `hadamrnn quantize` wrote; anything else raises `InputError`."""
        from hadamrnn.fixedpoint.file import load

        return load(path)

    def save(self, path: Path | str) -> FileSize:
        """Write the model to `path`, whole or not at all; return what it takes."""
        from hadamrnn.fixedpoint.file import save

        return save(self, path)

    @property
    def hidden_size(self) -> int:
        return self.network.hidden_size

    @property
    def block_size(self) -> int:
        return self.network.block_size

    @property
    def num_blocks(self) -> int:
        return self.network.num_blocks

    @property
    def input_size(self) -> int:
        return self.network.input_size

    @property
    def output_size(self) -> int:
        return self.network.output_size

    @property
    def weight_bits(self) -> WeightBits:
        """2..8, or "ternary" (codes -1, 0, 1)."""
        return cast(WeightBits, self.network.weight_bits)

    @property
    def activation_bits(self) -> int:
        assert self.network.activation_bits is not None  # held by _check_sizes
        return self.network.activation_bits

    @property
    def recurrence(self) -> str:
        return self.network.recurrence

    @property
    def every_output(self) -> bool:
        """Read out after every step, or after the last one."""
        return self.network.every_output

    @property
    def input_kind(self) -> str:
        return self.network.input_kind

    @property
    def weight_storage_bits(self) -> int:
        """Bits that one code of U or V takes in the file: ternary counts as 2."""
        return stored_bits(self.weight_bits)

    @property
    def weight_frac_bits(self) -> int:
        """p - 1: U = alpha_U U_int / 2^(p-1); a ternary U is alpha_U U_int."""
        return 0 if self.weight_bits == "ternary" else self.weight_bits - 1

    @property
    def state_shift(self) -> int:
        """s1 = F - (p_a - n_h) >= 0, the left shift of the recurrent product."""
        return self.accumulator_frac_bits - (self.activation_bits - self.hidden_shift)

    @property
    def input_shift(self) -> int:
        """s2 = F - (p + p_i - 2), the left shift of U x; negative: a rounded right shift by -s2."""
        return self.accumulator_frac_bits - (self.weight_frac_bits + self.input_bits - 1)

    @property
    def round_multiplier(self) -> int:
        """1 when sqrt(block_size) is a power of two, 46341 for the other powers of two, else 16 bits."""
        return rounding_factor(self.block_size)[0]

    @property
    def round_shift(self) -> int:
        """The right shift after `round_multiplier`; may be 0 for a block of 1."""
        return rounding_factor(self.block_size)[1] + self.state_shift

    @property
    def vocabulary_size(self) -> int:
        """The number of token ids or hot channels; 0 for dense inputs."""
        if self.network.vocabulary_size is not None:
            return self.network.vocabulary_size
        return self.input_size if self.input_kind == "one_hot" else 0

    def _check_sizes(self) -> None:
        check_integer_network(self.network)
        check_int("input_bits", self.input_bits, 2, 16)
        check_int("hidden_shift", self.hidden_shift, 0, 31)
        check_int("accumulator_frac_bits", self.accumulator_frac_bits, -31, 62)
        check_int("state_shift", self.state_shift, 0, 31)
        check_int("input_shift", self.input_shift, -30, 31)
        check_int("input_bias_shift", self.input_bias_shift, 0, 31)
        check_int("output_bias_shift", self.output_bias_shift, 0, 31)
        check_scale("input_scale", self.input_scale)
        check_scale("logit_scale", self.logit_scale)

    def _check_arrays(self) -> None:
        hidden, inputs, outputs = self.hidden_size, self.input_size, self.output_size
        weights = (-1, 1) if self.weight_bits == "ternary" else signed_range(self.weight_bits)
        states = signed_range(self.activation_bits)
        self._freeze("signs", np.int8, (hidden,), (-1, 1), zero=False)
        self._freeze("input_weight_int", np.int8, (hidden, inputs), weights)
        self._freeze("output_weight_int", np.int8, (outputs, hidden), weights)
        self._freeze("output_bias_int", np.int16, (outputs,), states)
        network = self.network
        self._check_presence("input_bias_int", network.input_bias, "a network with an input bias")
        self._check_presence("column_signs", network.column_switches, 'switches "rows+columns"')
        self._check_presence("embedding_int", network.input_kind == "embedded", 'input_kind "embedded"')
        if self.input_bias_int is not None:
            self._freeze("input_bias_int", np.int16, (hidden,), states)
        if self.column_signs is not None:
            self._freeze("column_signs", np.int8, (hidden,), (-1, 1), zero=False)

    def _check_presence(self, name: str, wanted: bool, owner: str) -> None:
        if (getattr(self, name) is not None) != wanted:
            raise InputError(f"{name} belongs to {owner}, and only there.")

    def _check_inputs(self) -> None:
        raw = ("raw_offset", "raw_multiplier", "raw_shift")
        given = [name for name in raw if getattr(self, name) is not None]
        if given and (self.input_kind != "dense" or len(given) < len(raw)):
            raise InputError(f"Dense inputs take all of {', '.join(raw)} or none, others none; got {given}.")
        if given:
            self._freeze("raw_offset", np.int32, (self.input_size,), signed_range(32))
            self._freeze("raw_multiplier", np.int32, (self.input_size,), (-0xFFFF, 0xFFFF))
            self._freeze("raw_shift", np.int32, (self.input_size,), (0, 46))
        if self.input_kind == "one_hot" and self.input_bits != 2:
            raise InputError(f"A one-hot input is exact in 2 bits, got input_bits {self.input_bits}. Use 2.")
        if self.embedding_int is not None:
            shape = (self.vocabulary_size, self.input_size)
            self._freeze("embedding_int", np.int16, shape, signed_range(self.input_bits))

    def _freeze(
        self, name: str, dtype: type, shape: tuple[int, ...], bounds: tuple[int, int], *, zero: bool = True
    ) -> None:
        array = check_array(name, getattr(self, name), dtype, shape, bounds, zero=zero)
        object.__setattr__(self, name, array)


def check_integer_network(network: Network) -> None:
    """Refuse a network that has no integer form: one Hadamard layer that reads forwards, few bits."""
    if not network.is_hadamard or network.cells > 1:
        raise InputError(
            f"An integer network is one Hadamard layer that reads forwards, got {network.model} with "
            f"{network.cells} cells. Train with num_layers=1 and bidirectional=False."
        )
    check_paper_form(network)
    if network.weight_bits != "ternary":
        check_int("weight_bits", network.weight_bits, 2, 8, 'or "ternary"')
    check_int("activation_bits", network.activation_bits, 2, 16)


def signed_range(bits: int) -> tuple[int, int]:
    """Return the least and the greatest number of `bits` bits.

    >>> signed_range(12)
    (-2048, 2047)
    """
    return -(1 << bits - 1), (1 << bits - 1) - 1


def rounding_factor(block_size: int) -> tuple[int, int]:
    """Return (m, e) with m / 2^e = 1 / sqrt(block_size): exactly when m is 1, else m to 16 bits.

    >>> rounding_factor(256), rounding_factor(512), rounding_factor(12)
    ((1, 4), (46341, 20), (37837, 17))
    """
    exponent = block_size.bit_length() - 1
    if block_size == 1 << exponent and exponent % 2 == 0:
        return 1, exponent // 2
    shift = MULTIPLIER_BITS + (block_size.bit_length() - 1) // 2
    # round(2^shift / sqrt(n)) without floating point: the nearest integer to the root of 4^shift / n.
    twice_root = math.isqrt((4 << 2 * shift) // block_size)
    return (twice_root + 1) // 2, shift


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
        return left is not None and right is not None and np.array_equal(left, right)
    return bool(left == right)

"""Define the integer network: everything that a device needs, as integers.

`IntegerModel` connects training and deployment: `quantization.lowering` makes it, the engine runs it, and the
exporters write it. It has a stack of `IntegerLayer`s, whose step is defined in `layer.py`, and a read-out of
the last layer after T steps:

    value = max(h, 0)                          last
            sum_t max(h_t - theta, 0)          mean, for each row of thresholds
            sum_t [h_t > theta]                positive, for each row of thresholds
            max_t h_t, 0 if T = 0              max
    rate  = (M << 15) // max(T, 1)             mean and positive, M = feature_multiplier of its kind
            M << 15                            last and max
    code  = saturate(round(value * rate / 2^feature_shift))            to feature_bits, in 64 bits
    logit = V code + (b_o << output_bias_shift)

The paper's network reads out `last` and has no feature fields, so code = value. Features are ordered by
`network.readouts`, then by row of thresholds, then by unit. Start reading at the fields; `overflow.py`
proves that everything fits 32 bits except the products marked as 64-bit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from hadamrnn.architecture import EXPONENT_BITS, stored_bits
from hadamrnn.fixedpoint.base import IntegerBase, Metadata
from hadamrnn.fixedpoint.integers import signed_range
from hadamrnn.fixedpoint.layer import (
    IntegerLayer,
    check_integer_network,
    check_presence,
    freeze_array,
    layer_fields,
    weight_range,
)
from hadamrnn.fixedpoint.overflow import prove_readout, readout_bound
from hadamrnn.network import Network
from hadamrnn.settings import check_equal, check_int

if TYPE_CHECKING:
    from hadamrnn.fixedpoint.file import FileSize

WeightBits = int | Literal["ternary"]
Steps = TypeVar("Steps", int, NDArray[np.int64])

MAX_LONGEST = 0xFFFF


@dataclass(frozen=True, eq=False)
class IntegerModel(IntegerBase):
    """A network of integers and shifts. Arrays are read-only; floats are for information only.

    Input of one step, by `input_kind`:
        "dense":    codes x of input_bits, one per channel. A sensor's raw int32 codes r become
                    x = saturate(round((r - raw_offset) * raw_multiplier / 2^raw_shift)), see `encoding`;
                    channels with a raw_knee compress r to octaves first;
        "one_hot":  the index j of the hot channel; input_bits is 2 and x is 1 at j, so U x = U[:, j];
        "embedded": a token id; x = embedding_int[id].

    The scales relate codes to real numbers: a real logit is logit * logit_scale, and a real input value v of
    a dense model has x = round(v * 2^(input_bits - 1) / input_scale).
    """

    network: Network  # sizes, kinds and bits
    layers: tuple[IntegerLayer, ...]  # lowest layer first
    output_weight_int: NDArray[np.int8]  # V, (output_size, features)
    output_bias_int: NDArray[np.int16]  # b_o, (output_size,), activation_bits
    output_bias_shift: int  # s_o

    input_scale: float  # alpha_i
    logit_scale: float  # alpha_i alpha_U alpha_V alpha_h / 2^(weight_frac_bits + activation_bits - 1)

    thresholds_int: NDArray[np.int16] | None = None  # theta, (count, hidden_size); None: one row of zeros
    feature_bits: int | None = None  # 2..16; like the next two, only with normalize or pooled read-outs
    feature_multiplier: tuple[int, ...] | None = None  # M, 1..65535, one per entry of network.readouts
    feature_shift: NDArray[np.int8] | None = None  # (features,), 1..62, within 15 of each other
    longest: int = 0  # most input steps between two starts, 1..65535; 0 if nothing is summed

    embedding_int: NDArray[np.int16] | None = None  # (vocabulary, input_size), input_bits; "embedded" only
    raw_offset: NDArray[np.int32] | None = None  # (input_size,); "dense" only; None: x = saturate(r)
    raw_multiplier: NDArray[np.int32] | None = None  # (input_size,), below 2^16 in magnitude
    raw_shift: NDArray[np.int32] | None = None  # (input_size,), 0..46
    raw_knee: NDArray[np.int32] | None = None  # (input_size,), 0..30, with raw_offset; 0: not compressed
    metadata: Metadata = field(default_factory=dict)  # task, metrics, version

    def __post_init__(self) -> None:
        check_integer_network(self.network)
        self._check_layers()
        self._check_output()
        self._check_features()
        self._check_inputs()
        prove_readout(self)

    @staticmethod
    def load(path: Path | str) -> IntegerModel:
        """Read a model written by `save` or `hadamrnn quantize`; raise `InputError` for anything else."""
        from hadamrnn.fixedpoint.file import load

        return load(path)

    def save(self, path: Path | str) -> FileSize:
        """Write the model to `path` atomically; return its size."""
        from hadamrnn.fixedpoint.file import save

        return save(self, path)

    def __repr__(self) -> str:
        """Return one line, without the arrays."""
        widths, network = "x".join(map(str, self.network.widths)), self.network
        kind = f"{self.input_kind}, {network.input_size} -> {widths} -> {network.output_size}"
        return f"IntegerModel({kind}, weight_bits={self.weight_bits}, activation_bits={self.activation_bits})"

    @property
    def input_bits(self) -> int:
        """The bits p_i of the codes that the network reads."""
        return self.layers[0].input_bits

    @property
    def weight_bits(self) -> WeightBits:
        """The bits of U and V: 2..8, or "ternary" (codes -1, 0, 1)."""
        return cast(WeightBits, self.network.weight_bits)

    @property
    def activation_bits(self) -> int:
        return self.layers[0].activation_bits

    @property
    def weight_storage_bits(self) -> int:
        """The bits of one code of U or V in the file; 2 for ternary."""
        return stored_bits(self.weight_bits)

    @property
    def logit_bound(self) -> int:
        """The largest magnitude that a logit, or any partial sum of it, can have."""
        return sum(readout_bound(self))

    @property
    def threshold_rows(self) -> NDArray[np.int16]:
        """The thresholds theta `(count, hidden_size)`; by default one row of zeros."""
        return (
            np.zeros((1, self.hidden_size), np.int16) if self.thresholds_int is None else self.thresholds_int
        )

    def top_steps(self, steps: Steps) -> Steps:
        """Return the number of steps of the last layer after `steps` inputs."""
        period: int = self.network.stride ** (len(self.layers) - 1)
        return steps // min(period, 1 << 62)

    def _check_layers(self) -> None:
        object.__setattr__(self, "layers", tuple(self.layers))
        network = self.network
        check_equal("The number of layers", len(self.layers), network.num_layers)
        for index, layer in enumerate(self.layers):
            self._check_layer(layer, index)
        grown = (network.stride - 1).bit_length()
        for index, (below, above) in enumerate(zip(self.layers, self.layers[1:], strict=False)):
            check_equal(
                f"input_bits of layer {index + 1}", above.input_bits, (below.output_bits or 0) + grown
            )

    def _check_layer(self, layer: IntegerLayer, index: int) -> None:
        """Refuse a layer that differs from the network's description."""
        network = self.network
        sizes = {"hidden_size": network.widths[index], "input_size": network.cell_input_sizes[index]}
        for name, expected in {**sizes, **layer_fields(network, index)}.items():
            check_equal(f"{name} of layer {index}", getattr(layer, name), expected)
        is_below = index < network.num_layers - 1
        scaled = is_below and network.scales_layers
        check_presence(layer, "input_bias_int", network.input_bias, "a network with an input bias")
        check_presence(layer, "gain_int", scaled, "the layers below the last of normalize or skip")
        check_presence(
            layer, "skip_shift", network.has_skip(index), "layers that skip: as wide as what they read"
        )
        check_presence(layer, "output_bits", is_below, "the layers below the last")

    def _check_output(self) -> None:
        outputs, features = self.output_size, self.network.num_features
        freeze_array(self, "output_weight_int", np.int8, (outputs, features), weight_range(self.weight_bits))
        freeze_array(self, "output_bias_int", np.int16, (outputs,), signed_range(self.activation_bits))
        check_int("output_bias_shift", self.output_bias_shift, 0, 31)

    def _check_features(self) -> None:
        network = self.network
        if check_presence(self, "thresholds_int", network.thresholds > 0, "a network with thresholds"):
            shape = (network.thresholds, self.hidden_size)
            freeze_array(self, "thresholds_int", np.int16, shape, signed_range(self.activation_bits))
        for name in ("feature_bits", "feature_multiplier", "feature_shift"):
            check_presence(self, name, network.scales_features, "normalize or pooled read-outs")
        check_int("longest", self.longest, *((1, MAX_LONGEST) if network.counts_steps else (0, 0)))
        if self.feature_multiplier is None or self.feature_shift is None:
            return
        check_int("feature_bits", self.feature_bits, 2, 16)
        object.__setattr__(self, "feature_multiplier", tuple(self.feature_multiplier))
        check_equal("The length of feature_multiplier", len(self.feature_multiplier), len(network.readouts))
        for multiplier in self.feature_multiplier:
            check_int("Every one of feature_multiplier", multiplier, 1, 0xFFFF)
        freeze_array(self, "feature_shift", np.int8, (network.num_features,), (1, 62))
        spread = int(self.feature_shift.max()) - int(self.feature_shift.min())
        check_int("The spread of feature_shift", spread, 0, (1 << EXPONENT_BITS) - 1)

    def _check_inputs(self) -> None:
        self._check_shared()
        if check_presence(self, "embedding_int", self.input_kind == "embedded", 'input_kind "embedded"'):
            shape = (self.vocabulary_size, self.input_size)
            freeze_array(self, "embedding_int", np.int16, shape, signed_range(self.input_bits))

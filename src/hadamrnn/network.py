"""`Network`: the frozen description of an architecture, stored in every file and configuration.

It has no weights and imports no torch. Its fields declare their types and ranges and are validated only here.
`nn.model.SequenceModel` builds a torch module from it, and `quantization.lowering` an integer network.
Other packages can describe other kinds of network: see `hadamrnn.architecture`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from hadamrnn import packages
from hadamrnn.architecture import ACTIVATION_BITS, Architecture, Size, WeightBits
from hadamrnn.errors import InputError, check_name, damaged, short
from hadamrnn.hadamard.orders import order_factors
from hadamrnn.settings import OneOf, Range, Share, check_int, from_json, option

HADAMRNN = "hadamrnn"
RECURRENCES = ("linear", "relu")
READOUTS = ("last", "mean", "positive", "max")
COUNTED = ("mean", "positive")  # read-outs with one feature per threshold

MAX_LAYERS = 64
MAX_LEAK = 15
MAX_THRESHOLDS = 64
MAX_STRIDE = 1 << 10
Depth = Annotated[int, Range(1, MAX_LAYERS)]
Recurrence = Annotated[str, OneOf(RECURRENCES)]


@dataclass(frozen=True)
class Network(Architecture):
    """The architecture of a Hadamard network.

    The defaults are the paper's: no leak, one layer, and a read-out of the last state only.
    `activation_bits=None` means floating point. With `layer_sizes`, `hidden_size` is the last size and
    `num_layers` their number.

    >>> Network(input_size=1, hidden_size=512, output_size=10, num_blocks=8).block_size
    64
    """

    kind = HADAMRNN
    recipe: ClassVar[Mapping[str, Any]] = {}

    num_layers: Depth = option(1, "stacked recurrent layers")
    bidirectional: bool = option(False, "read sequences backwards too; such a network has no integer form")
    dropout: Share = option(0.0, "dropout between stacked layers")
    num_blocks: Size = option(1, "q, number of diagonal blocks of W")
    weight_bits: WeightBits = option(4, "bits of the weights U and V: 2..16, ternary, or none for floats")
    recurrence: Recurrence = option("linear", "linear or relu")
    switches: Annotated[str, OneOf(("rows", "rows+columns"))] = option("rows", "rows or rows+columns")
    input_bias: bool = option(True, "learn an input bias b_i; without it, padding leaves the state at zero")
    leak: tuple[Annotated[int, Range(0, MAX_LEAK)], ...] = option(
        (), "k of the decay 1 - 2^-k, for the blocks in turn, such as 1,2,3,none; none does not decay"
    )
    readouts: tuple[Annotated[str, OneOf(READOUTS)], ...] = option(
        ("last",), "what to read out of the states: last, mean, positive and max, such as mean,max"
    )
    thresholds: Annotated[int, Range(0, MAX_THRESHOLDS)] = option(
        0,
        "thresholds per unit for mean and positive, at quantiles of its states; 0 uses one threshold at zero",
    )
    layer_sizes: tuple[Size, ...] = option(
        (), "widths of stacked layers, instead of hidden_size and num_layers"
    )
    normalize: bool = option(False, "normalise each unit between layers, and scale the features")
    skip: bool = option(False, "add a layer's input to its output if they have the same width")
    stride: Annotated[int, Range(1, MAX_STRIDE)] = option(
        1, "each layer averages this many steps of the layer below"
    )
    activation_bits: Annotated[int, Range(*ACTIVATION_BITS)] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._settle_widths()
        check_int("The number of values of leak, at most num_blocks,", len(self.leak), 0, self.num_blocks)
        for width in set(self.widths):
            self._check_blocks(width)
        self._check_readouts()

    def _settle_widths(self) -> None:
        """Derive width and depth from `layer_sizes`, and drop the list if all widths are equal."""
        if not self.layer_sizes:
            return
        check_int("The number of layer_sizes", len(self.layer_sizes), 1, MAX_LAYERS)
        object.__setattr__(self, "hidden_size", self.layer_sizes[-1])
        object.__setattr__(self, "num_layers", len(self.layer_sizes))
        if len(set(self.layer_sizes)) == 1:
            object.__setattr__(self, "layer_sizes", ())

    def _check_blocks(self, width: int) -> None:
        if width % self.num_blocks:
            divisors = [n for n in range(1, width + 1) if width % n == 0]
            nearest = sorted(sorted(divisors, key=lambda n: abs(n - self.num_blocks))[:2])
            raise InputError(
                f"num_blocks must divide hidden_size, got {self.num_blocks} for hidden_size "
                f"{width}. Nearest divisors: {' and '.join(map(str, nearest))}."
            )
        order_factors(width // self.num_blocks)  # raises an error that names the nearest orders

    def _check_readouts(self) -> None:
        if not self.readouts or len(set(self.readouts)) < len(self.readouts):
            raise InputError(f"readouts must name one or more, each once, got {short(self.readouts)}.")
        if self.thresholds and not set(self.readouts) & set(COUNTED):
            raise InputError(
                f"Thresholds belong to the read-outs mean and positive, got {self.thresholds} for "
                f"{', '.join(self.readouts)}. Add one of the two, or leave thresholds out."
            )
        if self.every_output and (self.is_pooled or self.stride > 1):
            raise InputError(
                "A network that answers after every step has the read-out last and stride 1, got "
                f"{', '.join(self.readouts)} and {self.stride}. Leave readouts and stride out."
            )

    @property
    def readout_bits(self) -> WeightBits:
        return self.weight_bits

    @property
    def block_size(self) -> int:
        """b = d_h / q, the side of one Hadamard block."""
        return self.hidden_size // self.num_blocks

    @property
    def widths(self) -> tuple[int, ...]:
        """The number of units of each layer, lowest layer first."""
        return self.layer_sizes or (self.hidden_size,) * self.num_layers

    @property
    def block_leaks(self) -> tuple[int, ...]:
        """The leak k of each block of a layer, 0 for blocks that do not leak; empty if no block leaks.

        >>> Network(hidden_size=8, num_blocks=4, leak=(1, 0, 2)).block_leaks
        (1, 0, 2, 1)
        """
        if not any(self.leak):
            return ()
        return tuple(self.leak[block % len(self.leak)] for block in range(self.num_blocks))

    @property
    def decays(self) -> tuple[float, ...]:
        """The decay factor lambda of each block; empty if no block leaks.

        >>> Network(hidden_size=8, num_blocks=4, leak=(1, 0, 2)).decays
        (0.5, 1.0, 0.75, 0.5)
        """
        return tuple(1.0 - 2.0**-k if k else 1.0 for k in self.block_leaks)

    @property
    def is_pooled(self) -> bool:
        """Whether the read-out uses more than the last state."""
        return self.readouts != ("last",)

    @property
    def counts_steps(self) -> bool:
        """Whether a read-out sums over steps, which limits the sequence length in integers."""
        return any(kind in COUNTED for kind in self.readouts)

    def has_skip(self, layer: int) -> bool:
        """Return whether a layer adds its input to its output; a layer that reads ids cannot."""
        if not self.skip or layer == self.num_layers - 1 or (layer == 0 and self.takes_ids):
            return False
        return self.cell_input_sizes[layer * self.directions] == self.directions * self.widths[layer]

    @property
    def scales_layers(self) -> bool:
        """Whether the integer network has a gain and an offset per unit between layers."""
        return self.normalize or self.skip

    @property
    def scales_features(self) -> bool:
        """Whether the integer network has a scale for each feature."""
        return self.normalize or self.is_pooled

    @property
    def features_per_unit(self) -> int:
        """The number of features per unit of the last layer."""
        return features_per_unit(self.readouts, self.thresholds)

    @property
    def num_features(self) -> int:
        """The number of features that V reads.

        >>> Network(hidden_size=8, readouts=("mean", "max"), thresholds=2).num_features
        24
        """
        return self.state_size * self.features_per_unit

    @property
    def column_switches(self) -> bool:
        return self.switches == "rows+columns"

    @property
    def directions(self) -> int:
        return 2 if self.bidirectional else 1

    @property
    def cells(self) -> int:
        """The number of recurrent cells: one per layer and direction."""
        return self.num_layers * self.directions

    @property
    def state_size(self) -> int:
        """The number of states of the last layer, over all directions."""
        return self.directions * self.hidden_size

    @property
    def cell_input_sizes(self) -> tuple[int, ...]:
        """The input size of each cell, lowest layer first.

        >>> Network(9, 128, num_layers=3, bidirectional=True).cell_input_sizes
        (9, 9, 256, 256, 256, 256)
        """
        below = (self.input_size, *(self.directions * width for width in self.widths[:-1]))
        return tuple(size for size in below for _ in range(self.directions))

    @property
    def cell_sizes(self) -> tuple[int, ...]:
        """The number of units of each cell, lowest layer first."""
        return tuple(width for width in self.widths for _ in range(self.directions))

    @property
    def num_weights(self) -> int:
        """The number of entries of all U and of V.

        >>> Network(input_size=9, hidden_size=8, output_size=2, num_layers=2).num_weights
        152
        """
        inputs = sum(size * seen for size, seen in zip(self.cell_sizes, self.cell_input_sizes, strict=True))
        return inputs + self.num_features * self.output_size

    @property
    def num_biases(self) -> int:
        """The number of entries of all b_i and of b_o."""
        return sum(self.cell_sizes) * self.input_bias + self.output_size

    def __str__(self) -> str:
        """Describe the network, for example `512 units in 8 blocks, 4-bit weights, 12-bit states`.

        >>> str(Network(layer_sizes=(128, 64), leak=(1,), readouts=("mean", "max")))
        '128 + 64 units, leak 1, reads out mean,max, 4-bit weights, float states'
        """
        blocks = f" in {self.num_blocks} blocks" if self.num_blocks > 1 else ""
        bits = self.weight_bits
        weights = "float" if bits is None else f"{bits}-bit" if isinstance(bits, int) else bits
        states = "float" if self.activation_bits is None else f"{self.activation_bits}-bit"
        units = " + ".join(map(str, self.widths))
        leak = f", leak {','.join(str(k or 'none') for k in self.leak)}" if any(self.leak) else ""
        readouts = f", reads out {','.join(self.readouts)}" if self.is_pooled else ""
        return f"{units} units{blocks}{leak}{readouts}, {weights} weights, {states} states"


def check_deployable(network: Network, form: str) -> None:
    """Refuse a network without an integer or ONNX form: it must be unidirectional, with row signs only."""
    wrong = "bidirectional=True" if network.bidirectional else ""
    wrong = wrong or ('switches="rows+columns"' if network.column_switches else "")
    if wrong:
        raise InputError(f"{form} reads forwards, with signs of rows only, got {wrong}. Train without it.")


def features_per_unit(readouts: Sequence[str], thresholds: int) -> int:
    """Return the number of features per unit: mean and positive give one for each threshold."""
    return sum(max(thresholds, 1) if kind in COUNTED else 1 for kind in readouts)


def architecture(kind: str) -> type[Architecture]:
    """Return the class that describes a kind of network: `Network`, or a class from an installed package."""
    if kind == HADAMRNN:
        return Network
    check_name("model", kind, (HADAMRNN, *packages.names(packages.NETWORKS)))
    found = packages.load(packages.NETWORKS, kind)
    if not (isinstance(found, type) and issubclass(found, Architecture)):
        raise InputError(f"The network type {kind} must be an Architecture, got {short(found)}.")
    return found


def network_values(network: Architecture) -> dict[str, Any]:
    """Return the fields as plain values, for JSON and YAML."""
    return {"kind": network.kind, **dataclasses.asdict(network)}


def read_architecture(values: object) -> Architecture:
    """Rebuild a network of any kind from the values of `network_values`."""
    fields = dict(values) if isinstance(values, Mapping) else {}
    for name in ("kind", "input_size", "hidden_size", "output_size"):
        if name not in fields:
            raise damaged("The description of a network", f"it has no {name}.")
    return from_json(architecture(str(fields.pop("kind"))), fields, "The description of a network")


def read_network(values: object) -> Network:
    """Rebuild a Hadamard network from the values of `network_values`.

    >>> read_network({"kind": "hadamrnn", "input_size": 1, "hidden_size": 8, "output_size": 9}).hidden_size
    8
    """
    return hadamard(read_architecture(values))


def hadamard(network: Architecture) -> Network:
    """Return the description unchanged if it describes a Hadamard network; refuse others."""
    if not isinstance(network, Network):
        raise InputError(f"A Hadamard network is needed, got a {network.kind}. Use the model {HADAMRNN}.")
    return network

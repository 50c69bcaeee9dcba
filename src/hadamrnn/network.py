"""What a network is: one frozen description, in the header of every file and in every configuration.

`Network` holds no weights and imports no torch. Training, cost, search, the estimators, the paper's rows and
the benchmarks all take one; `nn.model.build_model` makes a torch module of it and `quantization.lowering` an
integer network. A new kind of network is a field here and the module that computes it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hadamrnn.bits import check_weight_bits
from hadamrnn.errors import InputError, check_choice, check_int, check_name, short
from hadamrnn.hadamard.orders import order_factors
from hadamrnn.settings import option

HADAMRNN = "hadamrnn"
RECURRENCES = ("linear", "relu")
SWITCHES = ("rows", "rows+columns")
INPUT_KINDS = ("dense", "one_hot", "embedded")

MAX_SIZE = 1 << 15  # of hidden, input and output
MAX_LAYERS = 64
MAX_VOCABULARY = 1 << 20


@dataclass(frozen=True)
class Network:
    """The shape of a network: of the paper's, or of a baseline of `hadamrnn.baselines.networks`.

    Fields without a line of help are not a user's choice: the task says them. `input_size` is the number of
    channels, of one-hot symbols, or the width of the embedding; id `padding_id` embeds to zero.
    `activation_bits` None stands for floating point. `model_options` are what one kind alone knows.

    >>> Network(input_size=1, hidden_size=512, output_size=10, num_blocks=8).block_size
    64
    """

    input_size: int = 1
    hidden_size: int = option(128, "d_h")
    output_size: int = 1
    num_layers: int = option(1, "stacked recurrent layers")
    bidirectional: bool = option(False, "read sequences backwards too")
    dropout: float = option(0.0, "between stacked layers")
    num_blocks: int = option(1, "q, diagonal blocks of W")
    weight_bits: int | str | None = option(4, "of U and V: 2..16, ternary or none")
    recurrence: str = option("linear", "linear or relu")
    switches: str = option("rows", "rows or rows+columns")
    input_bias: bool = option(True, "learn b_i; without it padding leaves the state at rest")
    input_kind: str = "dense"
    vocabulary_size: int | None = None
    padding_id: int | None = None
    every_output: bool = False
    activation_bits: int | None = None
    model: str = option(
        HADAMRNN,
        "kind of network: hadamrnn, lstm, gru, rnn, ornn, qornn, fastgrnn, binary_lstm, ternary_lstm, "
        "quantized_lstm or naive_binary_rnn",
    )
    model_options: dict[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        for name in ("input_size", "hidden_size", "output_size"):
            check_int(name, getattr(self, name), 1, MAX_SIZE)
        check_int("num_layers", self.num_layers, 1, MAX_LAYERS)
        check_int("num_blocks", self.num_blocks, 1, MAX_SIZE)
        check_choice("recurrence", self.recurrence, RECURRENCES)
        check_choice("switches", self.switches, SWITCHES)
        check_choice("input_kind", self.input_kind, INPUT_KINDS)
        for name in ("bidirectional", "input_bias", "every_output"):
            check_choice(name, getattr(self, name), (False, True))
        if not isinstance(self.model, str):
            raise InputError(f"model must be the name of a kind of network, got {short(self.model)}.")
        if self.is_hadamard:
            check_weight_bits(self.weight_bits)
        if self.activation_bits is not None:
            check_int("activation_bits", self.activation_bits, 2, 32)
        if not isinstance(self.dropout, (int, float)) or not 0 <= self.dropout <= 1:
            raise InputError(f"dropout must lie in [0, 1], got {short(self.dropout)}.")
        if (self.vocabulary_size is not None) != (self.input_kind == "embedded"):
            raise InputError(
                f'A vocabulary_size belongs to input_kind "embedded", and only there, got '
                f"{self.vocabulary_size} for {self.input_kind!r}."
            )
        if self.vocabulary_size is not None:
            check_int("vocabulary_size", self.vocabulary_size, 1, MAX_VOCABULARY)
        if self.padding_id is not None and self.vocabulary_size is not None:
            check_int("padding_id", self.padding_id, 0, self.vocabulary_size - 1)
        self._check_blocks()

    def _check_blocks(self) -> None:
        if self.hidden_size % self.num_blocks:
            divisors = [n for n in range(1, self.hidden_size + 1) if self.hidden_size % n == 0]
            nearest = sorted(sorted(divisors, key=lambda n: abs(n - self.num_blocks))[:2])
            raise InputError(
                f"num_blocks must divide hidden_size, got {self.num_blocks} for hidden_size "
                f"{self.hidden_size}. Nearest divisors: {' and '.join(map(str, nearest))}."
            )
        if self.is_hadamard:
            order_factors(self.block_size)  # raises, naming the nearest orders

    @property
    def is_hadamard(self) -> bool:
        """Whether this is the paper's network and not a baseline."""
        return self.model == HADAMRNN

    @property
    def block_size(self) -> int:
        """b = d_h / q, the side of one Hadamard block."""
        return self.hidden_size // self.num_blocks

    @property
    def takes_ids(self) -> bool:
        """Whether the input is integer ids rather than dense vectors."""
        return self.input_kind != "dense"

    @property
    def column_switches(self) -> bool:
        return self.switches == "rows+columns"

    @property
    def directions(self) -> int:
        return 2 if self.bidirectional else 1

    @property
    def cells(self) -> int:
        """Recurrent cells: one for each layer and direction."""
        return self.num_layers * self.directions

    @property
    def state_size(self) -> int:
        """What the read-out sees: the states of the last layer, of all directions."""
        return self.directions * self.hidden_size

    @property
    def cell_input_sizes(self) -> tuple[int, ...]:
        """What each cell reads, the lowest layer first.

        >>> Network(9, 128, num_layers=3, bidirectional=True).cell_input_sizes
        (9, 9, 256, 256, 256, 256)
        """
        above = self.cells - self.directions
        return (self.input_size,) * self.directions + (self.state_size,) * above

    def __str__(self) -> str:
        """Say what the network is, as `512 units in 8 blocks, 4-bit weights, 12-bit states`."""
        blocks = f" in {self.num_blocks} blocks" if self.num_blocks > 1 else ""
        bits = self.weight_bits
        weights = "float" if bits is None else f"{bits}-bit" if isinstance(bits, int) else bits
        states = "float" if self.activation_bits is None else f"{self.activation_bits}-bit"
        return f"{self.hidden_size} units{blocks}, {weights} weights, {states} states"


NETWORK_FIELDS = tuple(each.name for each in dataclasses.fields(Network))


def network_values(network: Network) -> dict[str, Any]:
    """Return the fields as plain values, for JSON and YAML."""
    return {**dataclasses.asdict(network), "model_options": dict(network.model_options)}


def read_network(values: object) -> Network:
    """Return the network that `network_values` described, in this version or the one before.

    >>> read_network({"input_size": 10, "hidden_size": 8, "output_size": 9, "one_hot": True}).input_kind
    'one_hot'
    """
    if not isinstance(values, Mapping):
        raise InputError(f"A network is described by names with values, got {short(values)}.")
    fields = dict(values)
    if fields.pop("one_hot", False):
        fields["input_kind"] = "one_hot"
    elif "input_kind" not in fields and fields.get("vocabulary_size") is not None:
        fields["input_kind"] = "embedded"
    missing = [name for name in ("input_size", "hidden_size", "output_size") if name not in fields]
    if missing:
        raise InputError(f"The description of a network must say its {', '.join(missing)}.")
    for name in fields:
        check_name("A field of a network", name, NETWORK_FIELDS)
    if not isinstance(fields.get("model_options", {}), Mapping):
        raise InputError(f"model_options must be names with values, got {short(fields['model_options'])}.")
    return Network(**fields)

"""`Architecture`: properties shared by all kinds of network, and the allowed widths of weights. No torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar

from hadamrnn.errors import InputError, short
from hadamrnn.front_end import FrontEnd
from hadamrnn.settings import OneOf, Range, check, check_int, option, validate_fields

Ternary = Annotated[str, OneOf(("ternary",))]
WeightBits = Annotated[int, Range(2, 16)] | Ternary | None  # None is full precision
IntegerWeightBits = Annotated[int, Range(2, 8)] | Ternary  # widths that an integer network supports
EXPONENT_BITS = 4  # bits to store a unit's own shift
FLOAT_BITS = 32
ACTIVATION_BITS = (2, 16)  # fewest and most bits of integer states and biases
MAX_SIZE = 1 << 15  # limit for hidden, input and output sizes
MAX_VOCABULARY = 1 << 20
Size = Annotated[int, Range(1, MAX_SIZE)]


def stored_bits(weight_bits: WeightBits) -> int:
    """Return the bits that one weight takes: 2 for ternary, 32 for full precision.

    >>> [stored_bits(bits) for bits in ("ternary", 4, None)]
    [2, 4, 32]
    """
    check("weight_bits", weight_bits, WeightBits)
    if weight_bits is None:
        return FLOAT_BITS
    return 2 if weight_bits == "ternary" else int(weight_bits)


@dataclass(frozen=True)
class Architecture:
    """A network of any kind: its width, and the inputs and outputs that the task determines.

    `input_size` is the number of channels, the number of one-hot symbols, or the width of the embedding. Id
    `padding_id` embeds to zero. Fields without a help text are set by the task, not by the user.

    A package offers another kind of network as a subclass, a frozen dataclass whose fields are its settings,
    under the entry point group `hadamrnn.networks`. It implements `recurrent_layer`, and `cost`
    if there is a rule for it.

    Attributes:
        kind: name of the entry point and value of `--model`.
        recipe: settings that this kind changes in every preset, since presets are made for Hadamard networks.
    """

    kind: ClassVar[str]
    recipe: ClassVar[Mapping[str, Any]] = {
        "negative_signs": None,
        "sign_freeze_epoch": None,
        "weight_clip": None,
    }

    input_size: Size = 1
    hidden_size: Size = option(128, "hidden units, d_h")
    output_size: Size = 1
    _: KW_ONLY
    input_kind: Annotated[str, OneOf(("dense", "one_hot", "embedded"))] = "dense"
    vocabulary_size: Annotated[int, Range(1, MAX_VOCABULARY)] | None = None
    padding_id: Annotated[int, Range(0, MAX_VOCABULARY - 1)] | None = None
    every_output: bool = False
    front_end: FrontEnd | None = None

    def __post_init__(self) -> None:
        validate_fields(self)
        if self.front_end is not None and (self.takes_ids or self.front_end.bands != self.input_size):
            raise InputError(
                f"A front end of {self.front_end.bands} bands gives as many dense channels, got "
                f"{self.input_size} of input_kind {self.input_kind!r}."
            )
        if (self.vocabulary_size is not None) != (self.input_kind == "embedded"):
            raise InputError(
                f'A vocabulary_size belongs to input_kind "embedded", and only there, got '
                f"{short(self.vocabulary_size)} for {self.input_kind!r}."
            )
        if self.padding_id is not None:
            check_int("padding_id", self.padding_id, 0, (self.vocabulary_size or MAX_VOCABULARY) - 1)

    @property
    def takes_ids(self) -> bool:
        """Whether the input is integer ids rather than dense vectors."""
        return self.input_kind != "dense"

    @property
    def readout_bits(self) -> WeightBits:
        """The bits of V; None means full precision."""
        return None

    def recurrent_layer(self) -> Any:
        """Return a freshly initialised `hadamrnn.nn.interface.RecurrentLayer` of this shape."""
        raise NotImplementedError

    def cost(self) -> tuple[Any, Any]:
        """Return the storage of a network and the `StepCost` of one step, if rules for them exist."""
        raise InputError(f"There is no rule for the cost of a {self.kind}. Leave --model out.")

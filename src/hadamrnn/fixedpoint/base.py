"""Provide the base class of integer networks: the encoding of raw codes, and metadata for users."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hadamrnn.architecture import Architecture
from hadamrnn.errors import InputError, short
from hadamrnn.fixedpoint.integers import signed_range
from hadamrnn.fixedpoint.layer import ArrayFields, check_presence, check_scale, freeze_array

Metadata = Mapping[str, str | int | float | bool]

MAX_ENTRIES, MAX_ENTRY_LENGTH = 100, 4000  # limits on metadata
MAX_CLASS_NAMES = 3000  # limit on the characters of all class names in the metadata


class IntegerBase(ArrayFields):
    """Base class of integer networks: properties of raw inputs, and class names in the metadata.

    A subclass is a frozen dataclass with these fields or properties.
    """

    network: Architecture
    input_bits: Any
    input_scale: float
    raw_offset: NDArray[np.int32] | None
    raw_multiplier: NDArray[np.int32] | None
    raw_shift: NDArray[np.int32] | None
    raw_knee: NDArray[np.int32] | None
    metadata: Metadata
    output_bias_int: NDArray[Any]
    output_bias_shift: int
    logit_scale: float
    logit_bound: Any  # the largest magnitude of a logit

    @property
    def input_kind(self) -> str:
        return self.network.input_kind

    @property
    def input_size(self) -> int:
        return self.network.input_size

    @property
    def hidden_size(self) -> int:
        return self.network.hidden_size

    @property
    def output_size(self) -> int:
        return self.network.output_size

    @property
    def every_output(self) -> bool:
        """Whether the network is read out after every step instead of only after the last."""
        return self.network.every_output

    @property
    def vocabulary_size(self) -> int:
        """The number of token ids or hot channels; 0 for dense inputs."""
        if self.network.vocabulary_size is not None:
            return self.network.vocabulary_size
        return self.input_size if self.input_kind == "one_hot" else 0

    @property
    def output_bias(self) -> NDArray[np.int64]:
        """b_o << s_o, (output_size,)."""
        return self.output_bias_int.astype(np.int64) << self.output_bias_shift

    @property
    def raw_unit(self) -> float:
        """The value of one raw code in units of the training data: raw = round(value / raw_unit)."""
        if self.raw_offset is None:
            return float(self.input_scale * 2.0 ** (1 - self.input_bits))
        return float(self.metadata.get("raw_unit", 1.0))

    @property
    def class_names(self) -> list[str]:
        """The names of the classes; none if the metadata lacks them."""
        try:
            names = json.loads(str(self.metadata.get("class_names", "[]")))
        except (ValueError, RecursionError):
            return []
        if not isinstance(names, list) or len(names) != max(self.output_size, 2):
            return []
        return [str(name) for name in names]

    @property
    def calibrated_length(self) -> int | None:
        """The length of the longest calibration sequence, if the metadata has it."""
        length = self.metadata.get("calibrated_length")
        return length if isinstance(length, int) and not isinstance(length, bool) and length > 0 else None

    def _check_shared(self) -> None:
        """Refuse bad metadata, scales and fields of raw inputs."""
        object.__setattr__(self, "metadata", check_metadata(self.metadata))
        check_scale("input_scale", self.input_scale)
        check_scale("logit_scale", self.logit_scale)
        raw = ("raw_offset", "raw_multiplier", "raw_shift")
        given = [name for name in raw if getattr(self, name) is not None]
        if given and (self.input_kind != "dense" or len(given) < len(raw)):
            raise InputError(f"Dense inputs take all of {', '.join(raw)} or none, others none; got {given}.")
        if given:
            freeze_array(self, "raw_offset", np.int32, (self.input_size,), signed_range(32))
            freeze_array(self, "raw_multiplier", np.int32, (self.input_size,), (-0xFFFF, 0xFFFF))
            freeze_array(self, "raw_shift", np.int32, (self.input_size,), (0, 46))
            check_scale("raw_unit", self.raw_unit)
        if self.raw_knee is not None:
            check_presence(self, "raw_knee", bool(given), "raw_offset")
            freeze_array(self, "raw_knee", np.int32, (self.input_size,), (0, 30))


def class_metadata(names: Sequence[str]) -> Metadata:
    """Return the metadata entry with the class names; empty if they are too long for metadata."""
    text = json.dumps(list(names))
    return {"class_names": text} if names and len(text) <= MAX_CLASS_NAMES else {}


def check_metadata(metadata: Mapping[str, object]) -> dict[str, str | int | float | bool]:
    """Return a copy of `metadata`, which must map strings to short strings and finite numbers."""
    if not isinstance(metadata, Mapping) or len(metadata) > MAX_ENTRIES:
        raise InputError(f"metadata must be a mapping of at most {MAX_ENTRIES} entries.")
    copy: dict[str, str | int | float | bool] = {}
    for name, value in metadata.items():
        # This is False for inf and nan, and for an int with too many digits to print.
        finite = not isinstance(value, int | float) or abs(value) <= sys.float_info.max
        known = isinstance(name, str) and finite
        if not (
            known and isinstance(value, str | int | float) and len(name + str(value)) <= MAX_ENTRY_LENGTH
        ):
            raise InputError(
                f"metadata maps names to strings and finite numbers of at most {MAX_ENTRY_LENGTH} characters "
                f"together, got {short(name)}: {short(value)}."
            )
        copy[name] = value
    return copy

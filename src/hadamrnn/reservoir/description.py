"""`Reservoir`: the frozen description of a multi-scale threshold network. Numpy only, no torch.

Groups of units read the input at different time scales. A feature is the fraction of steps in which a unit
exceeds a threshold, and the read-out is linear. `reference.py` has the equations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from hadamrnn.architecture import Architecture
from hadamrnn.errors import InputError
from hadamrnn.settings import OneOf, Range, check_int, option, validate_fields

BLOCK = 8  # units per block; H is Sylvester's matrix of this order
MAX_WIDTH, MAX_DILATION = 256, 16
MAX_LENGTH = 0xFFFF
MAX_GROUPS = 255
THIRDS = 3


@dataclass(frozen=True)
class Group:
    """A group of blocks of units that share a time scale.

    >>> Group(width=4, dilation=2, is_difference=True, blocks=3).counted_steps(43)
    8
    """

    width: Annotated[int, Range(1, MAX_WIDTH)] = option(1, "samples that are averaged, m, a power of two")
    dilation: Annotated[int, Range(1, MAX_DILATION)] = option(
        1, "steps between two states, d, a power of two"
    )
    is_difference: bool = option(False, "read v_j - v_(j-d) instead of v_j")
    segments: Annotated[int, Range(1, THIRDS)] = option(1, "1: count in the whole window, 3: in its thirds")
    input_shift: Annotated[int, Range(0, 8)] = option(0, "q: the input of a unit is U u 2^q")
    blocks: Annotated[int, Range(1, 4096)] = option(1, "blocks of 8 units")

    def __post_init__(self) -> None:
        validate_fields(self)
        for name in ("width", "dilation"):
            value = getattr(self, name)
            if value & (value - 1):
                raise InputError(f"The {name} of a group must be a power of two, got {value}.")
        if self.segments not in (1, THIRDS):
            raise InputError(f"segments of a group must be 1 or {THIRDS}, got {self.segments}.")

    @property
    def units(self) -> int:
        return BLOCK * self.blocks

    @property
    def start(self) -> int:
        """The first counted step; earlier steps have no difference to read."""
        return self.dilation if self.is_difference else 0

    def counted_steps(self, samples: Any) -> Any:
        """Return the number of counted steps after this many samples, an int or an array."""
        steps = samples // self.width - self.start
        return steps * (steps > 0)

    def boundaries(self, length: int) -> tuple[int, ...]:
        """Return the counted steps at which segments begin, and the end of the last one.

        >>> Group(segments=3).boundaries(100)
        (0, 34, 67, 100)
        """
        steps: int = self.counted_steps(length)
        return tuple(-(-part * steps // self.segments) for part in range(self.segments + 1))


@dataclass(frozen=True)
class Reservoir(Architecture):
    """A reservoir: units with fixed recurrent weights at several time scales, thresholds, linear read-out.

    `hidden_size` follows from the groups. A single output separates two classes. `seq_length` is the length
    of the windows used for fitting; a network with thirds accepts no longer windows.

    >>> Reservoir(groups=(Group(blocks=2), Group(width=2))).hidden_size
    24
    """

    kind: ClassVar[str] = "reservoir"

    groups: tuple[Group, ...] = (Group(),)
    weight_bits: Annotated[int, Range(2, 8)] = option(4, "bits of V")
    input_bits: Annotated[int, Range(2, 16)] = option(12, "bits of the input codes")
    input_kind: Annotated[str, OneOf(("dense",))] = "dense"
    seq_length: Annotated[int, Range(1, MAX_LENGTH)] = MAX_LENGTH

    def __post_init__(self) -> None:
        groups = tuple(Group(**each) if isinstance(each, dict) else each for each in self.groups)
        object.__setattr__(self, "groups", groups)
        check_int("The number of groups", len(groups), 1, MAX_GROUPS)
        object.__setattr__(self, "hidden_size", sum(group.units for group in groups))
        super().__post_init__()
        if self.front_end is not None:
            raise InputError("A reservoir reads sensor channels, it takes no front_end.")

    @property
    def num_blocks(self) -> int:
        return self.hidden_size // BLOCK

    @property
    def longest(self) -> int:
        """The largest number of samples in a window."""
        return self.seq_length if self.has_thirds else MAX_LENGTH

    @property
    def settled_length(self) -> int:
        """The number of samples after which every group has made two counted steps, or all its steps."""
        return min(max((group.start + 2) * group.width for group in self.groups), self.longest)

    @property
    def has_thirds(self) -> bool:
        return any(group.segments > 1 for group in self.groups)

    @property
    def unit_slices(self) -> tuple[slice, ...]:
        """The units of each group."""
        slices, first = [], 0
        for group in self.groups:
            slices.append(slice(first, first + group.units))
            first += group.units
        return tuple(slices)

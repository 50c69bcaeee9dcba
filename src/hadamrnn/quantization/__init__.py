"""Quantize a trained network: calibrate, lower, fine-tune. Start at `lowering.lower`.

The settings are here, without torch: the command line reads their fields.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from hadamrnn.settings import Count, Positive, Range, option, validate_fields
from hadamrnn.training.config import TrainingConfig


@dataclass(frozen=True, kw_only=True)
class Precision:
    """The precision of integer states and inputs."""

    activation_bits: Annotated[int, Range(6, 16)] = option(
        12, "bits of states and biases, 6..16 (default 12)"
    )
    input_bits: Annotated[int, Range(2, 16)] | None = option(
        None, "bits of inputs, 2..16 (default: exact for symbols and pixels, else as activations)"
    )
    percentile: Annotated[float, Range(0, 100, "(]")] = option(
        100.0, "percentage of the calibration sequences whose states must fit (default 100)"
    )
    calibration_samples: Count = option(
        10_000, "most sequences of training and validation data used to calibrate (default 10000)"
    )
    raw_unit: Positive | None = option(
        None,
        "value of one raw code of the sensor (default: 1 if the training data are whole numbers, "
        "else a power of two far below their deviation)",
    )

    def __post_init__(self) -> None:
        validate_fields(self)


@dataclass(frozen=True, kw_only=True)
class QuantizeConfig(Precision):
    """The settings of quantization; `finetune` is a recipe for training with integers in the loop."""

    finetune: TrainingConfig | None = None

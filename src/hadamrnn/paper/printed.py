"""The paper's other tables as data: complexity, training times and scales."""

from __future__ import annotations

from dataclasses import dataclass

from hadamrnn.paper.rows import Setup, setup


@dataclass(frozen=True)
class ComplexityRow:
    """One row of Table 1 (Section 3.6): operations of a layer in one step, in d_in, d_h, d_out and q."""

    layer: str
    operation: str
    ornn: str
    qornn: str
    hadamrnn: str
    block_hadamrnn: str


COMPLEXITY = (
    ComplexityRow("input", "multiplications", *("d_in * d_h",) * 4),
    ComplexityRow("input", "additions", *("d_in * d_h",) * 4),
    ComplexityRow("recurrent", "multiplications", "d_h * d_h", "d_h * d_h", "0", "0"),
    ComplexityRow("recurrent", "additions", "d_h * d_h", "d_h * d_h", "d_h * d_h", "d_h * d_h // q"),
    ComplexityRow("output", "multiplications", *("d_h * d_out",) * 4),
    ComplexityRow("output", "additions", *("d_h * d_out",) * 4),
)


@dataclass(frozen=True)
class TimeRow:
    """One column of Table 4 (Appendix E.1): hours on a GeForce RTX 3080, and the run to compare."""

    title: str
    hours: float
    setup: Setup


TRAINING_TIMES = (
    TimeRow("Copy task", 13, setup("copy", 128, 4)),
    TimeRow("pMNIST", 13, setup("pmnist", 512, 4)),
    TimeRow("sMNIST", 13, setup("smnist", 512, 4)),
    TimeRow("IMDB", 0.5, setup("imdb", 512, 4)),
    TimeRow("SST-2", 0.36, setup("sst2", 128, 2)),
    TimeRow("QQP", 7.5, setup("qqp", 512, 2, num_blocks=4)),
)


@dataclass(frozen=True)
class ScaleRow:
    """One column pair of Table 10 (Appendix I): alpha_W and alpha_W alpha_h = 2^n_h.

    The text defines alpha_W = 2 / sqrt(2^k); the table prints 1 / sqrt(d_h), half of it.
    """

    title: str
    recurrent_scale: str
    shift_factor: str
    setup: Setup


SCALES = (
    ScaleRow("Copy task", "0.088", "2.0", setup("copy", 128, 4)),
    ScaleRow("sMNIST", "0.044", "4.0", setup("smnist", 512, 4)),
    ScaleRow("pMNIST", "0.044", "1.0", setup("pmnist", 512, 4)),
    ScaleRow("IMDB", "0.044", "8.0", setup("imdb", 512, 4)),
)

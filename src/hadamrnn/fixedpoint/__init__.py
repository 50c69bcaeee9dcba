"""The integer side: `IntegerModel`, its reference engine, its file, its cost. Numpy only, no torch."""

from hadamrnn.fixedpoint.model import IntegerModel

__all__ = ["IntegerModel"]

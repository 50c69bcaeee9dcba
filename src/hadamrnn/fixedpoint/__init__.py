"""The integer side: `IntegerModel`, its reference engine, its file, its cost. Numpy only, no torch."""

from hadamrnn.fixedpoint.encoding import encode_raw, encode_values, raw_encoding
from hadamrnn.fixedpoint.engine import BatchResult, Engine, State
from hadamrnn.fixedpoint.file import FILE_NAME, FileSize, file_size, load, save
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.fixedpoint.windows import SlidingWindow

__all__ = [
    "FILE_NAME",
    "BatchResult",
    "Engine",
    "FileSize",
    "IntegerModel",
    "SlidingWindow",
    "State",
    "encode_raw",
    "encode_values",
    "file_size",
    "load",
    "raw_encoding",
    "save",
]

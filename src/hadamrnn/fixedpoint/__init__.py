"""Integer networks: `IntegerModel`, its engine, its file and its cost. Needs numpy but not torch."""

from hadamrnn.fixedpoint.encoding import encode_inputs as encode_inputs
from hadamrnn.fixedpoint.encoding import encode_raw as encode_raw
from hadamrnn.fixedpoint.encoding import encode_values as encode_values
from hadamrnn.fixedpoint.encoding import raw_encoding as raw_encoding
from hadamrnn.fixedpoint.engine import BatchResult as BatchResult
from hadamrnn.fixedpoint.engine import Engine as Engine
from hadamrnn.fixedpoint.engine import SlidingWindow as SlidingWindow
from hadamrnn.fixedpoint.engine import State as State
from hadamrnn.fixedpoint.file import FileSize as FileSize
from hadamrnn.fixedpoint.file import file_size as file_size
from hadamrnn.fixedpoint.file import load as load
from hadamrnn.fixedpoint.file import save as save
from hadamrnn.fixedpoint.model import IntegerModel as IntegerModel

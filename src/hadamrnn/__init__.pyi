"""The public names and their modules: `__init__.py` reads them here, and so do type checkers."""

from hadamrnn.data.ett import read_ett as read_ett
from hadamrnn.data.har import HarPart as HarPart
from hadamrnn.data.har import read_har as read_har
from hadamrnn.data.recordings import RecordedWindows as RecordedWindows
from hadamrnn.data.recordings import read_recordings as read_recordings
from hadamrnn.data.splits import Split as Split
from hadamrnn.data.splits import Splits as Splits
from hadamrnn.data.tasks import load_task as load_task
from hadamrnn.errors import InputError as InputError
from hadamrnn.errors import SaturationWarning as SaturationWarning
from hadamrnn.estimators.classifier import HadamRNNClassifier as HadamRNNClassifier
from hadamrnn.estimators.detector import HadamRNNDetector as HadamRNNDetector
from hadamrnn.estimators.forecaster import HadamRNNForecaster as HadamRNNForecaster
from hadamrnn.estimators.regressor import HadamRNNRegressor as HadamRNNRegressor
from hadamrnn.export.c import export_arduino as export_arduino
from hadamrnn.export.c import export_c as export_c
from hadamrnn.export.onnx import export_onnx as export_onnx
from hadamrnn.fixedpoint.cost import fast_step_cost as fast_step_cost
from hadamrnn.fixedpoint.cost import network_size as network_size
from hadamrnn.fixedpoint.cost import paper_step_cost as paper_step_cost
from hadamrnn.fixedpoint.encoding import encode_raw as encode_raw
from hadamrnn.fixedpoint.engine import Engine as Engine
from hadamrnn.fixedpoint.engine import SlidingWindow as SlidingWindow
from hadamrnn.fixedpoint.model import IntegerModel as IntegerModel
from hadamrnn.front_end.reference import compute_bands as compute_bands
from hadamrnn.hadamard.orders import hadamard_matrix as hadamard_matrix
from hadamrnn.hadamard.orders import hadamard_orders as hadamard_orders
from hadamrnn.kernels.transform import hadamard_transform as hadamard_transform
from hadamrnn.network import Network as Network
from hadamrnn.nn.interface import Tokens as Tokens
from hadamrnn.nn.linear import QuantizedLinear as QuantizedLinear
from hadamrnn.nn.model import SequenceModel as SequenceModel
from hadamrnn.nn.normalization import refresh_statistics as refresh_statistics
from hadamrnn.nn.rnn import HadamRNN as HadamRNN
from hadamrnn.nn.storage import load_model as load_model
from hadamrnn.nn.storage import save_model as save_model
from hadamrnn.nn.weight import recurrent_weight as recurrent_weight
from hadamrnn.quantization import QuantizeConfig as QuantizeConfig
from hadamrnn.quantization.calibration import RawInputs as RawInputs
from hadamrnn.quantization.calibration import calibrate as calibrate
from hadamrnn.quantization.chain import quantize as quantize
from hadamrnn.quantization.lowering import lower as lower
from hadamrnn.run import Run as Run
from hadamrnn.run import RunOptions as RunOptions
from hadamrnn.run import resume as resume
from hadamrnn.run import train as train
from hadamrnn.training.config import TrainingConfig as TrainingConfig
from hadamrnn.training.config import make_config as make_config
from hadamrnn.training.config import resolve_config as resolve_config
from hadamrnn.training.evaluate import evaluate as evaluate
from hadamrnn.training.loop import fit as fit

__version__: str
__all__: list[str]

def __getattr__(name: str) -> object: ...

"""`hadamrnn bench inference`: measure sequences per second of one network in every installed engine.

    native             the integer engine in the native library, a batch in vector lanes; also on all cores
    numpy              the readable reference of that engine, in numpy
    c                  the exported C, compiled with the host's compiler, one stream at a time
    onnxruntime        the exported Scan, in float32 and in exact int64
    GRU, LSTM          in ONNX Runtime, float, with enough units for about the same accuracy
    torch              the float layer with its native kernels
    plain              torch, a loop over time with the dense recurrent matrix; its ratio is 1

Engines take turns, on one thread except for the native engine on all cores. One-thread times are CPU times of
that thread, because idle threads may spin at the same time; times on all cores are wall-clock times. The
result is the median of several rounds. Slow engines read only the first rows of the batch. Start at
`run_inference`.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from hadamrnn.errors import check_name
from hadamrnn.export.c import source_files
from hadamrnn.fixedpoint.drawn import draw_model
from hadamrnn.fixedpoint.engine import Engine, NativeNetwork
from hadamrnn.fixedpoint.integers import signed_range
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.kernels.library import load_library
from hadamrnn.network import Network
from hadamrnn.nn.model import SequenceModel
from hadamrnn_benchmarks.inference_limit import compiled, least_seconds
from hadamrnn_benchmarks.plain import plain_logits
from hadamrnn_benchmarks.training import milliseconds, torch_threads

Work = Callable[[], NDArray[np.generic]]
Codes = NDArray[np.int32]
GATES = {"GRU": 3, "LSTM": 4}  # gates of the usual alternatives


@dataclass(frozen=True)
class InferenceWork:
    """A network and the batch it reads."""

    name: str
    network: Network
    batch: int
    time: int
    numpy_rows: int  # rows of the batch for the numpy engine
    rows: int  # rows for the other engines; 0 skips engines that multiply by a dense matrix
    rival_units: int = 0  # units of a GRU and an LSTM; 0 for none


COPY = Network(10, 128, 9, input_kind="one_hot", activation_bits=12)
# LSTMs: 170 units reach 92 % on pMNIST (published), 80 units 91 % on HAR-2 (results/); none learns to copy.
SHAPES = {
    work.name: work
    for work in (
        InferenceWork("mnist", Network(1, 512, 10, activation_bits=12), 10_000, 784, 256, 32, 170),
        InferenceWork(
            "mnist5120", Network(1, 5120, 10, weight_bits=2, activation_bits=12), 1_000, 784, 32, 0
        ),
        InferenceWork("har", Network(9, 128, 2, activation_bits=12), 10_000, 128, 1_024, 128, 80),
        InferenceWork("copy", COPY, 2_000, 1020, 256, 64),
    )
}


@dataclass(frozen=True)
class InferenceRow:
    """The measurements of one engine on one shape."""

    shape: str
    engine: str
    sequences_per_second: float
    steps_per_second: float
    nanoseconds_per_step: float
    ratio: float | None  # speed relative to the plain loop, if it ran
    numpy_ratio: float  # speed relative to the numpy engine
    limit_share: float | None = None  # native engine only: least time for the additions / measured time


def run_inference(names: list[str], rounds: int = 3) -> tuple[list[InferenceRow], list[str]]:
    """Measure each shape; return the rows, and the skipped shapes with the reasons."""
    for name in names:
        check_name("A shape", name, SHAPES)
    rows: list[InferenceRow] = []
    left_out: set[str] = set()
    for name in names:
        with ExitStack() as stack, torch_threads(1), threadpool_limits(1):
            rows += _run_shape(SHAPES[name], rounds, left_out, stack)
    return rows, sorted(left_out)


@dataclass(frozen=True)
class _Timed:
    """The work of one engine, the rows it reads, and the clock that times it."""

    work: Work
    rows: int
    clock: Callable[[], float] = time.thread_time


def _run_shape(case: InferenceWork, rounds: int, left_out: set[str], stack: ExitStack) -> list[InferenceRow]:
    model = draw_model(case.network, case.name)
    codes = draw_codes(model, case.batch, case.time)
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hadamrnn-")))
    engines = _integer_engines(case, model, codes, folder, left_out)
    if case.rows:
        engines |= {name: _Timed(work, case.rows) for name, work in _torch_works(case).items()}
        engines |= _onnx_engines(case, model, codes, folder, left_out)
    for engine in engines.values():
        engine.work()
    times = [
        {name: milliseconds(engine.work, clock=engine.clock) for name, engine in engines.items()}
        for _ in range(rounds)
    ]
    seconds = {name: median(one[name] for one in times) / 1e3 / engines[name].rows for name in engines}
    library, limit = load_library(), None
    if library is not None and "c" in engines:
        limit = least_seconds(NativeNetwork(model, library), model, folder)
    return [
        InferenceRow(
            shape=case.name,
            engine=name,
            sequences_per_second=1 / taken,
            steps_per_second=case.time / taken,
            nanoseconds_per_step=1e9 * taken / case.time,
            ratio=seconds["plain"] / taken if "plain" in seconds else None,
            numpy_ratio=seconds["numpy"] / taken,
            limit_share=limit * case.time / taken if name == "native" and limit is not None else None,
        )
        for name, taken in sorted(seconds.items(), key=lambda item: item[1])
    ]


def _integer_engines(
    case: InferenceWork, model: IntegerModel, codes: Codes, folder: Path, left_out: set[str]
) -> dict[str, _Timed]:
    """Return the integer engines after checking that they give the same bits."""
    few = codes[: case.numpy_rows]
    engines = {"numpy": _Timed(engine_work(model, few, native=False), len(few))}
    if load_library() is not None:
        engines["native"] = _Timed(engine_work(model, codes), len(codes))
        if (cores := os.cpu_count() or 1) > 1:
            on_all = engine_work(model, codes, threads=cores)
            engines[f"native, {cores} threads"] = _Timed(on_all, len(codes), time.perf_counter)
    else:
        left_out.add("native: no native library")
    if shutil.which("cc"):
        engines["c"] = _Timed(c_work(model, few, folder), len(few))
    else:
        left_out.add("c: no C compiler (cc)")
    expected = engines["numpy"].work()
    for name, engine in engines.items():
        if not np.array_equal(engine.work()[: len(few)], expected):
            raise AssertionError(f"{name} is not the reference engine")
    return engines


def _onnx_engines(
    case: InferenceWork, model: IntegerModel, codes: Codes, folder: Path, left_out: set[str]
) -> dict[str, _Timed]:
    if not (importlib.util.find_spec("onnx") and importlib.util.find_spec("onnxruntime")):
        left_out.add("onnxruntime: not installed, pip install 'hadamrnn[onnx]'")
        return {}
    from hadamrnn.export.onnx import export_onnx

    network, floats = _float_network(case)
    exported = export_onnx(folder / "onnx", float_model=network, integer_model=model)
    values = codes[: case.rows] * model.raw_unit if model.input_kind == "dense" else codes[: case.rows]
    works = {
        "onnxruntime": _onnx_work(exported / "net_sequence.onnx", floats.numpy()),
        "onnxruntime, integer": _onnx_work(exported / "net_integer_sequence.onnx", values),
    }
    if case.rival_units:
        x = np.random.default_rng(0).random((case.rows, case.time, model.input_size), np.float32)
        for kind in GATES:
            name = f"onnxruntime, {kind} {case.rival_units}"
            graph = rival_graph(kind, case.rival_units, model.input_size, model.output_size)
            works[name] = _onnx_work(graph, np.ascontiguousarray(x.swapaxes(0, 1)))  # reads time first
    return {name: _Timed(work, case.rows) for name, work in works.items()}


def draw_codes(model: IntegerModel, batch: int, time: int) -> Codes:
    """Return random input codes or ids, `(batch, time, ...)`."""
    rng = np.random.default_rng(0)
    if model.input_kind == "dense":
        low, high = signed_range(model.input_bits)
        return rng.integers(low, high + 1, (batch, time, model.input_size)).astype(np.int32)
    return rng.integers(0, model.vocabulary_size, (batch, time)).astype(np.int32)


def engine_work(model: IntegerModel, codes: Codes, *, native: bool = True, threads: int = 1) -> Work:
    engine = Engine(model, native=native)
    return lambda: engine.run(codes, threads=threads).logits


def c_work(model: IntegerModel, codes: Codes, folder: Path) -> Work:
    """Compile the export of `model` in `folder`; return a function that runs a batch in C."""
    dense = model.input_kind == "dense"
    for name, text in source_files(model, "net").items():
        (folder / name).write_text(text)
    run_batch = compiled(folder, "batch.c", "net.c", *([] if dense else ["-DIDS"])).run_batch
    run_batch.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long, ctypes.c_long]
    run_batch.restype = None
    inputs = np.ascontiguousarray(codes, np.int16 if dense else np.uint32)
    logits = np.zeros((len(codes), model.output_size), np.int32)

    def work() -> NDArray[np.int32]:
        run_batch(inputs.ctypes.data, logits.ctypes.data, *codes.shape[:2])
        return logits

    return work


def _torch_works(case: InferenceWork) -> dict[str, Work]:
    """Return the layer's forward pass and the dense loop, on a float network of the same shape."""
    model, x = _float_network(case)
    without_gradients = torch.no_grad()
    return {
        "torch": without_gradients(lambda: np.asarray(model(x))),
        "plain": without_gradients(lambda: np.asarray(plain_logits(model, x))),
    }


def _float_network(case: InferenceWork) -> tuple[SequenceModel, torch.Tensor]:
    network = replace(case.network, activation_bits=None)
    torch.manual_seed(0)
    size = (case.rows, case.time)
    inputs = network.input_size
    x = torch.randint(inputs, size) if network.takes_ids else torch.rand(*size, inputs)
    return SequenceModel(network).eval(), x


def _onnx_work(graph: Path | bytes, inputs: NDArray[np.generic]) -> Work:
    """Return a function that runs a batch to its last logits on one thread."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    kinds = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(int64)": np.int64}
    x = inputs.astype(kinds[session.get_inputs()[0].type])
    return lambda: np.asarray(session.run(["logits"], {"x": x})[0])


def rival_graph(kind: str, units: int, inputs: int, outputs: int) -> bytes:
    """Return a random ONNX model: one recurrent operator and a linear layer on its last state."""
    from onnx import TensorProto, helper, numpy_helper

    rng, rows = np.random.default_rng(0), GATES[kind] * units

    def weight(name: str, *shape: int) -> Any:
        values = rng.normal(0, 1 / np.sqrt(units), shape).astype(np.float32)
        return numpy_helper.from_array(values, name)

    nodes = [
        helper.make_node(kind, ["x", "W", "R", "B"], ["", "h"], hidden_size=units),
        helper.make_node("Squeeze", ["h", "axes"], ["last"]),
        helper.make_node("MatMul", ["last", "V"], ["logits"]),
    ]
    graph = helper.make_graph(
        nodes,
        kind,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["time", "batch", inputs])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", outputs])],
        [
            weight("W", 1, rows, inputs),
            weight("R", 1, rows, units),
            weight("B", 1, 2 * rows),
            weight("V", units, outputs),
            numpy_helper.from_array(np.array([0]), "axes"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    serialized: bytes = model.SerializeToString()
    return serialized

"""`hadamrnn bench inference`: sequences per second of one network, by every engine that is installed.

    c                  the exported C, compiled by the host's compiler, one stream at a time
    numpy              the reference engine, batched
    onnxruntime        the exported Scan, in float32 and in exact int64
    torch              the layer's own fast forms
    plain              torch, a loop over time with the dense recurrent matrix: ratio 1

All run on one thread, in turns; times are medians of several rounds. Start at `run_inference`.
"""

from __future__ import annotations

import ctypes
import importlib.util
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import numpy as np
import torch
from numpy.typing import NDArray

from hadamrnn.baselines.networks import build_model
from hadamrnn.errors import InputError, check_name
from hadamrnn.export.c import source_files
from hadamrnn.fixedpoint.drawn import draw_model
from hadamrnn.fixedpoint.engine import Engine
from hadamrnn.fixedpoint.integers import signed_range
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.network import Network
from hadamrnn.nn.model import SequenceModel

Work = Callable[[], NDArray[np.generic]]


@dataclass(frozen=True)
class InferenceWork:
    """A network and the batch it reads."""

    name: str
    network: Network
    batch: int
    time: int


COPY = Network(10, 128, 9, input_kind="one_hot", activation_bits=12)
SHAPES = {
    "mnist": InferenceWork("mnist", Network(1, 512, 10, activation_bits=12), batch=32, time=784),
    "har": InferenceWork("har", Network(9, 128, 2, activation_bits=12), batch=128, time=128),
    "copy": InferenceWork("copy", COPY, batch=64, time=1020),
}

# A batch of streams, each from a zero state to its last logits: the loop a gateway would write.
_DRIVER = """
#include "net.h"
void run_batch(const {type} *x, int32_t *logits, long batch, long time);
void run_batch(const {type} *x, int32_t *logits, long batch, long time)
{{
    for (long row = 0; row < batch; row++, logits += NET_OUTPUT_SIZE) {{
        net_state state;
        net_init(&state);
        for (long t = 0; t < time; t++, x += {stride})
            net_step(&state, {argument});
        net_logits(&state, logits);
    }}
}}
"""


@dataclass(frozen=True)
class InferenceRow:
    """What was measured of one shape by one engine."""

    shape: str
    engine: str
    sequences_per_second: float
    steps_per_second: float
    ratio: float  # to the plain loop


def run_inference(names: list[str], rounds: int = 3) -> tuple[list[InferenceRow], list[str]]:
    """Measure each shape; return the rows, and what was left out with the reason."""
    for name in names:
        check_name("A shape", name, SHAPES)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    rows: list[InferenceRow] = []
    left_out: set[str] = set()
    try:
        for name in names:
            with ExitStack() as stack:
                rows += _run_shape(SHAPES[name], rounds, left_out, stack)
    finally:
        torch.set_num_threads(threads)
    return rows, sorted(left_out)


def _run_shape(case: InferenceWork, rounds: int, left_out: set[str], stack: ExitStack) -> list[InferenceRow]:
    model = draw_model(case.network, case.name)
    codes = draw_codes(model, case.batch, case.time)
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hadamrnn-")))
    works: dict[str, Work] = {**_torch_works(case), "numpy": numpy_work(model, codes)}
    if shutil.which("cc"):
        works["c"] = c_work(model, codes, folder)
        if not np.array_equal(works["c"](), works["numpy"]()):
            raise AssertionError("C is not the reference engine")
    else:
        left_out.add("c: no C compiler (cc)")
    if importlib.util.find_spec("onnx") and importlib.util.find_spec("onnxruntime"):
        works.update(_onnx_works(case, model, codes, folder))
    else:
        left_out.add("onnxruntime: not installed, pip install 'hadamrnn[onnx]'")
    for work in works.values():
        work()
    times = [{name: _seconds(work) for name, work in works.items()} for _ in range(rounds)]
    seconds = {name: median(one[name] for one in times) for name in works}
    return [
        InferenceRow(
            shape=case.name,
            engine=name,
            sequences_per_second=case.batch / taken,
            steps_per_second=case.batch * case.time / taken,
            ratio=seconds["plain"] / taken,
        )
        for name, taken in sorted(seconds.items(), key=lambda item: item[1])
    ]


def draw_codes(model: IntegerModel, batch: int, time: int) -> NDArray[np.int32]:
    """Return random input codes or ids, `(batch, time, ...)`."""
    rng = np.random.default_rng(0)
    if model.input_kind == "dense":
        low, high = signed_range(model.input_bits)
        return rng.integers(low, high + 1, (batch, time, model.input_size)).astype(np.int32)
    return rng.integers(0, model.vocabulary_size, (batch, time)).astype(np.int32)


def numpy_work(model: IntegerModel, codes: NDArray[np.int32]) -> Work:
    engine = Engine(model)
    return lambda: engine.run(codes, threads=1).logits


def c_work(model: IntegerModel, codes: NDArray[np.int32], folder: Path) -> Work:
    """Compile the export of `model` in `folder`; return the batch run of its C."""
    dense = model.input_kind == "dense"
    driver = _DRIVER.format(
        type="int16_t" if dense else "uint32_t",
        stride="NET_INPUT_SIZE" if dense else "1",
        argument="x" if dense else "*x",
    )
    for name, text in {**source_files(model, "net"), "driver.c": driver}.items():
        (folder / name).write_text(text)
    command = "cc -std=c99 -O3 -march=native -shared -fPIC net.c driver.c -o net.so"
    built = subprocess.run(command.split(), cwd=folder, capture_output=True, text=True)
    if built.returncode:
        raise InputError(f"cc failed: {built.stderr[:200]}")
    run_batch = ctypes.CDLL(str(folder / "net.so")).run_batch
    run_batch.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long, ctypes.c_long]
    run_batch.restype = None
    inputs = np.ascontiguousarray(codes, np.int16 if dense else np.uint32)
    logits = np.zeros((len(codes), model.output_size), np.int32)

    def work() -> NDArray[np.int32]:
        run_batch(inputs.ctypes.data, logits.ctypes.data, *codes.shape[:2])
        return logits

    return work


def _torch_works(case: InferenceWork) -> dict[str, Work]:
    """Return the layer's forward and the dense loop on a float network of the same shape."""
    model, x = _float_network(case)

    def fast() -> NDArray[np.float32]:
        with torch.no_grad():
            return np.asarray(model(x))

    def plain() -> NDArray[np.float32]:
        with torch.no_grad():
            return np.asarray(plain_forward(model, x))

    return {"torch": fast, "plain": plain}


def _float_network(case: InferenceWork) -> tuple[SequenceModel, torch.Tensor]:
    network = replace(case.network, activation_bits=None)
    torch.manual_seed(0)
    size = (case.batch, case.time)
    inputs = network.input_size
    x = torch.randint(inputs, size) if network.takes_ids else torch.rand(*size, inputs)
    return build_model(network).eval(), x


def plain_forward(model: SequenceModel, x: torch.Tensor) -> torch.Tensor:
    """Return V sigma(h_T) + b_o with h_t = W h_(t-1) + U x_t + b_i, W dense, step by step."""
    from hadamrnn.nn.cell import HadamCell
    from hadamrnn.nn.rnn import HadamRNN
    from hadamrnn.nn.straight_through import quantize
    from hadamrnn.nn.weight import recurrent_weight

    assert isinstance(model.recurrent, HadamRNN)
    cell = model.recurrent.cells[0]
    assert isinstance(cell, HadamCell)
    weight = recurrent_weight(cell.signs(), cell.block_size)
    projection = quantize(cell.input_weight, cell.weight_bits)
    vectors = torch.nn.functional.one_hot(x, cell.input_weight.shape[1]).float() if model.one_hot else x
    h = x.new_zeros(len(x), cell.hidden_size, dtype=weight.dtype)
    for t in range(x.shape[1]):
        h = h @ weight.T + torch.nn.functional.linear(vectors[:, t], projection, cell.input_bias)
    return torch.as_tensor(model.readout(torch.relu(h)))


def _onnx_works(
    case: InferenceWork, model: IntegerModel, codes: NDArray[np.int32], folder: Path
) -> dict[str, Work]:
    import onnxruntime

    from hadamrnn.export.onnx import export_onnx

    network, x = _float_network(case)
    exported = export_onnx(folder / "onnx", float_model=network, integer_model=model)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1

    def work(file: str, inputs: NDArray[np.generic]) -> Work:
        session = onnxruntime.InferenceSession(exported / file, options, providers=["CPUExecutionProvider"])

        def one() -> NDArray[np.generic]:
            return np.asarray(session.run(["logits"], {"x": inputs})[0])

        return one

    return {
        "onnxruntime": work("net_sequence.onnx", x.numpy()),
        "onnxruntime, integer": work("net_integer_sequence.onnx", codes.astype(np.int64)),
    }


def _seconds(work: Work) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start

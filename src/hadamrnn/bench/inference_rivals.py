"""What users pick instead, a float GRU or LSTM as ONNX Runtime's own operator, with random weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

GATES = {"GRU": 3, "LSTM": 4}


def rival_work(
    kind: str, units: int, x: NDArray[np.float32], outputs: int
) -> Callable[[], NDArray[np.float32]]:
    """Return the run of a batch `(batch, time, inputs)` to its last logits, on one thread."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    graph = rival_graph(kind, units, x.shape[2], outputs)
    session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    steps = np.ascontiguousarray(x.swapaxes(0, 1))  # the operator reads (time, batch, inputs)

    def work() -> NDArray[np.float32]:
        return np.asarray(session.run(["logits"], {"x": steps})[0])

    return work


def rival_graph(kind: str, units: int, inputs: int, outputs: int) -> bytes:
    """Return an ONNX model: one recurrent operator, and a product with its last state."""
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

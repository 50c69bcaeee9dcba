"""ONNX graphs in onnxruntime, for tests that have checked that both packages are installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np


def session(folder: Path, file: str) -> Any:
    """Return a session for the graph; the runtime would warn of an unused constant."""
    import onnx
    import onnxruntime

    graph = onnx.load(folder / file).graph
    assert {constant.name for constant in graph.initializer} <= read_names(graph)
    return onnxruntime.InferenceSession(folder / file, providers=["CPUExecutionProvider"])


def read_names(graph: Any) -> set[str]:
    """Return the names that the nodes of a graph read, those of inner graphs too."""
    names = {name for node in graph.node for name in node.input}
    inner = [each.g for node in graph.node for each in node.attribute if each.HasField("g")]
    return names.union(*map(read_names, inner))


def stepwise(step: Any, x: Any) -> list[Any]:
    """Return the logits after each step, every part of the state carried from one to the next."""
    kinds = {"tensor(int64)": np.int64, "tensor(float)": np.float32}
    state = {part.name: np.zeros((len(x), part.shape[1]), kinds[part.type]) for part in step.get_inputs()[1:]}
    logits = []
    for t in range(x.shape[1]):
        found, *parts = step.run(["logits", *(f"{name}_next" for name in state)], {"x": x[:, t], **state})
        state = dict(zip(state, parts, strict=True))
        logits.append(found)
    return logits

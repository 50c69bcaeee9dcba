"""Write a run as ONNX: the weight-quantized float network and the integer network, by step and by sequence.

    NAME_step.onnx               x (batch, ...), h -> logits, h_next
    NAME_sequence.onnx           x (batch, time, ...) -> logits, h_last
    NAME_integer_step.onnx       the same in int64, equal to the reference engine bit for bit
    NAME_integer_sequence.onnx

Every graph takes x in the units of the training data, as float64 values or ids. Its metadata has the classes
and each channel's offset and scale. The state of a stack, a pooled network or a reservoir has more parts than
h; see the recipe of its kind. Only the float network needs torch. A reservoir has only integer graphs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hadamrnn.errors import InputError
from hadamrnn.export.folder import MARKER, check_name, fresh_folder
from hadamrnn.export.onnx_graph import (
    Builder,
    LayeredRecipe,
    Recipe,
    State,
    TensorProto,
    sequence_model,
    step_model,
    transform,
)
from hadamrnn.export.onnx_integer import IntegerRecipe, ReservoirRecipe
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.network import check_deployable
from hadamrnn.packages import package_version
from hadamrnn.reservoir.model import IntegerReservoir

if TYPE_CHECKING:
    from hadamrnn.nn.model import SequenceModel


def export_onnx(
    out: Path | str,
    name: str = "net",
    *,
    float_model: SequenceModel | None = None,
    integer_model: IntegerModel | IntegerReservoir | None = None,
    units: ValueUnits | None = None,
    class_names: Sequence[str] = (),
    force: bool = False,
) -> Path:
    """Write the graphs of the given networks to the new folder `out`; return it.

    Args:
        units, class_names: for the float network; an integer network has its own.
    """
    check_name(name)
    recipes: dict[str, Recipe] = {}
    if float_model is not None:
        recipes[name] = FloatRecipe(float_model, units or ValueUnits(), class_names)
    if isinstance(integer_model, IntegerReservoir):
        recipes[f"{name}_integer"] = ReservoirRecipe(integer_model)
    elif integer_model is not None:
        recipes[f"{name}_integer"] = IntegerRecipe(integer_model)
    if not recipes:
        raise InputError("ONNX needs a trained or a quantized network, got neither. Train first.")
    files: dict[str, str | bytes] = {}
    lines = [f"# {name}", "", f"{MARKER} {package_version()}.", ""]
    for stem, recipe in recipes.items():
        files[f"{stem}_step.onnx"] = step_model(recipe, stem).SerializeToString()
        files[f"{stem}_sequence.onnx"] = sequence_model(recipe, stem).SerializeToString()
        lines += [
            f"- `{stem}_step.onnx`: x, state -> logits, next state; {recipe.numbers}; any batch size",
            f"- `{stem}_sequence.onnx`: x -> logits, last state; {recipe.numbers}; any batch size and length",
        ]
    lines += [
        "",
        "x holds ids, values in the units of the training data, or behind a front end its codes, in float64.",
        "The metadata of each graph has, in JSON, the classes in the order of the logits, and offset and",
        "scale of each channel. A single logit separates two classes: positive for the second.",
    ]
    files["README.md"] = "\n".join([*lines, ""])
    return fresh_folder(Path(out), files, force=force)


@dataclass(frozen=True, eq=False)
class ValueUnits:
    """The units that a float network was trained with; None leaves inputs or outputs unscaled.

        v = (x - offset) / scale        y = output * target_scale + target_offset

    v is the network's input and x a value of the training data, or `compress(value, knee)`.
    """

    offset: NDArray[np.float64] | None = None  # (channels,), with scale
    scale: NDArray[np.float64] | None = None
    knee: NDArray[np.float64] | None = None  # (channels,), 0 for a channel that is not compressed
    target_offset: NDArray[np.float64] | None = None  # (outputs,), with target_scale
    target_scale: NDArray[np.float64] | None = None


class FloatRecipe(LayeredRecipe):
    """A `SequenceModel` of unidirectional Hadamard layers, in float32 with quantized weights."""

    dtype = np.float32
    element = TensorProto.FLOAT
    numbers = "float32, quantized weights"

    def __init__(self, model: SequenceModel, units: ValueUnits, class_names: Sequence[str]) -> None:
        network = model.hadamard_layers.network
        check_deployable(network, "A network in ONNX")
        self.model, self.layers = model, model.hadamard_layers
        self.network = network
        self.thresholds = None if model.thresholds is None else model.thresholds.detach().cpu().numpy()
        self.units = units
        self.answer = TensorProto.FLOAT if units.target_scale is None else TensorProto.DOUBLE
        self.properties = {"classes": list(class_names)}
        if units.offset is not None and units.scale is not None:
            self.properties |= {"offset": units.offset.tolist(), "scale": units.scale.tolist()}

    def admit(self, build: Builder, x: str, state: State) -> tuple[str, str | None]:
        if self.model.embedding is not None:
            return build.op("Gather", self._weights(build, self.model.embedding.weight), x), None
        if self.network.takes_ids:
            return x, None
        if self.units.knee is not None:
            x = self._compressed(build, x, self.units.knee)
        if self.units.offset is not None and self.units.scale is not None:
            x = build.op("Sub", x, build.constant(self.units.offset, np.float64))
            x = build.op("Div", x, build.constant(self.units.scale, np.float64))
        return build.op("Cast", x, to=self.element), None

    @staticmethod
    def _compressed(build: Builder, x: str, knee: NDArray[np.float64]) -> str:
        """Return `compress(x, knee)`: sign(x) (e + a / 2^e - 1), a = 1 + |x| / knee, 2^e <= a < 2^(e + 1)."""

        def number(value: ArrayLike) -> str:
            return build.constant(value, np.float64)

        above = build.op(
            "Add", build.op("Div", build.op("Abs", x), number(np.where(knee > 0, knee, 1))), number(1)
        )
        logarithm = build.op("Div", build.op("Log", above), number(np.log(2)))
        octave = build.op("Floor", logarithm)  # may be off by one near a power of two
        power = build.op("Pow", number(2), octave)
        rest = build.op("Sub", build.op("Div", above, power), number(1))
        # The result is continuous at powers of two, so it hardly changes if e is off by one.
        octaves = build.op("Mul", build.op("Sign", x), build.op("Add", octave, rest))
        return build.op("Where", build.constant(knee > 0, np.bool_), octaves, x)

    def layer(self, build: Builder, index: int, x: str, h: str) -> str:
        cell = self.layers.cell(index)
        signs = cell.signs() / cell.block_size**0.5
        signs = signs if cell.decay is None else signs * cell.decay
        mixed = transform(build, h, cell.hidden_size, self.network.num_blocks, self.dtype)
        state = build.op("Mul", mixed, self._weights(build, signs))
        weight = self._weights(build, cell.quantized_weight().T)
        hot = index == 0 and self.network.input_kind == "one_hot"
        drive = build.op("Gather", weight, x) if hot else build.op("MatMul", x, weight)
        state = build.op("Add", state, drive)
        if cell.input_bias is not None:
            state = build.op("Add", state, self._weights(build, cell.input_bias))
        return build.op("Relu", state) if self.network.recurrence == "relu" else state

    def output(self, build: Builder, index: int, x: str, h: str) -> str:
        if index < len(self.layers.norms):
            scale, bias = self.layers.norm(index).folded()
            h = build.op("Add", build.op("Mul", h, self._weights(build, scale)), self._weights(build, bias))
        y = build.op("Relu", h)
        return build.op("Add", y, x) if self.network.has_skip(index) else y

    def strided(self, build: Builder, total: str) -> str:
        return build.op("Div", total, build.constant(self.network.stride, np.float32))

    def readout(self, build: Builder, state: State) -> str:
        parts = [self._feature(build, state, kind) for kind in self.network.readouts]
        features = build.op("Concat", *parts, axis=1)
        scales, weight, bias = self.model.folded_readout()
        logits = build.op("MatMul", features, self._weights(build, (weight * scales).T))
        logits = build.op("Add", logits, self._weights(build, bias))
        if self.units.target_scale is None or self.units.target_offset is None:
            return logits
        logits = build.op("Cast", logits, to=self.answer)
        logits = build.op("Mul", logits, build.constant(self.units.target_scale, np.float64))
        return build.op("Add", logits, build.constant(self.units.target_offset, np.float64))

    def _feature(self, build: Builder, state: State, kind: str) -> str:
        if kind == "last":
            h = state[self.hidden(self.network.num_layers - 1)]
            return h if self.network.recurrence == "relu" else build.op("Relu", h)
        if kind == "max":
            return state[kind]
        steps = build.op("Max", self.top_steps(build, state), build.constant(1, np.int64))
        return build.op("Div", state[kind], build.op("Cast", steps, to=self.element))

    @staticmethod
    def _weights(build: Builder, tensor: Any) -> str:
        return build.constant(tensor.detach().cpu().numpy(), np.float32)

"""ONNX of a run: the weight-quantized float network and the integer network, each by step and by sequence.

    NAME_step.onnx               x (batch, ...), h -> logits, h_next
    NAME_sequence.onnx           x (batch, time, ...) -> logits, h_last
    NAME_integer_step.onnx       the same in int64, equal to the reference engine bit for bit
    NAME_integer_sequence.onnx

Every graph takes x in the units of the training data: float64 values, or ids. Its metadata has the classes,
and offset and scale of each channel. A network that stacks or counts has more parts to its state than h: see
`onnx_graph.Recipe`. The float network alone needs torch.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hadamrnn.errors import InputError, missing_package
from hadamrnn.export.folder import MARKER, check_name, fresh_folder

if importlib.util.find_spec("onnx") is None:
    raise missing_package("ONNX graphs", "onnx", "onnx")

from hadamrnn.export.onnx_float import FloatRecipe
from hadamrnn.export.onnx_float import ValueUnits as ValueUnits
from hadamrnn.export.onnx_graph import Recipe, sequence_model, step_model
from hadamrnn.export.onnx_integer import IntegerRecipe
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.packages import package_version

if TYPE_CHECKING:
    from hadamrnn.nn.model import SequenceModel


def export_onnx(
    out: Path | str,
    name: str = "net",
    *,
    float_model: SequenceModel | None = None,
    integer_model: IntegerModel | None = None,
    units: ValueUnits | None = None,
    class_names: Sequence[str] = (),
    force: bool = False,
) -> Path:
    """Write the graphs of the given networks to the new folder `out`; return it.

    Args:
        units, class_names: of the float network; an integer network has its own.
    """
    check_name(name)
    recipes: dict[str, Recipe] = {}
    if float_model is not None:
        recipes[name] = FloatRecipe(float_model, units or ValueUnits(), class_names)
    if integer_model is not None:
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
        "x holds ids, or values in the units of the training data, in float64. The metadata of each graph",
        "has, in JSON, the classes in the order of the logits, and offset and scale of each channel.",
    ]
    files["README.md"] = "\n".join([*lines, ""])
    return fresh_folder(Path(out), files, force=force)

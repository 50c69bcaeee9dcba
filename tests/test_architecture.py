"""The allowed imports between packages, read from the sources with `ast`."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import hadamrnn

SOURCE = Path(__file__).parents[1] / "src" / "hadamrnn"

# Each package with the packages that it may import; all may import the common ones.
COMMON = {
    *("architecture", "errors", "files", "front_end", "interrupts", "network", "packages", "settings"),
}
TRAINING = {"data", "hadamard", "nn", "training"}
ALL_BELOW = {
    *(*TRAINING, "hadamard", "kernels", "fixedpoint", "reservoir", "quantization", "export", "deployment"),
    "run",
}
ALLOWED: dict[str, set[str]] = {
    **{name: set() for name in COMMON},
    "network": {"hadamard"},
    "front_end": {"kernels"},
    "hadamard": set(),
    "kernels": {"hadamard"},
    "nn": {"kernels", "hadamard"},
    "data": set(),
    "training": TRAINING,
    "fixedpoint": {"hadamard", "kernels", "runtime"},
    "reservoir": {"fixedpoint", "kernels", "hadamard"},
    "quantization": {*TRAINING, "fixedpoint", "hadamard"},
    "runtime": set(),
    "export": {"fixedpoint", "hadamard", "pages", "reservoir", "runtime"},
    "export.onnx": {"nn", "fixedpoint", "hadamard", "reservoir"},
    "deployment": {*TRAINING, "fixedpoint", "reservoir", "quantization", "export"},
    "run": {*TRAINING, "fixedpoint", "quantization", "export", "deployment"},
    "streams": {*TRAINING, "fixedpoint", "quantization", "run"},
    "models": {"fixedpoint"},
    "pages": set(),
    "estimators": ALL_BELOW,
    "search": {*ALL_BELOW, "pages"},
    "demo": {*ALL_BELOW, "pages"},
    "cli": {*ALL_BELOW, "demo", "estimators", "models", "pages", "search", "streams"},
    "__main__": {"cli"},
    "__init__": {*ALL_BELOW, "estimators"},
}
TORCH_FREE = (
    "front_end",
    "hadamard",
    "runtime",
    "fixedpoint",
    "reservoir",
    "export",
    "models",
    "pages",
    "architecture",
    "errors",
    "files",
    "interrupts",
    "packages",
    "settings",
)


def modules() -> list[str]:
    found = (path.relative_to(SOURCE).with_suffix("") for path in SOURCE.rglob("*.py"))
    return sorted(".".join(path.parts).removesuffix(".__init__") for path in found)


def imports(module: str) -> Iterator[str]:
    """Yield the full names that a module imports, wherever in the file."""
    path = SOURCE.joinpath(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: imports are absolute"
            if node.module == "hadamrnn":
                yield from (f"hadamrnn.{alias.name}" for alias in node.names)
            else:
                yield f"{node.module}"


# The dataclasses whose fields change: estimators, as scikit-learn asks, and the state of what goes on.
CHANGING = {"Counters", "State", "SampleStream"}
ESTIMATORS = {
    *("SeriesEstimator", "CountedForm"),
    *("HadamRNNClassifier", "HadamRNNDetector", "HadamRNNForecaster"),
}


@pytest.mark.parametrize("module", modules())
def test_dataclasses_are_frozen_but_for_estimators_and_states(module: str) -> None:
    path = SOURCE.joinpath(*module.split("."))
    tree = ast.parse((path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name not in CHANGING | ESTIMATORS:
            for decorator in map(ast.unparse, node.decorator_list):
                assert not decorator.startswith("dataclass") or "frozen=True" in decorator, node.name


@pytest.mark.parametrize("module", modules())
def test_a_module_imports_only_what_lies_to_its_left(module: str) -> None:
    room = module.split(".")[0]
    allowed = ALLOWED.get(module, ALLOWED[room]) | COMMON | {room}
    for name in imports(module):
        parts = name.split(".")
        if parts[0] == "hadamrnn":
            assert len(parts) > 1 and parts[1] in allowed, f"{module} may not import {name}"


@pytest.mark.parametrize("module", modules())
def test_the_library_imports_neither_the_reproduction_nor_the_benchmarks(module: str) -> None:
    roots = {name.split(".")[0] for name in imports(module)}

    assert not roots & {"hadamrnn_paper", "hadamrnn_benchmarks", "reproduction", "benchmarks", "tests"}


@pytest.mark.parametrize("module", modules())
def test_the_integer_half_never_imports_torch(module: str) -> None:
    if module.split(".")[0] in TORCH_FREE:
        assert not any(name.split(".")[0] == "torch" for name in imports(module)), module


@pytest.mark.parametrize("room", ["hadamard", "fixedpoint", "reservoir", "export", "pages"])
def test_the_integer_half_runs_in_a_process_without_torch(room: str) -> None:
    parts = [module for module in modules() if module.split(".")[0] == room]
    code = "import sys\n" + "".join(f"import hadamrnn.{part}\n" for part in parts)
    code += "sys.exit('torch loaded' if 'torch' in sys.modules else 0)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_public_names_resolve_and_unknown_ones_do_not() -> None:
    for name in hadamrnn.__all__:
        assert name == "__version__" or getattr(hadamrnn, name) is not None
    assert set(dir(hadamrnn)) == set(hadamrnn.__all__)
    with pytest.raises(AttributeError, match="no attribute 'HadamLSTM'"):
        _ = hadamrnn.HadamLSTM

"""The table of docs/export.md: which networks have which exports."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hadamrnn import HadamRNNClassifier, HadamRNNDetector, HadamRNNForecaster, HadamRNNRegressor
from hadamrnn.cli import main
from tests.conftest import Command

PAGE = Path(__file__).parents[2] / "docs" / "export.md"
COLUMNS = ("network of", "C, Arduino, JavaScript", "shared C build", "ONNX", "page")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 20, 2)).cumsum(1)
LABELS = np.where(X[:, -1, 0] > 0, "up", "down")


def save(folder: Path, estimator: Any, *data: Any) -> Path:
    """Return the file of a fitted estimator's integer network."""
    estimator.set_params(random_state=0).fit(*data).quantize().save(folder / "net.safetensors")
    return folder / "net.safetensors"


def train(folder: Path, y: Any) -> Path:
    """Return the folder of a run."""
    np.savez(folder / "train.npz", x=X, y=y)
    settings = ("--hidden-size", "16", "--epochs", "1", "--min-steps", "1", "--quiet")
    assert main(["train", str(folder / "train.npz"), "--out", str(folder / "run"), *settings]) == 0
    return folder / "run"


NETWORKS: dict[str, Callable[[Path], Path]] = {
    "`HadamRNNClassifier()`": lambda folder: save(folder, HadamRNNClassifier(), X, LABELS),
    '`HadamRNNClassifier(solver="ridge")`': lambda folder: save(
        folder, HadamRNNClassifier(solver="ridge"), X, LABELS
    ),
    "`HadamRNNRegressor()`": lambda folder: save(folder, HadamRNNRegressor(), X, X[:, -1, 0]),
    "`HadamRNNForecaster()`": lambda folder: save(
        folder, HadamRNNForecaster(horizon=4, lookback=8, draws=1), X.reshape(-1, 2)
    ),
    "`HadamRNNDetector()`": lambda folder: save(folder, HadamRNNDetector(32), X.reshape(-1, 2)),
    "`hadamrnn train` on labels": lambda folder: train(folder, LABELS),
    "`hadamrnn train` on values": lambda folder: train(folder, X[:, -1, 0]),
}


def documented() -> dict[str, dict[str, str]]:
    """Return the cells of the table by row and column."""
    lines = [line.strip("| ").split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("|")]
    start = lines.index(list(COLUMNS)) + 2
    rows = lines[start : start + len(NETWORKS)]
    return {row[0]: dict(zip(COLUMNS[1:], row[1:], strict=True)) for row in rows}


def test_the_table_has_a_row_for_every_kind_of_network() -> None:
    assert documented().keys() == NETWORKS.keys()


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_has_exactly_the_exports_of_the_table(name: str, tmp_path: Path, command: Command) -> None:
    pytest.importorskip("onnx", reason="no onnx installed")
    path, said = NETWORKS[name](tmp_path), documented()[name]
    np.savez(tmp_path / "examples.npz", x=X, y=LABELS)

    def exports(target: str, *options: Any) -> str:
        out = tmp_path / target
        answer = command("export", path, "--to", target, "--out", out, *options)
        assert (answer.status == 0) == out.exists()
        assert answer.status in (0, 2) and answer.err.count("\n") == answer.status // 2
        return "yes" if answer.status == 0 else "no"

    assert {exports(target) for target in ("c", "arduino", "js")} == {said["C, Arduino, JavaScript"]}
    assert ("yes" if (tmp_path / "c" / "shared").exists() else "no") == said["shared C build"]
    assert exports("onnx") == said["ONNX"]
    assert exports("page", "--examples", tmp_path / "examples.npz") == said["page"]

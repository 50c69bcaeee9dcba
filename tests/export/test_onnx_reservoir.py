"""A reservoir's ONNX graphs in onnxruntime give the bits of the reference, on real data too."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hadamrnn.errors import SaturationWarning
from hadamrnn.estimators import HadamRNNClassifier
from hadamrnn.fixedpoint import encode_values
from hadamrnn.reservoir import Features, Group, IntegerReservoir
from tests.export.graphs import session, stepwise
from tests.reservoir_models import draw_reservoir

pytest.importorskip("onnx", reason="no onnx installed: pip install 'hadamrnn[onnx]'")
pytest.importorskip("onnxruntime", reason="no onnxruntime installed")

from hadamrnn.export.onnx import export_onnx

ROWS = 4
STEP, SEQUENCE = "net_integer_step.onnx", "net_integer_sequence.onnx"


def draw_values(rng: np.random.Generator, model: IntegerReservoir, time: int) -> NDArray[np.float64]:
    """Return small, large and extreme series, in units of the training data."""
    scale = rng.choice([100, 20_000, 2**31], (ROWS, 1, 1)) * model.raw_unit
    return np.asarray(rng.uniform(-1, 1, (ROWS, time, model.input_size)) * scale)


def run(model: IntegerReservoir, values: NDArray[np.float64]) -> Any:
    return model.run(encode_values(model, values)[0]).logits


@pytest.mark.parametrize("seed", range(20))
def test_every_sample_gives_the_bits_of_the_reference(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    model = draw_reservoir(rng)
    values = draw_values(rng, model, model.network.seq_length)
    folder = export_onnx(tmp_path / "onnx", integer_model=model)
    expected = [run(model, values[:, : t + 1]) for t in range(values.shape[1])]

    assert np.array_equal(stepwise(session(folder, STEP), values), expected)
    for t in {0, values.shape[1] // 2, values.shape[1] - 1}:
        (logits,) = session(folder, SEQUENCE).run(["logits"], {"x": values[:, : t + 1]})
        assert np.array_equal(logits, expected[t])


@pytest.mark.parametrize("segments", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_a_window_as_long_as_counters_hold_is_exact_and_more_samples_change_nothing(
    segments: int, tmp_path: Path
) -> None:
    rng = np.random.default_rng(segments)
    groups = (Group(segments=segments), Group(width=8, dilation=2, is_difference=True))
    model = draw_reservoir(rng, groups=groups, input_size=1, seq_length=50)
    values = draw_values(rng, model, 65_535 if segments == 1 else 50)
    folder = export_onnx(tmp_path / "onnx", integer_model=model)
    more = np.concatenate((values, values[:, :20]), axis=1)

    (logits,) = session(folder, SEQUENCE).run(["logits"], {"x": more})

    assert np.array_equal(logits, run(model, values))


def real_series(name: str) -> tuple[Any, Any, Any]:
    """Return training series, their labels and test series of a real data set, at most 400 and 50."""
    root = os.environ.get("HADAMRNN_DATA")
    if root is None or not Path(root, name).exists():
        pytest.skip(f"HADAMRNN_DATA does not name a folder with {name}")
    with np.load(Path(root, name)) as arrays:
        x, y, test = (arrays[part] for part in ("x_train", "y_train", "x_test"))
    some = np.linspace(0, len(x) - 1, min(len(x), 400)).astype(int)
    return x[some], y[some], test[:: max(len(test) // 50, 1)][:50]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["ucr/Chinatown.npz", "ucr/ECGFiveDays.npz", "ucr/EOGVerticalSignal.npz", "uci_har/uci_har.npz"],
    ids=["24 steps", "136 steps, two classes", "1250 steps", "nine channels"],
)
@pytest.mark.filterwarnings(f"ignore::{SaturationWarning.__module__}.SaturationWarning")
def test_on_real_data_the_graph_answers_as_predict(name: str, tmp_path: Path) -> None:
    x, y, test = real_series(name)
    classifier = HadamRNNClassifier(random_state=0).fit(x, y)
    folder = classifier.to_onnx(tmp_path / "onnx", "net")
    values = np.asarray(test, np.float64).reshape(len(test), test.shape[1], -1)

    (logits,) = session(folder, SEQUENCE).run(["logits"], {"x": values})

    assert np.array_equal(logits, run(classifier.quantize(), values))
    best = logits.argmax(1) if logits.shape[1] > 1 else logits[:, 0] > 0
    assert np.array_equal(classifier.classes_[best.astype(int)], classifier.predict_integer(test))


def test_a_reservoir_without_features_answers_with_its_bias(tmp_path: Path) -> None:
    model = draw_reservoir(np.random.default_rng(0), input_size=1, seq_length=3)
    none = np.zeros(0, np.int64)
    model = replace(
        model,
        features=Features(model.network, none, none, none),
        exponents=none,
        output_weight_int=np.zeros((model.output_size, 0), np.int64),
    )
    folder = export_onnx(tmp_path / "onnx", integer_model=model)

    (logits,) = session(folder, SEQUENCE).run(["logits"], {"x": np.zeros((2, 3, 1))})

    assert np.array_equal(logits, [model.output_bias] * 2)

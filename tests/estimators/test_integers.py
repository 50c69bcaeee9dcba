"""A fitted estimator becomes integers, C and ONNX that take X in its own units."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.metrics import accuracy_score, r2_score

from hadamrnn.errors import InputError, SaturationWarning
from hadamrnn.estimators import HadamRNNClassifier, HadamRNNDetector, HadamRNNRegressor
from hadamrnn.estimators.series import Scaling, Series
from hadamrnn.export.targets import classify_on_host, has_compiler
from hadamrnn.fixedpoint.encoding import encode_raw, encode_values, raw_codes, target_units
from hadamrnn.fixedpoint.engine import Engine
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.quantization.lowering import state_lsb


@pytest.fixture(scope="module")
def digits() -> tuple[Any, Any]:
    X, y = load_digits(n_class=4, return_X_y=True)
    return X[:400], y[:400]


@pytest.fixture(scope="module")
def classifier(digits: tuple[Any, Any]) -> HadamRNNClassifier:
    return HadamRNNClassifier(64, random_state=0).fit(*digits)


@pytest.fixture(scope="module")
def regression() -> tuple[Any, Any, HadamRNNRegressor]:
    """ValueTarget of series in units far from 0 and 1, two of them."""
    rng = np.random.default_rng(0)
    X = 20 + 0.01 * rng.normal(size=(200, 12, 2))
    y = np.stack([1e6 + 1e5 * X[:, :, 0].sum(1), X[:, -1, 1]], axis=1)
    return X, y, HadamRNNRegressor(64, random_state=0).fit(X, y)


def test_whole_numbers_enter_the_integer_network_as_they_are(
    classifier: HadamRNNClassifier, digits: tuple[Any, Any]
) -> None:
    X, y = digits
    integer = classifier.quantize()
    codes, _ = encode_raw(integer, X.astype(np.int64)[:, :, None])
    classes = classifier.classes_[Engine(integer).run(codes).logits.argmax(1)]

    assert isinstance(integer, IntegerModel) and integer.metadata["raw_unit"] == 1.0
    np.testing.assert_array_equal(classes, classifier.predict_integer(X))
    assert accuracy_score(y, classes) >= classifier.score(X, y) - 0.02


def test_integer_regressions_answer_in_the_units_of_the_targets(
    regression: tuple[Any, Any, HadamRNNRegressor],
) -> None:
    X, y, regressor = regression
    integer = regressor.quantize(activation_bits=14)
    float_scores, integer_scores = (
        r2_score(y, answer, multioutput="raw_values")
        for answer in (regressor.predict(X), regressor.predict_integer(X, integer))
    )

    assert (float_scores > 0.7).all()
    np.testing.assert_allclose(integer_scores, float_scores, atol=0.02)
    units = target_units(integer)
    assert units is not None
    np.testing.assert_allclose(units[:, 0], integer.logit_scale * regressor.target_scale_, rtol=1e-8)
    np.testing.assert_allclose(units[:, 1], regressor.target_offset_, rtol=1e-8)


@given(
    offset=st.floats(-1e4, 1e4),
    deviation=st.floats(1e-3, 1e3),
    whole=st.booleans(),
    seed=st.integers(0, 99),
)
def test_raw_codes_standardise_as_the_float_network_does(
    offset: float, deviation: float, whole: bool, seed: int
) -> None:
    values = offset + deviation * np.random.default_rng(seed).normal(size=(5, 7, 2))
    series = Series(np.rint(values) if whole else values)
    scaling = Scaling.of(series, np.ones(len(series)))
    raw = scaling.raw_inputs()
    assert scaling.unit is not None
    codes = np.rint(series.values / scaling.unit)

    assert np.abs(codes).max() < 2**31
    assert (scaling.unit == 1.0) == bool((series.values == np.rint(series.values)).all())
    np.testing.assert_array_equal(np.rint(raw.offset), raw.offset)  # nothing is lost in int32
    standard = scaling.split(series, np.float64).x.numpy()
    errors = np.abs((codes - raw.offset) * raw.scale - standard)
    assert (errors <= 0.5 * scaling.unit / scaling.scale + 1e-9).all()  # half a raw unit


def fit_octaves(solver: Any) -> tuple[Any, Any, HadamRNNClassifier]:
    """Return series of two shapes in sizes from 1e-3 to 1e3, with a channel of constant size, and a fit."""
    rng = np.random.default_rng(0)
    y = np.arange(80) % 2
    sizes = 10 ** rng.uniform(-3, 3, (80, 1, 1))
    waves = np.sin(np.arange(40) * np.where(y == 0, 0.3, 0.6)[:, None])[:, :, None]
    X = np.concatenate([sizes * waves, rng.normal(size=(80, 40, 1))], axis=2)
    return X, y, HadamRNNClassifier(solver=solver, random_state=0).fit(X[:60], y[:60])


@pytest.fixture(scope="module", params=["auto", "ridge"])
def octaves(request: pytest.FixtureRequest) -> tuple[Any, Any, HadamRNNClassifier]:
    return fit_octaves(request.param)


@pytest.fixture(scope="module")
def network_octaves() -> tuple[Any, Any, HadamRNNClassifier]:
    """The same with a `Network`, the only kind with a float ONNX graph and thresholds on real states."""
    return fit_octaves("ridge")


def test_series_of_very_different_size_are_told_apart_in_integers_too(
    octaves: tuple[Any, Any, HadamRNNClassifier],
) -> None:
    X, y, classifier = octaves
    knee = classifier.scaling_.knee

    assert knee is not None and knee[0] > 0 and knee[1] == 0
    assert classifier.score(X[60:], y[60:]) >= 0.85
    np.testing.assert_array_equal(classifier.predict_integer(X), classifier.predict(X))


def test_compressed_raw_codes_are_the_inputs_of_the_float_network(
    octaves: tuple[Any, Any, HadamRNNClassifier],
) -> None:
    X, _, classifier = octaves
    integer = classifier.quantize()
    codes, clipped = encode_values(integer, X[:60])

    standard = classifier.scaling_.split(Series(X[:60]), np.float64).x.numpy()
    step = integer.input_scale * 2.0 ** (1 - integer.input_bits)
    assert clipped == 0
    np.testing.assert_allclose(codes * step, standard, atol=0.002)
    with pytest.raises(InputError, match=r"raw_unit .* knee / 2\^k"):
        classifier.quantize(raw_unit=3.0)


def test_onnx_compresses_as_the_network_does(
    network_octaves: tuple[Any, Any, HadamRNNClassifier], tmp_path: Path
) -> None:
    runtime = pytest.importorskip("onnxruntime")
    X, _, classifier = network_octaves
    folder = classifier.to_onnx(tmp_path / "net", "net")

    for graph in ("net", "net_integer"):
        logits = runtime.InferenceSession(folder / f"{graph}_sequence.onnx").run(["logits"], {"x": X})[0]
        np.testing.assert_array_equal(classifier.classes_[logits.argmax(1)], classifier.predict(X))


@pytest.mark.skipif(not has_compiler() or shutil.which("make") is None, reason="no C compiler or no make")
def test_c_compresses_as_the_integer_network_does(octaves: tuple[Any, Any, HadamRNNClassifier]) -> None:
    X, _, classifier = octaves
    integer = classifier.quantize()
    raw = raw_codes(X, integer.raw_unit)

    answers = classifier.classes_[classify_on_host(integer, raw)]
    np.testing.assert_array_equal(answers, classifier.predict_integer(X, integer))


@pytest.mark.skipif(not has_compiler() or shutil.which("make") is None, reason="no C compiler or no make")
def test_the_exported_c_builds_passes_its_test_and_answers_as_the_estimator(
    classifier: HadamRNNClassifier, digits: tuple[Any, Any], tmp_path: Path
) -> None:
    integer = classifier.quantize()
    folder = classifier.to_c(tmp_path / "c", "digits", model=integer)
    raw = digits[0].astype(np.int64)[:, :, None]

    subprocess.run(["make", "-C", str(folder), "test"], capture_output=True, check=True)
    assert "DIGITS_CLASS_3 = 3," in (folder / "digits.h").read_text()
    np.testing.assert_array_equal(
        classifier.classes_[classify_on_host(integer, raw)], classifier.predict_integer(digits[0], integer)
    )


def test_c_of_an_estimator_has_a_default_name(digits: Any, tmp_path: Path) -> None:
    X, y = digits
    folder = HadamRNNClassifier(16, random_state=0).fit(X[:60], y[:60]).to_c(tmp_path / "c")

    assert (folder / "net.h").is_file()


def test_onnx_takes_and_gives_the_users_units(
    classifier: HadamRNNClassifier,
    digits: tuple[Any, Any],
    regression: tuple[Any, Any, HadamRNNRegressor],
    tmp_path: Path,
) -> None:
    runtime = pytest.importorskip("onnxruntime")
    X, y, regressor = regression

    def run(folder: Path, inputs: Any) -> Any:
        session = runtime.InferenceSession(folder / "net_sequence.onnx")
        return session.run(None, {session.get_inputs()[0].name: inputs})[0]

    logits = run(classifier.to_onnx(tmp_path / "digits", "net"), digits[0][:, :, None])
    np.testing.assert_array_equal(classifier.classes_[logits.argmax(1)], classifier.predict(digits[0]))
    values = run(regressor.to_onnx(tmp_path / "values", "net"), X)
    np.testing.assert_allclose((values - regressor.predict(X)) / y.std(0), 0, atol=1e-4)


def test_onnx_agrees_with_the_estimator_far_from_zero(digits: tuple[Any, Any], tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    X, y = digits[0][:, :, None] / 8 + 1e7, digits[1]
    far = HadamRNNClassifier(solver="ridge", random_state=0).fit(X, y)
    folder = far.to_onnx(tmp_path / "far", "net")

    logits = runtime.InferenceSession(folder / "net_sequence.onnx").run(["logits"], {"x": X})[0]

    assert np.mean(far.classes_[logits.argmax(1)] == far.predict(X)) >= 0.99


def test_the_cost_is_that_of_the_network(digits: tuple[Any, Any]) -> None:
    last = HadamRNNClassifier(64, max_steps=5, random_state=0).fit(*digits)

    assert last.cost_.bytes == (64 + 4 * 64 * 5 + 12 * 68 + 7) // 8


def test_saturation_is_reported(classifier: HadamRNNClassifier, digits: tuple[Any, Any]) -> None:
    with pytest.warns(SaturationWarning, match=r"[1-9]\d* of \d+ states and [1-9]\d* of 25600 inputs"):
        classifier.predict_integer(1000 * digits[0])
    classifier.predict_integer(digits[0])  # warnings are errors here


def test_a_network_of_very_long_series_takes_its_own_training_data(tmp_path: Path) -> None:
    """40,000 steps: sums of 16-bit states are limited to 32,767."""
    y = np.arange(4) % 2
    X = np.random.default_rng(0).normal(size=(4, 40_000, 1)) + y[:, None, None]
    classifier = HadamRNNClassifier(16, num_blocks=1, leak=(2,), readouts=("mean",), random_state=0).fit(X, y)
    integer = classifier.quantize()

    assert integer.activation_bits == 15 and integer.longest == 65_535
    np.testing.assert_array_equal(classifier.predict_integer(X), classifier.predict(X))
    with pytest.raises(
        InputError, match=r"hold 32767 steps, .* of 40000\. Choose activation_bits of at most 15"
    ):
        classifier.quantize(activation_bits=16)
    longer = HadamRNNClassifier(**classifier.get_params()).fit(np.tile(X, (1, 2, 1)), y)
    with pytest.raises(InputError, match=r"hold 65535 steps, .* of 80000\. Cut the sequences"):
        longer.predict_integer(X)


def test_quantizing_refuses_what_is_no_unit(classifier: HadamRNNClassifier) -> None:
    with pytest.raises(InputError, match=r"raw_unit.*must lie in \(0, .* got -1"):
        classifier.quantize(raw_unit=-1.0)
    assert classifier.quantize(raw_unit=0.5).metadata["raw_unit"] == 0.5


def test_only_models_of_the_same_shape_are_taken(
    classifier: HadamRNNClassifier, digits: tuple[Any, Any], tmp_path: Path
) -> None:
    X, y = digits
    three = HadamRNNClassifier(16, random_state=0).fit(X[y < 3], y[y < 3]).quantize()

    for wrong, message in ((three, "1 inputs and 4 outputs, got 1 inputs and 3"), (classifier, "quantize")):
        with pytest.raises(InputError, match=f"model must .*{message}"):
            classifier.predict_integer(X, wrong)
        with pytest.raises(InputError, match=f"model must .*{message}"):
            classifier.to_c(tmp_path / "c", model=wrong)
    with pytest.raises(ValueError, match="not fitted yet"):
        HadamRNNClassifier().to_c(tmp_path / "c", model=three)


def test_thresholds_of_a_fit_lie_on_the_grid_of_the_integer_states(
    network_octaves: tuple[Any, Any, HadamRNNClassifier],
) -> None:
    _X, _, classifier = network_octaves
    thresholds, calibration = classifier.network_.thresholds, classifier.calibration_
    assert thresholds is not None and calibration is not None
    codes = thresholds / state_lsb(classifier.network_, calibration, 16)

    torch.testing.assert_close(codes, codes.round(), rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    "estimator",
    [
        HadamRNNClassifier(random_state=0),
        HadamRNNClassifier(16, random_state=0),
        HadamRNNDetector(random_state=0),
    ],
)
def test_an_integer_network_of_another_fit_is_refused(estimator: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    X = np.sin((0.3 + 0.3 * y[:, None]) * np.arange(30))[:, :, None] + rng.normal(size=(60, 30, 2)) / 4
    if isinstance(estimator, HadamRNNDetector):
        X = X.reshape(-1, 2)
    estimator.fit(X, y)
    model = estimator.quantize(raw_unit=2.0**-12)
    model.save(tmp_path / "model")
    expected = estimator.predict_integer(X, model)
    np.testing.assert_array_equal(
        estimator.predict_integer(X, type(model).load(tmp_path / "model")), expected
    )

    estimator.fit(64 * X, y)  # the same network of the same standardised inputs

    with pytest.raises(InputError, match=r"model must be of this fit, got one of another\. Call quantize"):
        estimator.predict_integer(64 * X, model)

"""The detector learns from normal data alone, in streams too; floats and integers give the same answers."""

from __future__ import annotations

import pickle
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from hadamrnn import HadamRNNDetector, InputError
from hadamrnn.estimators import detector as module
from hadamrnn.quantization.calibration import calibrate

Floats = NDArray[np.float64]
STREAM = "the score of a row depends on the rows before it: rows are samples of a stream"


def small(**parameters: Any) -> HadamRNNDetector:
    return HadamRNNDetector(**{"hidden_size": 32, "leak": (1, 3), "random_state": 0, **parameters})


@pytest.fixture(scope="module")
def waves() -> Floats:
    """Three channels of different size and level; the third follows from the second."""
    time = np.arange(4000)
    noise = np.random.default_rng(0).normal(0, 0.05, (4000, 3))
    shape = np.stack([np.sin(time / 3), np.cos(time / 5), np.cos(time / 5)], axis=1)
    return (shape + noise) * [1.0, 500.0, 0.01] + [0.0, 9e3, -3.0]


@pytest.mark.slow
@parametrize_with_checks(
    [small(quantile=0.9, margin=1.0)],  # scikit-learn wants outliers among the training data
    expected_failed_checks=lambda estimator: {
        "check_methods_sample_order_invariance": STREAM,
        "check_methods_subset_invariance": STREAM,
    },
)
def test_scikit_learn_finds_nothing_but_that_rows_have_an_order(
    estimator: Any, check: Callable[[Any], None]
) -> None:
    check(estimator)


def test_new_normal_data_raise_few_alarms_and_a_broken_relation_many(waves: Floats) -> None:
    detector = small().fit(waves[:2000])
    broken = waves[2000:].copy()
    broken[1000:, 2] = broken[1000:, 2][::-1]  # every single channel is unchanged

    for predict in (detector.predict, detector.predict_integer):
        alarms = predict(broken) == -1
        assert alarms[:1000].mean() < 0.01
        assert alarms[1020:].mean() > 0.9


def test_an_empty_state_raises_no_alarm(waves: Floats) -> None:
    detector = small().fit([waves[:1000], waves[1003:2000]])
    starts = [waves[first : first + 40] for first in range(2000, 3960, 40)]

    assert detector.warmup_ == 16 and small().fit(waves[:20]).warmup_ == 10
    for scores in (detector.score_samples(starts), detector.score_samples_integer(starts)):
        assert not scores.reshape(-1, 40)[:, :16].any() and scores.reshape(-1, 40)[:, 16:].all()
    assert (detector.predict_integer(starts) == 1).mean() > 0.99


def test_scores_offset_decisions_and_predictions_agree(waves: Floats) -> None:
    detector = small().fit(waves[:2000])
    scores = detector.score_samples(waves)

    assert detector.offset_ < 0 and scores.shape == (4000,) and (scores <= 0).all()
    np.testing.assert_array_equal(detector.decision_function(waves), scores - detector.offset_)
    np.testing.assert_array_equal(detector.predict(waves) == -1, scores < detector.offset_)
    np.testing.assert_array_equal(
        small().fit_predict(waves[:2000]), small().fit(waves[:2000]).predict(waves[:2000])
    )


def test_a_score_depends_on_the_rows_up_to_it_alone(waves: Floats) -> None:
    detector = small().fit(waves[:2000])

    for scores in (detector.score_samples, detector.score_samples_integer):
        np.testing.assert_allclose(scores(waves[:300]), scores(waves)[:300], rtol=1e-9)


def test_each_recording_begins_anew(waves: Floats) -> None:
    detector = small().fit([waves[:1000], waves[1000:1700]])
    parts = [waves[2000:2100], waves[2100:2300]]

    for scores in (detector.score_samples, detector.score_samples_integer):
        alone = np.concatenate([scores(part) for part in parts])
        np.testing.assert_allclose(scores(parts), alone, rtol=1e-9)
    cube = waves[2000:2200].reshape(2, 100, 3)
    np.testing.assert_array_equal(detector.predict(cube), detector.predict(list(cube)))


def test_integers_score_as_floats_do(waves: Floats) -> None:
    detector = small().fit(waves[:2000])
    broken = waves.copy()
    broken[3000:] += [0.5, 0.0, 0.0]
    exact, rounded = detector.score_samples(broken), detector.score_samples_integer(broken)

    np.testing.assert_allclose(rounded, exact, rtol=0.1, atol=0.2)
    assert (detector.predict(broken) == detector.predict_integer(broken)).mean() > 0.99


def test_level_and_unit_of_a_channel_pass_through(waves: Floats) -> None:
    moved = waves * [4.0, 0.25, 100.0] + [16.0, -7.0, 3.0]

    np.testing.assert_allclose(
        small().fit(moved).score_samples(moved), small().fit(waves).score_samples(waves), rtol=1e-3
    )


def test_a_shift_smooths_and_none_judges_each_sample(waves: Floats) -> None:
    plain = small(smoothing=0).fit(waves)
    smooth = small(smoothing=2).fit(waves)
    level, expected = 0.0, []
    for distance in -plain.score_samples(waves):
        level += (distance - level) / 4
        expected.append(-level)

    np.testing.assert_allclose(smooth.score_samples(waves), expected)
    assert small(margin=3.0).fit(waves).offset_ == pytest.approx(3 * small(margin=1.0).fit(waves).offset_)


def test_integers_have_room_for_four_times_the_states_and_features_of_normal_data(waves: Floats) -> None:
    detector = small().fit(waves)
    normal = calibrate(detector.network_, [(detector._inputs(waves)[None], None)])
    room = detector.calibration_

    assert (room.max_state, room.max_feature) == pytest.approx((4 * normal.max_state, 4 * normal.max_feature))


def test_parts_of_a_stream_are_fitted_as_the_whole(waves: Floats) -> None:
    parts = [waves[:1000], waves[:1000][::-1], waves[1000:2000]]  # the first two are scaled alike
    whole = small().fit(parts[:2])
    streamed = small().partial_fit(parts[0]).partial_fit(parts[1])

    np.testing.assert_allclose(streamed.score_samples(waves), whole.score_samples(waves), rtol=1e-9)
    before = streamed.score_samples(waves)
    assert not np.allclose(streamed.partial_fit(parts[2]).score_samples(waves), before)


def test_recordings_that_are_no_longer_kept_still_count_in_the_regression(
    waves: Floats, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = np.array_split(waves[:2000], 4)
    everything = small(weight_bits=8).fit(parts)
    monkeypatch.setattr(module, "KEPT_ROWS", 500)
    forgetful = small(weight_bits=8).fit(parts)

    # Rounding V depends slightly on the kept rows.
    np.testing.assert_allclose(forgetful.score_samples(waves), everything.score_samples(waves), rtol=0.5)
    assert sum(map(len, forgetful._kept)) == 500
    assert forgetful._older is not None and forgetful._older.weight == 1500


def test_a_part_that_is_refused_leaves_the_detector_as_it_was(waves: Floats) -> None:
    detector = small().fit(waves[:500])
    before = detector.score_samples(waves)
    with pytest.raises(ValueError, match="2 features"):
        detector.partial_fit(waves[:500, :2])

    np.testing.assert_array_equal(detector.score_samples(waves), before)


def test_seeds_clones_and_pickles(waves: Floats) -> None:
    first, again, other = (small(random_state=seed).fit(waves[:900]) for seed in (0, 0, 1))

    np.testing.assert_array_equal(first.score_samples(waves), again.score_samples(waves))
    assert not np.array_equal(first.score_samples(waves), other.score_samples(waves))
    for copy in (pickle.loads(pickle.dumps(first)), clone(first).fit(waves[:900])):
        np.testing.assert_array_equal(copy.score_samples(waves), first.score_samples(waves))


def test_a_constant_channel_that_moves_is_an_anomaly(waves: Floats) -> None:
    series = np.hstack([waves, np.full((4000, 1), 5.0)])
    detector = small().fit(series[:2000])
    series[3000:, 3] = 6.0

    assert (detector.predict(series[:3000]) == 1).mean() > 0.99
    assert (detector.predict_integer(series)[3010:] == -1).all()


def test_the_default_detector_of_eight_channels_fits_four_kilobytes(waves: Floats, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    detector = HadamRNNDetector(random_state=0).fit(rng.normal(size=(400, 8)))

    assert detector.quantize().save(tmp_path / "model.int.safetensors").payload <= 4096


@pytest.mark.skipif(shutil.which("cc") is None or shutil.which("make") is None, reason="no compiler")
def test_the_exported_c_passes_its_tests(waves: Floats, tmp_path: Path) -> None:
    folder = small().fit(waves[:900]).to_c(tmp_path / "c", "pump")

    done = subprocess.run(["make", "-C", str(folder), "test"], check=True, capture_output=True, text=True)
    assert "pump_detector: passed, 0 differences in 48 samples" in done.stdout


def test_a_model_without_a_detector_is_refused(waves: Floats) -> None:
    detector = small().fit(waves[:900])
    model = detector.quantize()
    metadata = {name: value for name, value in model.metadata.items() if name != "detection"}
    with pytest.raises(InputError, match="quantize of a detector"):
        detector.predict_integer(waves, replace(model, metadata=metadata))


@pytest.mark.parametrize(
    ("parameters", "X", "message"),
    [
        ({"leak": ()}, np.zeros((99, 2)), "leak must list one k or more, got none"),
        ({"leak": (0,)}, np.zeros((99, 2)), r"leak must lie in 1\.\.15, got 0"),
        ({"hidden_size": 33}, np.zeros((99, 2)), "num_blocks must divide hidden_size"),
        ({"smoothing": 16}, np.zeros((99, 2)), r"smoothing must lie in 0\.\.15, got 16"),
        ({"penalty": 0.0}, np.zeros((99, 2)), r"penalty must lie in \(0, .*, got 0\.0"),
        ({"margin": np.nan}, np.zeros((99, 2)), r"margin must lie in \(0, .*, got nan"),
        ({"quantile": 1.5}, np.zeros((99, 2)), r"quantile must lie in .*, got 1\.5"),
        ({}, np.zeros((99, 33)), "A detector reads at most 32 channels, got 33"),
        ({}, np.zeros((1, 2)), "1 sample"),
        ({}, np.full((99, 2), np.nan), "contains NaN"),
        ({}, np.full((99, 2), 1e200), r"X must lie within -1e\+100 and 1e\+100, got 1e\+200"),
        ({}, [np.zeros((9, 2)), np.zeros((9, 3))], "3 features"),
    ],
)
def test_bad_input_is_refused_in_a_line(parameters: Any, X: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        small(**parameters).fit(X)

"""The common base of the estimators: refits, streams that fail half-way, and parameters."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hadamrnn.errors import InputError
from hadamrnn.estimators import HadamRNNClassifier, HadamRNNRegressor

Y = np.arange(40) % 2


@pytest.fixture
def X() -> NDArray[np.float64]:
    return np.random.default_rng(0).normal(size=(40, 12, 2)) + Y[:, None, None]


def small(**parameters: Any) -> HadamRNNClassifier:
    return HadamRNNClassifier(**{"hidden_size": 16, "random_state": 0, **parameters})


def test_a_refit_by_the_other_solver_leaves_no_figures_of_the_first(X: Any) -> None:
    classifier = small(max_steps=3).fit(X, Y)
    classifier.set_params(max_steps="auto").fit(X, Y)
    assert not hasattr(classifier, "n_iter_") and not hasattr(classifier, "loss_curve_")
    classifier.set_params(max_steps=3).fit(X, Y)
    assert not hasattr(classifier, "penalty_")


def test_a_closed_form_fit_starts_over_also_in_a_warm_start(X: Any) -> None:
    classifier = small(solver="ridge", warm_start=True).fit(X[:, :, :1], Y)

    np.testing.assert_array_equal(
        classifier.fit(X, Y).predict_proba(X), small(solver="ridge").fit(X, Y).predict_proba(X)
    )


def test_a_part_that_fails_is_not_counted(X: Any) -> None:
    classifier = small(max_bytes=1, hidden_size=None)
    with pytest.raises(InputError, match="max_bytes"):
        classifier.partial_fit(X, Y, classes=[0, 1])
    classifier.set_params(max_bytes=None, hidden_size=16).partial_fit(X, Y)

    once = small().partial_fit(X, Y, classes=[0, 1])
    np.testing.assert_array_equal(classifier.predict_proba(X), once.predict_proba(X))


def test_a_stream_of_values_may_begin_with_a_part_that_fails(X: Any) -> None:
    regressor = HadamRNNRegressor(16, random_state=0)
    with pytest.raises(ValueError, match=r"[Ss]ample.weight"):
        regressor.partial_fit(X, X[:, 0, 0], np.zeros(40))

    assert regressor.partial_fit(X, X[:, 0, 0]).predict(X).shape == (40,)


def test_numpys_parameters_are_pythons(X: Any) -> None:
    plain = small(num_blocks=2, leak=(2, 3), weight_bits=3, readouts=("mean",), thresholds=1).fit(X, Y)
    other = small(
        hidden_size=np.int64(16),
        num_blocks=np.int64(2),
        leak=np.array([2, 3]),
        weight_bits=np.int64(3),
        readouts=np.array(["mean"]),
        thresholds=np.int32(1),
    ).fit(X, Y)

    assert other.config_ == plain.config_ and other.quantize() == plain.quantize()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"hidden_size": 16.0}, r"hidden_size must be int or none, got 16\.0"),
        ({"hidden_size": 0}, r"hidden_size must lie in 1\.\."),
        ({"max_bytes": "4096"}, "max_bytes must be int or none, got '4096'"),
        ({"thresholds": 1.5}, r"thresholds must be int or none, got 1\.5"),
        ({"leak": 5}, "leak must be tuple or none, got 5"),
        ({"leak": (99,)}, r"leak must lie in 0\.\.15, got 99"),
        ({"readouts": "mean"}, "readouts must be tuple or none, got 'mean'"),
        ({"solver": "adam"}, "solver must be one of auto, ridge, gradient, count, got 'adam'"),
        ({"num_blocks": 0}, "num_blocks must"),
        ({"batch_size": 2.5}, "batch_size must be int"),
        ({"max_steps": 0}, r"max_steps must lie in 1\.\..*, got 0"),
        ({"max_steps": None}, "max_steps must be int or one of auto, got None"),
        ({"n_iter_no_change": 0}, r"n_iter_no_change must lie in 1\.\."),
        ({"validation_fraction": 2.0}, r"validation_fraction must lie in \(0, 1\)"),
    ],
)
def test_a_parameter_that_cannot_be_is_named(X: Any, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        small(**parameters).fit(X, Y)


def test_a_fit_to_the_last_state_alone_needs_no_thresholds(X: Any) -> None:
    config = small(readouts=("last",)).fit(X, Y).config_

    assert config.readouts == ("last",) and config.thresholds == 0


def test_the_default_size_grows_with_the_classes_beyond_ten() -> None:
    assert [HadamRNNClassifier.default_bytes(classes) for classes in (2, 10, 60)] == [4096, 4096, 20096]


@pytest.mark.parametrize("kind", [HadamRNNClassifier, HadamRNNRegressor])
def test_states_of_a_network_stay_within_max_ram(kind: type, X: Any, tmp_path: Path) -> None:
    limited, free = (kind(solver="ridge", random_state=0, max_ram=ram).fit(X, Y) for ram in (900, None))

    assert limited.cost_.ram <= 900 < free.cost_.ram
    assert 2 * limited.cost_.ram > 900  # as wide as the limit allows
    limited.to_c(tmp_path / "c", "net")
    assert f"NET_STATE_BYTES {limited.cost_.ram}" in " ".join((tmp_path / "c" / "net.h").read_text().split())


@pytest.mark.parametrize("given", [{}, {"max_steps": 3}, {"hidden_size": None, "solver": "ridge"}])
def test_the_ram_that_an_error_names_is_enough(X: Any, given: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="max_ram") as refused:
        small(max_ram=20, **given).fit(X, Y)

    least = re.findall(r"max_ram (?:must be at least )?(\d+)", str(refused.value))[0]
    assert small(max_ram=int(least), **given).fit(X, Y).cost_.ram <= int(least)

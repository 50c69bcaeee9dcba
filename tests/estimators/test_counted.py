"""The classifier with a reservoir: sizes from one fit, streams, limits, integers, and kept features."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from hadamrnn.errors import InputError
from hadamrnn.estimators import HadamRNNClassifier, HadamRNNRegressor, counted, plot_path
from hadamrnn.estimators.pruning import Costs, PoolRows, prune
from hadamrnn.estimators.rounding import share_codes
from hadamrnn.estimators.target import ValueTarget
from hadamrnn.fixedpoint.encoding import encode_values
from hadamrnn.reservoir import IntegerReservoir

Y = np.arange(60) % 3


@pytest.fixture(scope="module")
def X() -> NDArray[np.float64]:
    """Noisy sines of three frequencies and random phase, two channels."""
    rng = np.random.default_rng(0)
    phase = 0.25 * (1 + Y)[:, None] * np.arange(48) + rng.uniform(0, 6, (60, 1))
    return np.stack([np.sin(phase), np.cos(phase)], axis=2) + 0.3 * rng.normal(size=(60, 48, 2))


def small(**parameters: Any) -> HadamRNNClassifier:
    return HadamRNNClassifier(**{"solver": "count", "max_bytes": 600, "random_state": 0, **parameters})


def test_a_path_is_the_fits_of_its_sizes_and_grows(X: Any) -> None:
    path = small().fit_path(X, Y, (1200, 300, 600))
    kept = [len(each.kept_) for each in path]

    assert [each.max_bytes for each in path] == [300, 600, 1200]
    assert kept == sorted(set(kept))
    assert all(each.cost_.bytes <= (each.max_bytes or 0) for each in path)
    for each in path:
        alone = small(max_bytes=each.max_bytes).fit(X, Y)
        np.testing.assert_array_equal(alone.predict_proba(X), each.predict_proba(X))


def test_a_plot_of_a_path_shows_its_bytes_and_scores(X: Any) -> None:
    path = small().fit_path(X, Y, (300, 1200))
    (line,) = plot_path(path, X[:30], Y[:30]).lines

    assert [each.cost_.bytes for each in path] == line.get_xdata().tolist()
    assert [100 * each.score(X[:30], Y[:30]) for each in path] == line.get_ydata().tolist()
    with pytest.raises(InputError, match="got none"):
        plot_path([], X, Y)


@pytest.mark.slow  # each imports torch
def test_fits_in_two_processes_are_one(X: Any) -> None:
    alone = small().fit(X, Y)
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        others = list(pool.map(small().fit, [X, X], [Y, Y]))

    for other in others:
        np.testing.assert_array_equal(other.predict_proba(X), alone.predict_proba(X))
        assert other.quantize() == alone.quantize()


def test_pipelines_pass_frames_on() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 12)) + np.arange(60)[:, None] % 2, columns=[*"abcdefghijkl"])
    pipeline = make_pipeline(StandardScaler(), small(max_bytes=200)).set_output(transform="pandas")
    pipeline.fit(frame, np.arange(60) % 2)

    assert pipeline[-1].feature_names_in_.tolist() == [*"abcdefghijkl"]
    assert pipeline.score(frame, np.arange(60) % 2) > 0.9


def test_the_ram_of_the_states_stays_within_its_limit(X: Any) -> None:
    limited, free = small(max_ram=500).fit(X, Y), small().fit(X, Y)

    assert limited.cost_.ram <= 500 < free.cost_.ram
    assert limited.score(X, Y) > 0.9


@pytest.mark.parametrize("limits", [{"max_bytes": 10}, {"max_ram": 20}])
def test_limits_that_nothing_keeps_are_refused(X: Any, limits: dict[str, int]) -> None:
    with pytest.raises(InputError, match=r"\d+ bytes and \d+ bytes of RAM"):
        small(**limits).fit(X, Y)


def test_ten_parts_are_one_fit(X: Any) -> None:
    stream = small()
    for part in np.array_split(np.arange(60), 10):
        stream.partial_fit(X[part], Y[part], classes=[0, 1, 2])

    np.testing.assert_array_equal(stream.predict_proba(X), small().fit(X, Y).predict_proba(X))


def test_predictions_are_those_of_the_integers_and_survive_a_file(X: Any, tmp_path: Any) -> None:
    classifier = small().fit(X, Y)
    integer = classifier.quantize()
    integer.save(tmp_path / "model.int.safetensors")
    loaded = IntegerReservoir.load(tmp_path / "model.int.safetensors")
    codes, _ = encode_values(loaded, X)

    answers = classifier.classes_[loaded.run(codes).logits.argmax(1)]
    np.testing.assert_array_equal(answers, classifier.predict(X))
    np.testing.assert_array_equal(answers, classifier.predict_integer(X))
    assert loaded.class_names == ["0", "1", "2"]


def test_codes_of_training_values_reach_two_thirds_of_twelve_bits(X: Any) -> None:
    """A value 1.5 times as large as any in training is not clipped; a larger one is."""
    integer = small().fit(X, Y).quantize()
    codes, clipped = encode_values(integer, X)

    assert clipped == 0
    assert abs(int(np.abs(codes).max()) - 2048 / 1.5) <= 2


def test_two_classes_have_one_output_and_probabilities_of_one(X: Any) -> None:
    two = small().fit(X[Y < 2], np.array(["b", "a"])[Y[Y < 2]])
    probabilities = two.predict_proba(X)

    assert two.quantize().output_size == 1 and two.score(X[Y < 2], np.array(["b", "a"])[Y[Y < 2]]) > 0.9
    np.testing.assert_allclose(probabilities.sum(1), 1)
    np.testing.assert_array_equal(two.classes_[probabilities.argmax(1)], two.predict(X))


def test_fits_in_threads_are_the_fits_in_sequence(X: Any) -> None:
    def answers(seed: int) -> NDArray[np.float64]:
        probabilities: NDArray[np.float64] = small(random_state=seed).fit(X, Y).predict_proba(X)
        return probabilities

    with ThreadPoolExecutor(2) as pool:
        np.testing.assert_array_equal(list(pool.map(answers, range(2))), [answers(0), answers(1)])


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_short_windows_are_read_too(steps: int) -> None:
    y = np.arange(30) % 2
    X = np.random.default_rng(0).normal(size=(30, steps)) + 3 * y[:, None]

    assert small(max_bytes=200).fit(X, y).score(X, y) > 0.9


def test_parameters_of_the_other_kind_are_refused(X: Any) -> None:
    with pytest.raises(InputError, match='fit_path needs solver="count"'):
        small(solver="gradient").fit_path(X, Y)
    for wrong in (
        {"hidden_size": 16},
        {"recurrence": "relu"},
        {"weight_bits": "ternary"},
        {"weight_bits": 9},
    ):
        with pytest.raises(InputError, match='solver="count" takes weight_bits'):
            small(**wrong).fit(X, Y)
    with pytest.raises(InputError, match="is for classifiers"):
        HadamRNNRegressor(solver="count").fit(X, X[:, 0, 0])
    with pytest.raises(InputError, match="activation_bits and"):
        small().fit(X, Y).quantize(activation_bits=12)


@pytest.mark.parametrize(
    ("parameters", "solver"),
    [
        ({}, "count"),
        ({"weight_bits": np.int64(8), "max_bytes": 900, "max_ram": 900}, "count"),
        ({"hidden_size": 16}, "ridge"),
        ({"num_blocks": 2}, "ridge"),
        ({"leak": (2,)}, "ridge"),
        ({"readouts": ("last",)}, "ridge"),
        ({"thresholds": 1}, "ridge"),
        ({"recurrence": "relu"}, "ridge"),
        ({"weight_bits": 9}, "ridge"),
        ({"weight_bits": "ternary"}, "ridge"),
        ({"weight_bits": None}, "ridge"),
        ({"max_steps": 3}, "gradient"),
        ({"early_stopping": True}, "gradient"),
        ({"warm_start": True, "hidden_size": 16}, "gradient"),
    ],
)
def test_without_a_solver_the_network_counts_unless_parameters_ask_for_another(
    parameters: dict[str, Any], solver: str
) -> None:
    assert HadamRNNClassifier(**parameters)._solver() == solver


def test_more_than_ten_classes_have_fewer_bits_unless_they_are_given(X: Any) -> None:
    many = np.arange(60) % 12

    assert small().fit(X, Y).config_.weight_bits == 3
    assert small().fit(X, many).config_.weight_bits == 2
    assert small(weight_bits=4).fit(X, many).config_.weight_bits == 4
    assert small(solver="ridge").fit(X, many).config_.weight_bits == 4


def test_the_default_size_does_not_depend_on_the_number_of_series(X: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(counted, "SEARCH_SERIES", 50)

    assert small(max_bytes=None).fit(X, Y)._counted.plan.max_bytes == [4096]
    assert small().fit(X, Y)._counted.plan.max_bytes == [600]


@pytest.mark.parametrize(("share", "more"), [(0.0, False), (1e9, True)])
def test_further_kinds_of_features_must_lower_the_error(
    X: Any, monkeypatch: Any, share: float, more: bool
) -> None:
    monkeypatch.setattr(counted, "LESS_ERROR", share)
    kept = small().fit(X, Y).kept_

    assert any("samples" in name or "third" in name for name in kept) == more


def test_a_fit_of_another_network_leaves_no_kept_features(X: Any) -> None:
    classifier = small(solver="auto").fit(X, Y)
    assert len(classifier.kept_) > 0
    classifier.set_params(hidden_size=16).fit(X, Y)

    assert not hasattr(classifier, "kept_") and not hasattr(classifier.fit(X, Y).network_, "units")


def test_the_kept_features_are_named(X: Any) -> None:
    names = small().fit(X, Y).kept_

    assert len(set(names)) == len(names)
    assert all(name.startswith(("channel 0, ", "channel 1, ")) and " at scale " in name for name in names)


def test_pruning_keeps_the_feature_that_says_it_all() -> None:
    """Forty features of noise in ten blocks, and one feature equal to the target."""
    rng = np.random.default_rng(0)
    shares = rng.normal(size=(50, 40)).astype(np.float32)
    values = torch.from_numpy(shares[:, 17:18]).double()  # a copy
    target = ValueTarget(values, torch.ones(50, dtype=torch.float64), torch.arange(50))
    costs = Costs(np.arange(40) // 4, np.full(10, 4.0), 1.0)

    rows, all_of_them = PoolRows.of(shares, target), np.ones(40, np.bool_)
    limits = [lambda kept: bool(kept.sum() <= 10), lambda kept: bool(kept.sum() <= 1)]

    ten, one = prune(rows, all_of_them, rows.z.double() @ rows.z.double().T, 0.1, costs, limits)

    assert ten.sum() == 10 and np.flatnonzero(one).tolist() == [17] and (one <= ten).all()


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_rounded_weights_lie_on_the_grid_and_near_what_they_were(bits: int) -> None:
    values = torch.from_numpy(np.random.default_rng(bits).normal(size=(30, 4)))
    found = share_codes(values, torch.ones(30).double(), torch.eye(30).double(), bits)

    assert found.codes.min() >= -(2 ** (bits - 1)) and found.codes.max() < 2 ** (bits - 1)
    assert found.exponents.min() == 0 and found.exponents.max() <= 15
    unit = found.step * torch.exp2(-found.exponents)[:, None]
    nearest = (values / unit).round().clamp(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    assert torch.equal(found.codes, nearest)


@pytest.mark.parametrize("bits", [2, 3, 4])
def test_no_power_of_two_of_a_feature_has_a_smaller_rounding_error(bits: int) -> None:
    values = torch.from_numpy(np.random.default_rng(bits).normal(size=(40, 6)))
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    found = share_codes(values, torch.ones(40).double(), torch.eye(40).double(), bits)

    def error(finer: int) -> torch.Tensor:
        unit = found.step * torch.exp2(-found.exponents - finer)[:, None]
        return (unit * (values / unit).round().clamp(low, high) - values).square().sum(1)

    assert all((error(0) <= error(finer) + 1e-12).all() for finer in (-2, -1, 1, 2))


@pytest.mark.parametrize("bits", [3, 4, 6])
def test_the_answers_change_less_than_if_each_weight_went_to_the_nearest_code(bits: int) -> None:
    """Thirty correlated features of very different spread."""
    rng = np.random.default_rng(bits)
    rows = rng.normal(size=(300, 6)) @ rng.normal(size=(6, 30)) + 0.2 * rng.normal(size=(300, 30))
    features = torch.from_numpy(rows * 10.0 ** rng.uniform(-1, 1, 30))
    values = torch.from_numpy(rng.normal(size=(30, 2))) / features.std(0)[:, None] ** 0.5
    z = features / features.std(0)
    found = share_codes(values, features.std(0), z.T @ z + torch.eye(30), bits)
    unit = found.step * torch.exp2(-found.exponents)[:, None]
    nearest = unit * (values / unit).round().clamp(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)

    changed, most = ((features @ (each - values)).square().mean() for each in (found.weight, nearest))
    assert changed < most / 4


def test_copies_with_noise_among_many_series_do_not_lower_the_penalty() -> None:
    rng = np.random.default_rng(0)
    bases = rng.normal(size=(700, 12))
    labels = (bases.mean(1) > 0) ^ (rng.random(700) < 0.3)
    series = np.repeat(bases, 3, axis=0) + 0.01 * rng.normal(size=(2100, 12))

    fitted = small(max_bytes=1000).fit(series, np.repeat(labels, 3))

    assert fitted.penalty_ >= 0.1


def test_longer_series_than_counters_hold_are_refused_with_a_way_out(X: Any) -> None:
    fitted = small(max_bytes=4000).fit(X[:, :30], Y)
    longest = fitted.network_.longest

    with pytest.raises(InputError, match=rf"windows.* 0\.\.{longest}, got {longest + 1}"):
        fitted.predict(np.resize(X, (1, longest + 1, 2)))

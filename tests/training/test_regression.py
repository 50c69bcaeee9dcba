"""Values are learnt whatever their unit, and compared with simple predictors."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hadamrnn import InputError, load_task, read_recordings
from hadamrnn.fixedpoint.encoding import value_format
from hadamrnn.fixedpoint.engine import Engine
from hadamrnn.quantization.chain import input_codes
from hadamrnn.run import Run, train
from hadamrnn.training.config import resolve_config
from hadamrnn.training.evaluate import Errors
from tests.conftest import Command

SETTINGS = ("--hidden-size", 32, "--epochs", 12, "--learning-rate", 0.01, "--threads", 1, "--quiet")
STANDARD = {"hidden_size": 32, "epochs": 8, "learning_rate": 0.01, "threads": 1}


@cache
def r2_of(scale: float, offset: float, folder: Path) -> tuple[float, float, float]:
    """Return R^2 in float, in integers and in the fixed point of C, of targets in some unit."""
    rng = np.random.default_rng(0)
    level = rng.normal(size=400)
    x, y = rng.normal(0, 0.5, (400, 16, 2)) + level[:, None, None], level * scale + offset
    path = folder / f"{scale}_{offset}.npz"
    np.savez(path, x=x, y=y)
    config = resolve_config("npz", overrides={**STANDARD, "task_options": {"path": str(path)}})
    run = train(config, folder / f"run{scale}_{offset}")
    run.quantize()
    test, units = run.splits.test, run.splits.targets
    assert test.y is not None and units is not None
    values = value_format(run.integer)
    assert values is not None
    codes, _ = input_codes(run.integer, test.x)
    fixed = values.values(Engine(run.integer).run(codes).logits) / 2.0**values.frac_bits
    found = [run.evaluate(integer=integer).errors["model"].r2 for integer in (False, True)]
    found.append(Errors.of(torch.from_numpy(fixed), units.values(test.y)).r2)
    first, second, third = found
    assert first is not None and second is not None and third is not None
    return first, second, third


@pytest.mark.parametrize(("scale", "offset"), [(1e-3, 0.0), (1e-3, 1e6), (1e6, -1e6), (7.0, 1e5)])
def test_r2_does_not_depend_on_the_unit_of_the_targets(
    scale: float, offset: float, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp()
    plain = r2_of(1.0, 0.0, folder)

    assert plain[0] > 0.7
    assert max(plain) - min(plain) < 0.01
    np.testing.assert_allclose(r2_of(scale, offset, folder), plain, atol=0.01)


def write_log(path: Path, steps: int = 1500, files: int = 1) -> Path:
    """Write logs whose target is a slow series visible in the channel."""
    rng = np.random.default_rng(1)
    for file in range(files):
        level = np.cumsum(rng.normal(0, 0.3, steps)) + 500
        level -= (level - 500) * 0.5
        rows = [f"{v - 500 + rng.normal(0, 0.2):.4f},{v:.3f}" for v in level]
        (path / f"log{file}.csv").write_text("\n".join(["sensor,level", *rows]))
    return path


def test_recordings_with_a_target_predict_its_value_at_the_last_row_of_a_window(
    command: Command, tmp_path: Path
) -> None:
    data = tmp_path / "logs"
    data.mkdir()
    write_log(data, files=4)
    windows = read_recordings(data / "log0.csv", target="level", window=20, hop=10)
    table = np.loadtxt(data / "log0.csv", delimiter=",", skiprows=1)
    np.testing.assert_array_equal(windows.y, table[windows.starts + 19, 1])
    assert windows.last is not None and windows.columns == ("sensor",)
    np.testing.assert_array_equal(windows.last, table[windows.starts + 9, 1])

    out = tmp_path / "run"
    trained = command("train", data, "--target", "level", "--window", 20, *SETTINGS, "--out", out)
    assert trained.status == 0 and "of standardised targets" in trained.out
    answer = json.loads(command("eval", out, "--json").out)
    assert set(answer["errors"]) == {"model", "constant", "last_value"}
    assert answer["errors"]["model"]["rmse"] < answer["errors"]["constant"]["rmse"]
    assert answer["value"] == pytest.approx(answer["errors"]["model"]["rmse"] ** 2)
    lines = command("eval", out, data / "log0.csv").out
    assert "RMSE" in lines and "the mean of the training targets" in lines
    said = json.loads(command("predict", out, data / "log0.csv", "--json").out)["predictions"]
    assert abs(np.mean(said) - 500) < 10


def test_a_network_that_is_no_better_than_the_constant_is_told_so(command: Command, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "noise.npz", x=rng.normal(size=(80, 8, 2)), y=rng.normal(size=80))
    given = ("--hidden-size", 16, "--epochs", 30, "--threads", 1, "--quiet", "--out", tmp_path / "run")
    assert command("train", tmp_path / "noise.npz", *given).status == 0

    printed = command("eval", tmp_path / "run").out
    assert "note: the network is no better than the mean of the training targets" in printed


def test_targets_are_prepared_again_as_they_were(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "a.npz", x=rng.normal(size=(40, 5, 1)), y=rng.normal(size=(40, 2)) * [1, 9] + 1e6)
    first = load_task("npz", path=tmp_path / "a.npz")
    assert first.targets is not None and len(first.targets.scale) == 2 and first.train.y is not None
    assert first.train.y.mean(0).abs().max() < 1e-3 and (first.train.y.std(0) - 1).abs().max() < 0.1
    again = load_task("npz", None, first.preparation, path=tmp_path / "a.npz", seed=5)
    assert again.preparation == first.preparation


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"label": "level"}, "column 'level' has 40 different numbers. To predict values: --target level"),
        ({"label": "kind", "target": "level"}, "--target predicts values and --label classes"),
        ({"target": "kind"}, "column 'kind' must hold numbers"),
        ({"target": "level", "columns": ("sensor", "level")}, "a channel or the label or the group"),
    ],
)
def test_a_column_that_is_no_label_or_no_target_is_refused(
    options: dict[str, Any], said: str, tmp_path: Path
) -> None:
    rows = [f"{(-1) ** row * row},{row // 10},{'ab'[row // 50 % 2]}" for row in range(400)]
    (tmp_path / "a.csv").write_text("\n".join(["sensor,level,kind", *rows]))
    with pytest.raises(InputError, match=said):
        load_task("recordings", path=tmp_path / "a.csv", window=5, **options)


def test_a_run_opens_with_the_units_of_its_targets(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "a.npz", x=rng.normal(size=(40, 5, 1)), y=rng.normal(size=40) + 100)
    options = {"path": str(tmp_path / "a.npz")}
    run = train(resolve_config("npz", overrides={"epochs": 1, "task_options": options}), tmp_path / "run")
    opened = Run.open(run.path)
    assert opened.facts == run.splits.preparation
    assert abs(opened.predict(tmp_path / "a.npz").values[0][0] - 100) < 20

"""The figures in the tables that commands print: reservoirs, targets, evaluations, devices."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hadamrnn.cli import eval as evaluating
from hadamrnn.cli import export as exporting
from hadamrnn.cli.device import BudgetOptions, DeviceOptions, device_report, is_asked, task_device
from hadamrnn.errors import InputError
from hadamrnn.export.target_front_end import FrontEndMeasurement
from hadamrnn.export.targets import Measurement
from hadamrnn.fixedpoint.cost import Device, Load
from hadamrnn.front_end import FrontEnd
from hadamrnn.network import Network
from hadamrnn.reservoir import reservoir_size, reservoir_step_cost
from tests.conftest import Command
from tests.reservoir_models import draw_reservoir

STACK = Network(3, 16, 2, num_layers=2, num_blocks=2, activation_bits=12)


def numbers(line: str) -> list[float]:
    return [float(each.replace(",", "")) for each in re.findall(r"-?\d[\d,]*\.?\d*", line)]


def test_the_cost_of_a_reservoir_is_that_of_its_file(tmp_path: Path, command: Command) -> None:
    model = draw_reservoir(np.random.default_rng(3), input_size=3)
    model.save(tmp_path / "model")
    size, steps = reservoir_size(model.features), reservoir_step_cost(model.features)

    figures = json.loads(command("cost", tmp_path / "model", "--json").out)
    lines = command("cost", tmp_path / "model").out.splitlines()

    assert figures["bytes"] == size.bytes == -(-sum((size.units, size.features, size.readout)) // 8)
    assert figures["file_bytes"]["total"] == (tmp_path / "model").stat().st_size
    assert figures["operations_per_step"]["mean"]["output"]["multiplications"] == steps.output.multiplications
    assert numbers(lines[0]) == [model.hidden_size, len(model.features)]
    kilobytes = [size.bits / 8192, size.units / 8192, size.features / 8192, size.readout / 8192]
    assert [numbers(line)[0] for line in lines[1:5]] == [round(each, 2) for each in kilobytes]
    assert numbers(lines[5])[0] == round(size.state_bytes / 1024, 2)
    for line, name in zip(lines[-3:], ("input", "recurrent", "output"), strict=True):
        counted = getattr(steps, name)
        assert line.split()[0] == name and numbers(line) == [counted.multiplications, counted.additions]
    refused = command("cost", tmp_path / "model", "--rate", 50)
    assert refused.status == 2 and "--rate" in refused.err


def measurement(**changes: Any) -> Measurement:
    sizes = dict(code=1000, flash=2000, ram=300, logits=8, stack=120, step=45_678, readout=90, differences=0)
    return Measurement(**{"target": "cortex-m4", "unit": "instructions", **sizes, **changes})


def test_the_report_of_targets_has_a_line_for_each_and_says_what_differs() -> None:
    rows = [measurement(), measurement(target="avr", differences=3)]
    lines = exporting._report_lines(rows, {"rv32": "no compiler"})

    assert numbers(lines[1].replace("cortex-m4", "")) == [2000, 1000, 300, 8, 120, 45_678, 90]
    assert "bit-exact" in lines[1] and "3 DIFFERENCES" in lines[2] and "bit-exact" not in lines[2]
    assert lines[3].split()[0] == "rv32" and "no compiler" in lines[3]
    front_end = FrontEnd(kind="bands", rate=12_800, frame=256, hop=128)
    own = dict(unit="instructions", code=1, flash=2, ram=3, stack=4, hop=154_322)
    measured = [
        FrontEndMeasurement("cortex-m4", differences=0, **own),  # type: ignore[arg-type]
        FrontEndMeasurement("other", differences=2, **own),  # type: ignore[arg-type]
    ]
    lines = exporting._front_end_lines(front_end, measured, rows)
    assert "with the network 20.0 million a second" in lines[2]  # (154,322 + 45,678) 100
    assert numbers(lines[2].replace("cortex-m4", ""))[:5] == [2, 1, 3, 4, 154_322]
    assert "with the network" not in lines[3] and "2 DIFFERENCES" in lines[3]


def test_the_device_of_a_report_takes_the_counted_step_of_a_cortex_m4() -> None:
    options = exporting.ExportOptions(path=Path("run"), rate=100.0)
    rows = [measurement(target="avr", step=1), measurement(step=50_000)]

    figures, lines = exporting._device(options, STACK, rows)
    estimated, said = exporting._device(options, STACK, rows[:1])

    assert figures["device"]["instructions_per_step"] >= 50_000 and "counted" in lines[0]
    assert estimated["device"]["instructions_per_step"] < 50_000 and "estimated" in said[0]
    with pytest.raises(InputError, match="--rate"):
        exporting._device(options, draw_reservoir(np.random.default_rng(0)).network, rows)


def test_a_device_is_full_only_beyond_its_limits() -> None:
    load = Load(instructions=1000.0, flash=4096, ram=512)
    fitting = Device(rate=64_000.0, clock=64.0, max_ram=512, max_flash=4096)
    assert load.share(fitting) == 1.0 and load.excesses(fitting) == []
    for device, name in (
        (Device(rate=64_001.0, clock=64.0), "64,000 steps per second"),
        (Device(rate=None, max_ram=511), "RAM: 512 bytes are needed, not 511"),
        (Device(rate=None, max_flash=4095), "flash: 4,096 bytes are needed, not 4,095"),
    ):
        (said,) = load.excesses(device)
        assert name in said
    assert load.share(Device(rate=None)) is None
    assert load.line(Device(rate=6400.0)).startswith("10 % of a 64 MHz")
    assert load.line(Device(rate=64.0)).startswith("0.1 % of a 64 MHz")
    assert load.line(Device(rate=None)) == "4.0 kB flash, 0.5 kB RAM including its window"


def test_a_run_on_recordings_has_the_windows_of_its_training(command: Command, tmp_path: Path) -> None:
    rows = [f"{(-1) ** row * row % 7},{'ab'[row // 40 % 2]}" for row in range(800)]
    (tmp_path / "a.csv").write_text("\n".join(["value,label", *rows]))
    run = tmp_path / "run"
    given = ("--window", 16, "--hop", 4, "--hidden-size", 16, "--steps", 1, "--threads", 1, "--quiet")
    assert command("train", tmp_path / "a.csv", *given, "--out", run).status == 0

    def ram(*options: Any) -> int:
        return int(json.loads(command("cost", run, "--rate", 50, *options, "--json").out)["device"]["ram"])

    assert ram() == ram("--window", 16, "--hop", 4) > ram("--window", 4, "--hop", 4)


def test_windows_that_overlap_are_read_by_as_many_states() -> None:
    def report(**given: Any) -> dict[str, Any]:
        figures, _ = device_report(DeviceOptions(**given), STACK, 1000)
        found: dict[str, Any] = figures["device"]
        return found

    one, halves, thirds = report(window=10, hop=10), report(window=10), report(window=10, hop=4)
    readout = one["instructions_per_step"] - 1000
    assert 0 < readout
    assert halves["instructions_per_step"] == pytest.approx(2000 + 2 * readout, abs=2)
    assert thirds["instructions_per_step"] == pytest.approx(3000 + 2.5 * readout, abs=2)
    state = halves["ram"] - one["ram"]
    assert state > 0 and thirds["ram"] == one["ram"] + 2 * state
    assert report(hop=10) == one == report(window=10, hop=10)
    assert report(window=1) == report(window=1, hop=1) == report()
    assert not is_asked(DeviceOptions()) and not is_asked(BudgetOptions())
    for given in (
        {"rate": 5.0},
        {"clock": 65.0},
        {"max_ram": 1},
        {"max_flash": 1},
        {"window": 1},
        {"hop": 1},
    ):
        assert is_asked(DeviceOptions(**given))


def test_the_device_of_recordings_steps_as_their_windows_do() -> None:
    device, window, hop = task_device(BudgetOptions(), None, "digits", {}, 8)
    assert (device.rate, window, hop) == (None, 8, 8)
    decided = {"window": 20, "hop": 5, "rate": 50.0}
    device, window, hop = task_device(BudgetOptions(), None, "recordings", decided, 1)
    assert (device.rate, window, hop) == (50.0, 20, 5)
    assert task_device(BudgetOptions(), 25.0, "recordings", decided, 1)[0].rate == 25.0
    sound = {
        "features": "bands",
        "rate": 6400,
        "frame": 64,
        "frame_hop": 64,
        "bands": 32,
        "window": 640,
        "hop": 128,
    }
    device, window, hop = task_device(BudgetOptions(), None, "recordings", sound, 1)
    assert (device.rate, window, hop) == (100.0, 10, 2)


def test_a_regression_no_better_than_a_simple_predictor_is_said() -> None:
    def lines(model: float, constant: float, last: float) -> list[str]:
        rmse = {"model": model, "constant": constant, "last_value": last}
        errors = {name: {"rmse": each, "mae": each / 2, "r2": None} for name, each in rmse.items()}
        return evaluating._error_lines(errors)

    assert len(lines(1.0, 2.0, 3.0)) == 4 and evaluating._error_lines({}) == []
    assert "mean of the training targets" in lines(2.0, 2.0, 3.0)[-1]
    assert "one hop earlier" in lines(2.5, 3.0, 2.0)[-1]
    assert numbers(lines(1.5, 2.0, 3.0)[1])[:2] == [1.5, 0.75] and lines(1.5, 2.0, 3.0)[1].split()[2] == "-"


def test_a_confusion_matrix_is_a_row_for_each_class() -> None:
    figures: dict[str, Any] = {
        "task": "digits",
        "split": "test",
        "metric": "accuracy",
        "value": 0.75,
        "samples": 1400,
        "saturations": 7,
        "input_saturations": 3,
        "absent_classes": ["none"],
        "recall": {"up": 0.5, "none": None},
        "confusion": [[700, 700], [0, 0]],
        "page": "a.html",
    }
    lines = evaluating._lines(figures)

    assert "75" in lines[0] and "1,400 samples" in lines[0] and "7 states and 3 inputs" in lines[0]
    assert "no samples of none" in lines[0]
    assert lines[2].split() == ["50.0%", "up", "700", "700"]
    assert lines[3].split() == ["-", "none", "0", "0"] and lines[2].endswith("  700  700")
    assert lines[4:] == ["page: a.html"]


def test_a_page_of_an_evaluation_shows_its_samples_and_shares_of_a_budget(
    tmp_path: Path, command: Command
) -> None:
    from hadamrnn.run import Run

    small = ("--hidden-size", 16, "--steps", 30, "--threads", 1, "--quiet")
    assert command("train", "digits", *small, "--out", tmp_path / "run").status == 0
    answer = command("eval", tmp_path / "run", "--page", tmp_path / "page.html", "--json")
    figures, text = json.loads(answer.out), (tmp_path / "page.html").read_text()

    opened = Run.open(tmp_path / "run")
    (stored, parts), (budget, taken) = evaluating._bars(opened)
    assert sum(share for _, share, _ in parts) == pytest.approx(1.0)
    assert numbers(stored)[0] == pytest.approx(sum(numbers(each)[0] for *_, each in parts), abs=2)
    assert "64 kB" in budget and [name for name, *_ in taken] == ["flash", "RAM"]
    assert all(share == pytest.approx(numbers(each)[0] / 65_536) for _, share, each in taken)
    for *_, shown in (*parts, *taken):
        assert shown in text
    args = evaluating.EvalOptions(run_folder=tmp_path / "run")
    examples = evaluating._examples(args, opened)
    assert examples is not None and figures["value"] == pytest.approx(examples.right.mean())
    np.testing.assert_allclose(examples.probabilities.sum(1), 1.0)
    counted = torch.tensor(figures["confusion"]).diagonal().sum()
    assert counted == examples.right.sum() and figures["samples"] == len(examples.x)

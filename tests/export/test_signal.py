"""From samples to classes: the exported C and JavaScript of a network with a front end."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.io import wavfile

from hadamrnn.export.c import export_c
from hadamrnn.export.js import export_js
from hadamrnn.fixedpoint.encoding import input_meaning
from hadamrnn.run import Run, train
from hadamrnn.training.config import resolve_config
from tests.export.programs import SANITIZED, STRICT

RATE, WINDOW, HOP = 8000, 1600, 800
MAIN = """
#include <stdio.h>
#include "net_signal.h"
static net_signal signal_;
int main(void)
{
    int16_t sample;
    unsigned taken = 0;
    if (net_signal_init(&signal_, NULL, STEPS, STEPS) != HADAMRNN_OK) return 1;
    while (fread(&sample, 2, 1, stdin) == 1) {
        if (net_push_sample(&signal_, sample) == HADAMRNN_READY) printf("%u\\n", net_signal_class(&signal_));
        taken++;
        if (taken % WINDOW == 0u && net_signal_init(&signal_, NULL, STEPS, STEPS) != HADAMRNN_OK) return 1;
    }
    return 0;
}
"""
REPLAY = """
import { readFileSync } from "node:fs";
import { network, frontEnd } from "./net.js";
const windows = JSON.parse(readFileSync(process.argv[2], "utf8"));
const classes = windows.map((samples) => {
  frontEnd.reset();
  const state = network.init();
  for (const sample of samples) {
    const codes = frontEnd.push(sample);
    if (codes) network.step(state, network.encode(codes));
  }
  return network.classify(network.read(state));
});
process.stdout.write(JSON.stringify(classes));
"""


def hum(rng: np.random.Generator, frequency: float, seconds: float) -> NDArray[np.int16]:
    """Return a tone in noise; both vary in loudness."""
    time = np.arange(int(seconds * RATE)) / RATE
    tone = np.sin(2 * np.pi * frequency * time + rng.uniform(0, 6)) * rng.uniform(500, 3000)
    return np.rint(tone + rng.normal(0, rng.uniform(200, 1500), len(time))).astype(np.int16)


@pytest.fixture(scope="module")
def sounds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sounds")
    rng = np.random.default_rng(3)
    for name, frequency in (("low", 400.0), ("high", 1100.0)):
        for part in range(6):
            path = folder / name / f"{part}.wav"
            path.parent.mkdir(exist_ok=True)
            wavfile.write(path, RATE, hum(rng, frequency, 2.5))
    return folder


@pytest.fixture(scope="module")
def run(sounds: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    options = {"path": str(sounds), "window": WINDOW, "hop": HOP, "features": "mel"}
    config = resolve_config(
        "recordings", preset="quick", overrides={"epochs": 2, "hidden_size": 32, "task_options": options}
    )
    trained = train(config, tmp_path_factory.mktemp("runs") / "run")
    trained.quantize()
    return trained


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, NDArray[np.int16]]:
    """A file of 500 windows, tones of changing frequency."""
    rng = np.random.default_rng(5)
    samples = np.concatenate([hum(rng, rng.uniform(300, 1200), WINDOW / RATE) for _ in range(500)])
    path = tmp_path_factory.mktemp("stream") / "stream.wav"
    wavfile.write(path, RATE, samples)
    return path, samples


@pytest.fixture(scope="module")
def predicted(run: Run, recording: tuple[Path, NDArray[np.int16]]) -> list[int]:
    """The predictions of `predict --integer` for each window, the network's windows side by side."""
    names = run.integer.class_names
    found = run.predict(recording[0], integer=True)
    return [
        names.index(label)
        for label, row in zip(found.values, found.places["row"], strict=True)
        if row % WINDOW == 0
    ]


def test_pushed_samples_give_the_classes_of_predict(
    run: Run, recording: tuple[Path, NDArray[np.int16]], predicted: list[int], tmp_path: Path
) -> None:
    out = export_c(run.integer, tmp_path / "c")
    (out / "main.c").write_text(MAIN)
    steps = run.network.front_end.num_frames(WINDOW) if run.network.front_end else 0
    program = tmp_path / "program"
    sources = [out / name for name in ("main.c", "net.c", "net_window.c", "net_signal.c")]
    defines = (f"-DSTEPS={steps}", f"-DWINDOW={WINDOW}u")
    built = subprocess.run(
        ["gcc", *STRICT, *SANITIZED, *defines, *map(str, sources), "-o", str(program)],
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr[:3000]
    result = subprocess.run([str(program)], input=recording[1].tobytes(), capture_output=True)
    assert result.returncode == 0, result.stderr[-3000:]
    assert [int(line) for line in result.stdout.split()] == predicted
    assert len(predicted) == 500
    assert len(set(predicted)) == 2


def test_a_prediction_remarks_on_silent_clipped_and_stereo_files(run: Run, tmp_path: Path) -> None:
    loud = np.tile(np.array([32767, -32768], np.int16), WINDOW)
    for name, samples in (("silent", 0 * loud), ("clipped", loud), ("stereo", np.stack([loud // 2] * 2, 1))):
        wavfile.write(tmp_path / f"{name}.wav", RATE, samples)
    note = run.predict(tmp_path).note

    for said in ("silent.wav: silent", "clipped.wav: clipped", "stereo.wav: the first of 2 channels"):
        assert said in note


@pytest.mark.skipif(shutil.which("node") is None, reason="no node installed (Debian: nodejs)")
def test_javascript_gives_the_classes_of_predict(
    run: Run, recording: tuple[Path, NDArray[np.int16]], predicted: list[int], tmp_path: Path
) -> None:
    out = export_js(run.integer, tmp_path / "js")
    (out / "replay.mjs").write_text(REPLAY)
    windows = tmp_path / "windows.json"
    windows.write_text(json.dumps(recording[1].reshape(-1, WINDOW).tolist()))
    result = subprocess.run(
        ["node", str(out / "replay.mjs"), str(windows)], capture_output=True, text=True, cwd=out
    )
    assert result.returncode == 0, result.stderr[-3000:]
    assert json.loads(result.stdout) == predicted


@pytest.fixture(scope="module")
def table_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A quantized run on values between -1 and 1, whose samples need a unit."""
    folder, rng = tmp_path_factory.mktemp("tables"), np.random.default_rng(6)
    for name, frequency in (("low", 400.0), ("high", 1100.0)):
        for part in range(3):
            values = hum(rng, frequency, 1.5) / 8192
            np.savetxt(folder / f"{name}_{part}.csv", values, "%.5f", header="sensor", comments="")
    options: dict[str, Any] = {"path": str(folder), "label": "file", "rate": RATE, "features": "bands"}
    options |= {"window": 1536, "hop": 1536}
    config = resolve_config(
        "recordings",
        preset="quick",
        overrides={"epochs": 1, "hidden_size": 32, "channel_offset": 0.5, "task_options": options},
    )
    trained = train(config, tmp_path_factory.mktemp("runs") / "run")
    trained.quantize()
    return trained


def test_values_of_a_table_become_samples_by_the_exported_unit(table_run: Run, tmp_path: Path) -> None:
    front_end = table_run.network.front_end
    assert front_end is not None and front_end.unit == 2.0**-14
    assert input_meaning(table_run.integer).startswith("int16 samples are the training data's values divided")
    path = tmp_path / "new.csv"
    values = hum(np.random.default_rng(7), 700, 4.0) / 8192
    np.savetxt(path, values, "%.5f", header="sensor", comments="")
    out = export_c(table_run.integer, tmp_path / "c")
    scaled = "floor(value / NET_SAMPLE_UNIT + 0.5)"
    main = MAIN.replace("#include <stdio.h>", "#include <math.h>\n#include <stdio.h>")
    main = main.replace("int16_t sample;", "int16_t sample; double value;")
    main = main.replace(
        "fread(&sample, 2, 1, stdin) == 1) {", f'scanf("%lf", &value) == 1) {{ sample = (int16_t){scaled};'
    )
    (out / "main.c").write_text(main)
    program = tmp_path / "program"
    sources = [str(out / name) for name in ("main.c", "net.c", "net_window.c", "net_signal.c")]
    defines = (f"-DSTEPS={front_end.num_frames(1536)}", "-DWINDOW=1536u")
    subprocess.run(["gcc", *STRICT, *defines, *sources, "-lm", "-o", str(program)], check=True)
    rows = path.read_text().partition("\n")[2]
    answers = subprocess.run([str(program)], input=rows, capture_output=True, text=True, check=True).stdout

    expected = table_run.predict(path, integer=True).values
    assert [table_run.integer.class_names[int(answer)] for answer in answers.split()] == expected
    assert len(expected) == 20

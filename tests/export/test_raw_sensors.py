"""From int16 recordings to the user's firmware, by the documented commands without options."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from hadamrnn.cli import main
from hadamrnn.data.har import read_har

STEPS, CHANNELS = 128, slice(6, 9)  # total acceleration
HALF_G = 8192  # raw codes for 1 g are twice as many, as in a sensor of +-2 g
ONE_THREAD = ("--threads", "1")

MAIN = """
#include <stdio.h>
#include "har.h"

int main(void)
{
    static har_state state;
    int16_t sample[HAR_INPUT_SIZE];
    har_init(&state);
    for (unsigned long t = 1; fread(sample, sizeof sample, 1, stdin) == 1; t++) {
        int32_t raw[HAR_INPUT_SIZE];
        int16_t x[HAR_INPUT_SIZE];
        for (unsigned j = 0; j < HAR_INPUT_SIZE; j++) {
            raw[j] = sample[j];
        }
        har_encode(raw, x);
        har_step(&state, x);
        if (t % 128 == 0) {
            printf("%u\\n", (unsigned)har_classify(&state));
            har_init(&state);
        }
    }
    return 0;
}
"""


@pytest.mark.slow
@pytest.mark.skipif("HADAMRNN_DATA" not in os.environ, reason="HADAMRNN_DATA is not set")
@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc installed")
def test_c_on_raw_recordings_of_held_out_people_is_as_accurate_as_the_float_network(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train, test = read_har()
    recorded = [np.rint(part.x[:, :, CHANNELS] * HALF_G).astype(np.int16) for part in (train, test)]
    np.savez(tmp_path / "train.npz", x=recorded[0][::3], y=train.activity[::3] - 1)
    np.savez(tmp_path / "held_out.npz", x=recorded[1])
    run, folder = tmp_path / "run", tmp_path / "har_c"

    assert main(["train", str(tmp_path / "train.npz"), "--out", str(run), "--quiet", *ONE_THREAD]) == 0
    assert main(["quantize", str(run), *ONE_THREAD]) == 0
    assert "raw codes are the integers that the training data held" in capsys.readouterr().out
    assert main(["export", str(run), "--to", "c", "--out", str(folder), "--name", "har"]) == 0
    found = tmp_path / "predictions.npz"
    assert main(["predict", str(run), str(tmp_path / "held_out.npz"), "--out", str(found), *ONE_THREAD]) == 0

    subprocess.run(["make", "test"], cwd=folder, check=True, capture_output=True)
    (folder / "main.c").write_text(MAIN)
    subprocess.run(["gcc", "-std=c99", "-O2", "har.c", "main.c", "-o", "firmware"], cwd=folder, check=True)
    printed = subprocess.run(
        [folder / "firmware"], input=recorded[1].tobytes(), capture_output=True, check=True
    ).stdout

    labels = test.activity - 1
    float_accuracy = float((np.load(found)["prediction"].astype(np.int64) == labels).mean())
    c_accuracy = float((np.array(printed.split(), np.int64) == labels).mean())
    assert float_accuracy > 0.7
    assert abs(c_accuracy - float_accuracy) <= 0.005

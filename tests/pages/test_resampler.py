"""The resampler of the listening page keeps tones and adds no others."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from hadamrnn.pages.document import LIVE_FOLDER

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="no node installed (Debian: nodejs)")
SECONDS = 0.25


def tone(rate: int, frequency: float) -> NDArray[np.float64]:
    return 0.5 * np.sin(2 * np.pi * frequency * np.arange(int(SECONDS * rate)) / rate + 0.3)


def resampled(
    signals: list[tuple[int, int, NDArray[np.float64], int]], folder: Path
) -> list[NDArray[np.float64]]:
    """Return signals (from, to, values, block) as the page resamples them, block by block."""
    file = folder / "signals.json"
    cases = [{"from": f, "to": to, "values": v.tolist(), "block": block} for f, to, v, block in signals]
    file.write_text(json.dumps(cases))
    module = folder / "resampler.mjs"
    shutil.copy(LIVE_FOLDER / "resampler.js", module)
    script = Path(__file__).with_name("resample.mjs")
    found = subprocess.run(
        ["node", str(script), str(module), str(file)], capture_output=True, text=True, check=True
    )
    return [np.array(samples, float) for samples in json.loads(found.stdout)]


def test_tones_keep_their_loudness_and_those_above_half_the_rate_vanish(tmp_path: Path) -> None:
    rates = [(48_000, 16_000), (44_100, 16_000), (96_000, 16_000), (8_000, 16_000), (16_000, 16_000)]
    tones = [100, 1000, 3900, 7000, 8600, 12_000, 19_000]
    cases = [(f, to, tone(f, hz), 1024) for f, to in rates for hz in tones if hz < f / 2]
    heard = [hz for f, _ in rates for hz in tones if hz < f / 2]

    for hz, (f, to, _, _), samples in zip(heard, cases, resampled(cases, tmp_path), strict=True):
        middle = samples[400:-400]
        decibels = 20 * np.log10(np.sqrt(2 * np.mean(middle**2)) / 16384 + 1e-9)
        if hz < to / 2 and hz < 0.9 * f / 2:
            assert abs(decibels) < 0.1, (f, hz)
        elif hz > 8500:
            assert decibels < -70, (f, hz)


def test_samples_do_not_depend_on_how_the_sound_is_cut_into_blocks(tmp_path: Path) -> None:
    values = np.random.default_rng(0).uniform(-1, 1, 5000)
    blocks = [resampled([(44_100, 16_000, values, block)], tmp_path)[0] for block in (1, 128, 777, 5000)]

    assert all(np.array_equal(each, blocks[0]) for each in blocks)
    assert len(blocks[0]) == pytest.approx(5000 * 16_000 / 44_100, abs=40)


def test_what_is_too_loud_is_cut_at_sixteen_bits(tmp_path: Path) -> None:
    (samples,) = resampled([(48_000, 16_000, np.sign(tone(48_000, 200)) * 1.5, 1024)], tmp_path)

    assert (samples.min(), samples.max()) == (-32768, 32767)

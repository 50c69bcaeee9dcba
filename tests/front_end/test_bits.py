"""Two hundred random front ends, every kind of signal: numpy, host, C and JavaScript give the same codes."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from hadamrnn.errors import InputError
from hadamrnn.export.js import RUNTIME, front_end_js
from hadamrnn.front_end import FrontEnd
from hadamrnn.front_end.reference import compute_bands, reference_bands
from hadamrnn_benchmarks.keywords import float_bands
from tests.export.programs import SANITIZED, STRICT
from tests.front_end.signals import KINDS, Samples, c_cases, drawn_signal, mixed_signal, random_front_end

COUNT = 200
DECIBELS = 10 * np.log10(2)  # per doubling of the energy
Case = tuple[FrontEnd, Samples]


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    rng = np.random.default_rng(32)
    front_ends = [random_front_end(rng) for _ in range(COUNT)]
    return [(front_end, mixed_signal(front_end, rng)) for front_end in front_ends]


@pytest.fixture(scope="module")
def expected(cases: list[Case]) -> list[list[int]]:
    return [reference_bands(*case).reshape(-1).tolist() for case in cases]


def test_the_host_computes_the_codes_of_numpy(cases: list[Case], expected: list[list[int]]) -> None:
    assert [compute_bands(*case).reshape(-1).tolist() for case in cases] == expected


@pytest.mark.parametrize("samples", [np.zeros(400), np.zeros((400, 1), np.int16)], ids=["floats", "channels"])
def test_what_is_not_one_channel_of_int16_is_refused(samples: NDArray[np.float64]) -> None:
    with pytest.raises(InputError, match="one channel of int16"):
        compute_bands(FrontEnd(), samples)  # type: ignore[arg-type]


def test_less_than_a_frame_gives_no_codes() -> None:
    assert compute_bands(FrontEnd(), np.zeros(399, np.int16)).shape == (0, 32)


@pytest.mark.parametrize(
    ("compiler", "flags"), [("gcc", ("-O2",)), ("gcc", SANITIZED), ("clang", SANITIZED)], ids=str
)
def test_c_computes_the_codes_of_numpy(
    compiler: str, flags: tuple[str, ...], cases: list[Case], expected: list[list[int]], tmp_path: Path
) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler} installed")
    program = tmp_path / "program"
    source = Path(__file__).with_name("replay.c")
    include = f"-I{resources.files('hadamrnn.runtime')}"
    built = subprocess.run(
        [compiler, *STRICT, include, *flags, str(source), "-o", str(program)], capture_output=True, text=True
    )
    assert built.returncode == 0, built.stderr[:3000]
    result = subprocess.run([str(program)], input=c_cases(cases), capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-3000:]
    printed = [[int(code) for code in line.split()] for line in result.stdout.splitlines()]
    assert printed == expected


@pytest.mark.skipif(shutil.which("node") is None, reason="no node installed (Debian: nodejs)")
def test_javascript_computes_the_codes_of_numpy(
    cases: list[Case], expected: list[list[int]], tmp_path: Path
) -> None:
    file = tmp_path / "cases.json"
    file.write_text(
        json.dumps([{"fields": front_end_js(fe), "samples": samples.tolist()} for fe, samples in cases])
    )
    replay = Path(__file__).with_name("replay.mjs")
    result = subprocess.run(
        ["node", str(replay), str(RUNTIME / "front_end.js"), str(file)], capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr[-3000:]
    assert json.loads(result.stdout) == expected


@pytest.mark.parametrize("signal", [kind for kind in KINDS if kind != "silent"])
def test_bands_are_those_of_float64_within_015_decibels(signal: str, cases: list[Case]) -> None:
    """Above the noise floor, which is the rounding noise of int16 or 60 dB below the loudest band."""
    rng = np.random.default_rng(7)
    errors = []
    for drawn, _ in cases:
        front_end = replace(drawn, noise_shift=0)
        samples = drawn_signal(signal, front_end.frame + 3 * front_end.hop, rng)
        exact = float_bands(front_end, samples)
        difference = compute_bands(front_end, samples) / 64 - exact
        floor = np.maximum(exact.max(1, keepdims=True) - 60 / DECIBELS, 2)
        errors.append(abs(difference[exact > floor]) * DECIBELS)
    assert np.concatenate(errors).mean() < 0.15
    if signal in ("noise", "full scale"):
        assert max(each.mean() for each in errors) < 0.15

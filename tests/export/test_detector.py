"""The detector in C and JavaScript: the levels of the reference, for random numbers and extreme samples."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from hadamrnn.export.js import export_js
from hadamrnn.fixedpoint.alarms import detection_of
from hadamrnn.fixedpoint.encoding import encode_raw
from hadamrnn.fixedpoint.model import IntegerModel
from tests.export.programs import SANITIZED, compile_and_run, write_sources
from tests.export.random_models import random_model
from tests.fixedpoint.test_detection import detecting_model

CHANNELS = (1, 2, 9, 32)
STEPS = 12


def samples(rng: np.random.Generator, channels: int) -> NDArray[np.int32]:
    """Raw codes of every size, the largest included."""
    codes = rng.integers(-(2**31), 2**31, (STEPS, channels)) >> rng.integers(0, 31, (STEPS, 1))
    codes[0], codes[1] = -(2**31), 2**31 - 1
    return codes.astype(np.int32)


def levels(model: IntegerModel, raw: NDArray[np.int32]) -> list[list[int]]:
    """The level after every step, and whether it is an alarm."""
    stage = detection_of(model)
    assert stage is not None
    found = stage.run(model, encode_raw(model, raw)[0]).tolist()
    return [[level, int(level > stage.threshold)] for level in found]


def reaching_threshold(model: IntegerModel, raw: NDArray[np.int32]) -> IntegerModel:
    """Return the model with a threshold that a level equals and others exceed, so that one is no alarm."""
    stage, found = detection_of(model), sorted({level for level, _ in levels(model, raw)})
    assert stage is not None and len(found) > 1
    stage = replace(stage, threshold=found[-2])
    return replace(model, metadata={**model.metadata, **stage.metadata()})


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler installed")
def test_levels_in_c_are_those_of_the_reference(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    parts, calls, expected = ["#include <stdio.h>\n"], [], []
    for channels in CHANNELS:
        raw, name = samples(rng, channels), f"m{channels}"
        model = reaching_threshold(detecting_model(rng, channels), raw)
        write_sources(tmp_path, model, name)
        numbers = ", ".join("(-2147483647 - 1)" if code == -(2**31) else str(code) for code in raw.ravel())
        parts.append(f'#include "{name}.c"\n#include "{name}_detector.c"\n')
        calls.append(
            f"    {{ static {name}_detector d; static const int32_t raw[] = {{{numbers}}};\n"
            f"      {name}_detector_init(&d); for (int t = 0; t < {STEPS}; t++) {{\n"
            f"      const bool alarm = {name}_detector_push(&d, raw + t * {channels});\n"
            f'      printf("%ld %d\\n", (long){name}_detector_level(&d), alarm); }} }}\n'
        )
        expected += levels(model, raw)
    main = tmp_path / "main.c"
    main.write_text("".join(parts) + "int main(void)\n{\n" + "".join(calls) + "    return 0;\n}\n")

    printed = compile_and_run("cc", main, SANITIZED).splitlines()

    assert [list(map(int, line.split())) for line in printed] == expected


@pytest.mark.skipif(shutil.which("node") is None, reason="no node installed")
def test_levels_in_javascript_are_those_of_the_reference(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    lines, expected = [], []
    for channels in CHANNELS:
        raw = samples(rng, channels)
        model = reaching_threshold(detecting_model(rng, channels), raw)
        folder = export_js(model, tmp_path / f"m{channels}", "net")
        subprocess.run(["node", "test.js"], cwd=folder, check=True, capture_output=True)
        lines.append(
            f'{{ const {{ detector }} = await import("./m{channels}/net.js"); const s = detector.init();\n'
            f"for (const x of {json.dumps(raw.tolist())}) {{ const a = detector.push(s, x);"
            " console.log(s.level, Number(a)); } }\n"
        )
        expected += levels(model, raw)
    (tmp_path / "main.mjs").write_text("".join(lines))

    done = subprocess.run(["node", "main.mjs"], cwd=tmp_path, check=True, capture_output=True, text=True)

    assert [list(map(int, line.split())) for line in done.stdout.splitlines()] == expected


def test_a_network_without_a_detector_has_no_files_of_one(tmp_path: Path) -> None:
    write_sources(tmp_path, random_model(np.random.default_rng(0)), "net")
    folder = export_js(random_model(np.random.default_rng(0)), tmp_path / "js")

    assert not list(tmp_path.glob("*detector*"))
    assert "Detector" not in (folder / "net.js").read_text() + (folder / "net.d.ts").read_text()

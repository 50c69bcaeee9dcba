"""Numbers for firmware: a regressor's answers in fixed point, and a sensor's zero and gain."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hadamrnn.fixedpoint.encoding import target_metadata, target_units, value_format
from hadamrnn.fixedpoint.engine import Engine
from hadamrnn.fixedpoint.model import IntegerModel
from tests.export.programs import SANITIZED, compile_and_run, write_sources
from tests.export.random_models import random_model
from tests.plain_integers import calibrated_codes

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler installed")


def regressor(seed: int, scale: float, offset: float) -> IntegerModel:
    rng = np.random.default_rng(seed)
    model = random_model(rng, block_size=16, output_size=3, input_kind="one_hot", input_size=3, reads=True)
    units = target_metadata(scale * rng.uniform(0.5, 2, 3), offset * rng.uniform(-1, 1, 3))
    return replace(model, metadata=units)


@pytest.mark.parametrize("scale", [1e-12, 1e-4, 1.0, 3e4])
@pytest.mark.parametrize("offset", [0.0, 0.3, 1e6])
def test_values_are_within_two_units_of_the_real_answer_or_saturate(scale: float, offset: float) -> None:
    model = regressor(1, scale, offset)
    values = value_format(model)
    assert values is not None
    bound = model.logit_bound
    logits = np.random.default_rng(2).integers(-bound, bound, (100, 3), endpoint=True)
    units = target_units(model)
    assert units is not None
    scales, offsets = units.T
    real = np.clip((logits * scales + offsets) * 2.0**values.frac_bits, -(2.0**52), 2.0**52 - 1)

    assert np.abs(values.values(logits) - real).max() <= 2
    assert 0 <= values.frac_bits <= 30


def test_a_classifier_has_no_values() -> None:
    assert value_format(random_model(np.random.default_rng(1))) is None


@needs_cc
def test_values_in_c_are_those_of_the_reference(tmp_path: Path) -> None:
    parts, calls, expected = ["#include <stdio.h>\n"], [], []
    for seed, (scale, offset) in enumerate(
        [(1e-3, 20.0), (5.0, -3e3), (1e-9, 0.0), (1e-9, -1e6), (1e5, 1e11), (1e5, -1e20)]
    ):
        model, name = regressor(seed, scale, offset), f"m{seed}"
        write_sources(tmp_path, model, name)
        parts.append(f'#include "{name}.c"\n')
        calls.append(
            f"    {{ static {name}_state s; int64_t v[3]; {name}_init(&s);\n"
            f"      for (uint32_t t = 0; t < 9; t++) {{ {name}_step(&s, t % 2u); {name}_value(&s, v);\n"
            '      printf("%lld %lld %lld\\n", (long long)v[0], (long long)v[1], (long long)v[2]); } }\n'
        )
        engine = Engine(model)
        state = engine.init()
        values = value_format(model)
        assert values is not None
        for t in range(9):
            engine.step(state, np.array(t % 2))
            expected.append(values.values(engine.read(state)[0]).tolist())
    main = tmp_path / "main.c"
    main.write_text("".join(parts) + "int main(void)\n{\n" + "".join(calls) + "    return 0;\n}\n")

    printed = compile_and_run("cc", main, SANITIZED).splitlines()

    assert [list(map(int, line.split())) for line in printed] == expected


@needs_cc
def test_a_calibration_in_c_is_that_of_the_reference(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    model = random_model(rng, block_size=8, input_kind="dense", input_size=9)
    write_sources(tmp_path, model, "net")
    low, high = -(2**31), 2**31 - 1
    raw = np.concatenate([rng.integers(-5000, 5000, 3), rng.integers(low, high, 4), [low, high]])
    zero = np.concatenate([rng.integers(-500, 500, 7), [high, low + 1]])
    gain = np.concatenate([rng.integers(0, 65536, 7), [65535, 65535]])
    raw[0], raw[1], gain[:2] = zero[0] + 1, zero[1] - 1, 1 << 13  # halves, which round up
    channels = ", ".join(f"{{{z}, {g}}}" for z, g in zip(zero, gain, strict=True))
    codes = ", ".join("(-2147483647 - 1)" if code == low else str(code) for code in raw)
    main = tmp_path / "main.c"
    main.write_text(
        '#include <stdio.h>\n#include "net.c"\nint main(void)\n{\n'
        f"    static const hadamrnn_calibration channels[9] = {{{channels}}};\n"
        f"    int32_t raw[9] = {{{codes}}};\n    hadamrnn_calibrate(channels, 9, raw, raw);\n"
        '    for (int j = 0; j < 9; j++) printf("%ld\\n", (long)raw[j]);\n    return 0;\n}\n'
    )

    assert list(map(int, compile_and_run("cc", main, SANITIZED).split())) == calibrated_codes(raw, zero, gain)

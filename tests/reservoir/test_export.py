"""Exports of a reservoir equal the engine bit for bit: C, JavaScript and emulators."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hadamrnn.cli import main
from hadamrnn.export.c import export_arduino, export_c, source_files
from hadamrnn.export.golden import make_golden
from hadamrnn.export.js import export_js
from hadamrnn.export.targets import classify_on_host, measure
from hadamrnn.fixedpoint.encoding import encode_raw
from hadamrnn.reservoir import Group, IntegerReservoir
from tests.edge_targets import installed
from tests.reservoir_models import draw_reservoir

STRICT = "-std=c99 -Wall -Wextra -Wconversion -Wpedantic -Werror -O2"
SANITIZE = "-fsanitize=address,undefined -fno-sanitize-recover=all"
MODELS = 6
COMPILERS = [
    pytest.param(name, first, marks=pytest.mark.skipif(shutil.which(name) is None, reason=f"no {name}"))
    for first, name in enumerate(("gcc", "clang"))
]
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="no node installed")


def drawn(seed: int) -> IntegerReservoir:
    many: Any = {"input_size": 300, "seq_length": 30} if seed == 0 else {}  # channels of two bytes
    return draw_reservoir(np.random.default_rng(seed), **many)


def raw_sequences(model: IntegerReservoir, seed: int, count: int = 3) -> NDArray[np.int32]:
    """Return raw codes over the longest window: small, large and extreme ones."""
    rng = np.random.default_rng(seed)
    shape = (count, model.network.seq_length, model.input_size)
    scale = rng.choice([100, 20_000, 2**31 - 1], (count, 1, 1))
    return np.asarray((rng.uniform(-1, 1, shape) * scale).astype(np.int32))


@pytest.mark.parametrize(("compiler", "first"), COMPILERS)
def test_c_gives_the_engines_bits_at_every_step(compiler: str, first: int, tmp_path: Path) -> None:
    for seed in range(first, MODELS, 2):
        model = drawn(seed)
        folder = tmp_path / str(seed)
        export_c(model, folder, "net", golden=make_golden(model, raw_sequences(model, seed)))

        result = subprocess.run(
            ["make", "-C", str(folder), "test", f"CC={compiler}", f"CFLAGS={STRICT} {SANITIZE}"],
            capture_output=True,
            text=True,
        )

        assert result.returncode == 0, (result.stdout + result.stderr)[-2000:]
        assert "passed, 0 differences" in result.stdout


@needs_node
def test_javascript_gives_the_engines_bits_at_every_step(tmp_path: Path) -> None:
    for seed in range(MODELS):
        model = drawn(seed)
        folder = tmp_path / str(seed)
        export_js(model, folder, "net", golden=make_golden(model, raw_sequences(model, seed)))

        result = subprocess.run(["node", str(folder / "test.js")], capture_output=True, text=True)

        assert result.returncode == 0 and "the same bits" in result.stdout, result.stderr[-2000:]


WINDOW_MAIN = """
#include <stdio.h>
#include "net_window.h"
int main(void)
{
    static net_window window;
    static net_slot slots[2];
    static net_state state;
    const int16_t x[NET_INPUT_SIZE] = {0};
    long value;
    net_init(&state);
    for (unsigned t = 0; t < NET_LONGEST; t++)
        if (net_step(&state, x) != HADAMRNN_OK) return 3;
    if (net_step(&state, x) != HADAMRNN_FULL) return 4;
    if (net_window_init(&window, slots, 12, 4) != HADAMRNN_OK) return 2;
    while (scanf("%ld", &value) == 1) {
        int32_t raw[NET_INPUT_SIZE] = {(int32_t)value};
        if (net_window_push(&window, raw) == HADAMRNN_READY)
            for (unsigned k = 0; k < NET_OUTPUT_SIZE; k++) printf("%ld\\n", (long)window.logits[k]);
    }
    return 0;
}
"""


def test_a_sliding_window_answers_for_its_samples_and_full_counters_refuse_more(
    tmp_path: Path,
) -> None:
    model = draw_reservoir(np.random.default_rng(4), input_size=1, seq_length=12)
    for file, text in source_files(model, "net").items():
        (tmp_path / file).write_text(text)
    (tmp_path / "main.c").write_text(WINDOW_MAIN)
    raw = np.random.default_rng(0).integers(-5000, 5000, (40, 1))
    build = ["cc", *STRICT.split(), *SANITIZE.split(), "main.c", "net.c", "net_window.c", "-o", "main"]
    subprocess.run(build, cwd=tmp_path, check=True)
    text = " ".join(map(str, raw[:, 0]))

    printed = subprocess.run([tmp_path / "main"], input=text, capture_output=True, text=True, check=True)

    windows = np.stack([raw[start : start + 12] for start in range(0, 40 - 12 + 1, 4)])
    logits = model.run(encode_raw(model, windows)[0]).logits
    assert [int(word) for word in printed.stdout.split()] == logits.reshape(-1).tolist()


def test_raw_values_get_the_class_that_the_model_names() -> None:
    model = draw_reservoir(np.random.default_rng(7), output_size=1, input_size=2, seq_length=40)
    raw = raw_sequences(model, 1, 20)

    classes = classify_on_host(model, raw)

    logits = model.run(encode_raw(model, raw)[0]).logits
    assert classes.tolist() == (logits[:, 0] > 0).astype(int).tolist()
    assert model.class_names == ["no", "yes"]
    header = source_files(model, "net")["net.h"]
    assert "NET_CLASS_NO = 0" in header and "NET_CLASS_YES = 1" in header


def _saved(model: IntegerReservoir, folder: Path) -> Path:
    model.save(folder / "model.safetensors")
    return folder / "model.safetensors"


def test_commands_export_and_cost_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _saved(drawn(1), tmp_path)

    assert main(["export", str(path), "--to", "arduino", "--out", str(tmp_path / "a")]) == 0
    assert (tmp_path / "a" / "src" / "hadamrnn_reservoir.h").is_file()
    capsys.readouterr()
    assert main(["cost", str(path), "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["bytes"] > 0 and figures["bits"]["state_bytes"] > 0


def test_an_arduino_library_brings_the_runtime_and_the_example(tmp_path: Path) -> None:
    folder = export_arduino(drawn(2), tmp_path / "lib", "net")

    names = {path.name for path in (folder / "src").iterdir()}
    assert names >= {"hadamrnn.h", "hadamrnn_reservoir.h", "net.c", "net_window.c"}
    assert (folder / "examples" / "net" / "net.ino").is_file()


@pytest.mark.edge
@pytest.mark.parametrize("target", ["cortex-m4", "cortex-m0", "rv32imac", "atmega328p"])
def test_emulated_devices_give_the_engines_bits_in_the_planned_memory(target: str) -> None:
    groups = (Group(dilation=2, is_difference=True, input_shift=2), Group(width=2, segments=3))  # 2 kB of RAM
    model = draw_reservoir(np.random.default_rng(3), groups=groups, input_size=1, seq_length=40)

    found = measure(model, installed(target))

    assert found.differences == 0
    assert found.step > 0 and found.ram > 0

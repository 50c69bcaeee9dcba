"""Names that C takes, folders that are fresh, stories that stay inside their comment."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hadamrnn.cli import main
from hadamrnn.data import load_task
from hadamrnn.errors import InputError
from hadamrnn.export import export_arduino, export_c, fit_golden
from hadamrnn.export.folder import check_name
from hadamrnn.export.story import tell
from hadamrnn.fixedpoint import FILE_NAME, IntegerModel, load, save
from hadamrnn.fixedpoint.encoding import encode_values
from hadamrnn.training.config import TrainingConfig
from hadamrnn.training.run import train
from tests.conftest import Command
from tests.export.random_models import random_model

ARDUINO_STUB = """
#include <cstdio>
#include <cstdint>
#define F(text) text
#define A0 0
inline int analogRead(int) { return 512; }
struct { void begin(long) {} bool available() { return true; } long parseInt() { return 0; }
  void print(const char *s) { std::fputs(s, stdout); } void println(const char *s) { std::puts(s); }
  void println(int n) { std::printf("%d\\n", n); } } Serial;
"""


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    save(random_model(np.random.default_rng(0), block_size=16), folder / FILE_NAME)
    return folder


@pytest.mark.parametrize(
    "name", ["", "1net", "my-net", "a b", "naïve", "int", "class", "string", "_x", "a" * 41]
)
def test_a_name_that_is_no_identifier_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="A name must be"):
        check_name(name)


def test_a_folder_is_replaced_with_force_only_and_only_if_an_export_wrote_it(tmp_path: Path) -> None:
    model = random_model(np.random.default_rng(1), block_size=8)
    folder = export_c(model, tmp_path / "out", "net")
    with pytest.raises(InputError, match="Use --force"):
        export_c(model, folder, "net")
    (folder / "stale.txt").write_text("")
    export_c(model, folder, "net", force=True)
    assert not (folder / "stale.txt").exists()

    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.tex").write_text("")
    with pytest.raises(InputError, match="holds other files"):
        export_c(model, precious, "net", force=True)
    assert (precious / "thesis.tex").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "precious"]


@given(st.dictionaries(st.text(max_size=20), st.text(max_size=60), max_size=3))
def test_metadata_never_leaves_its_comment(metadata: dict[str, str]) -> None:
    model = random_model(np.random.default_rng(2), block_size=8)
    story = tell(dataclasses.replace(model, metadata=metadata))

    for line in story.lines:
        assert "*/" not in line and "/*" not in line and "\n" not in line and line.isascii()
        assert not line.endswith("\\")


def test_the_command_writes_a_folder_that_tests_itself(run_folder: Path, tmp_path: Path) -> None:
    assert main(["export", str(run_folder), "--to", "c", "--out", str(tmp_path / "c"), "--name", "gait"]) == 0

    assert (tmp_path / "c" / "gait.h").exists()
    if shutil.which("cc") and shutil.which("make"):
        subprocess.run(["make", "test"], cwd=tmp_path / "c", check=True, capture_output=True)


def test_the_command_reports_every_target_or_why_not(
    run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(run_folder / FILE_NAME), "--report", "--json"]) == 0

    figures = json.loads(capsys.readouterr().out)
    names = {row["target"] for row in figures["targets"]} | set(figures["skipped"])
    assert names == {"cortex-m0", "cortex-m3", "cortex-m4", "rv32imac", "atmega328p"}
    assert all(row["differences"] == 0 for row in figures["targets"])


@pytest.fixture(scope="module")
def digits_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A quantized run whose data is always at hand."""
    out = tmp_path_factory.mktemp("runs") / "digits"
    train(TrainingConfig(task="digits", hidden_size=32, steps=2), out)
    assert main(["quantize", str(out)]) == 0
    return out


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler installed")
def test_golden_vectors_are_sequences_of_the_runs_test_set(
    digits_run: Path, tmp_path: Path, command: Command
) -> None:
    answer = command("export", digits_run, "--out", tmp_path / "c", "--name", "digits")

    golden = (tmp_path / "c" / "digits_golden.h").read_text()
    model = load(digits_run / FILE_NAME)
    codes, _ = encode_values(model, load_task("digits").test.batch(slice(3))[0].numpy())
    numbers = golden.split("digits_golden_inputs[", 1)[1].split("{", 1)[1].split("}", 1)[0].split(",")
    assert [int(number) for number in numbers] == codes.reshape(-1).tolist()
    assert "golden vectors: sequences of the test set of digits\n" in answer.out
    assert "The inputs are sequences of the test set of digits." in golden
    subprocess.run(["make", "test"], cwd=tmp_path / "c", check=True, capture_output=True)


def test_golden_vectors_are_random_without_data_and_a_line_says_so(
    digits_run: Path, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = shutil.copytree(digits_run, tmp_path / "run")
    config = bare / "config.yaml"
    config.write_text(config.read_text().replace("task: digits", "task: pmnist"))
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.setattr("hadamrnn.data.files.cache_folder", lambda: empty)

    answer = command("export", bare, "--out", tmp_path / "c", "--data-dir", empty)
    refused = command("export", bare, "--out", tmp_path / "d", "--data-dir", empty, "--golden", "data")

    assert answer.status == 0
    assert "golden vectors: random codes, for the test set is not at hand: train" in answer.out
    assert refused.status == 2 and "downloads are off here" in refused.err
    assert not (tmp_path / "d").exists()


def test_golden_vectors_are_random_where_that_is_asked_for(
    digits_run: Path, tmp_path: Path, command: Command
) -> None:
    answer = command("export", digits_run, "--out", tmp_path / "c", "--golden", "random", "--json")

    assert json.loads(answer.out)["golden"] == "random codes"


@pytest.mark.parametrize(("time", "most", "kept"), [(40, 20_000, 40), (40, 60, 14), (40, 10, 1)])
def test_long_sequences_keep_their_last_steps(time: int, most: int, kept: int) -> None:
    shape = {"block_size": 16, "hidden_size": 16, "input_size": 3, "input_kind": "dense", "input_bits": 8}
    model = random_model(np.random.default_rng(3), every_output=False, **shape)
    codes = np.random.default_rng(4).integers(-128, 128, (2, time, 3))

    golden = fit_golden(model, codes, source="a sensor", most=most)

    assert golden.source == "a sensor" and not golden.every
    assert np.array_equal(golden.inputs, codes[: len(golden.inputs), time - kept :])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{tmp}/nowhere", "--out", "{tmp}/x"], "there is no"),
        (["{tmp}", "--out", "{tmp}/x"], "hadamrnn quantize"),
        (["{run}"], "needs --out DIR"),
        (["{run}", "--out", "{tmp}/x", "--name", "two words"], "C identifier"),
        (["{run}", "--out", "{run}"], "exists"),
        (["{run}/" + FILE_NAME, "--out", "{run}/" + FILE_NAME], "is a file"),
        (["{run}/" + FILE_NAME, "--out", "{tmp}/x", "--golden", "data"], "belongs to a run folder"),
    ],
)
def test_bad_input_is_one_line_and_status_2(
    arguments: list[str], message: str, run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    filled = [argument.format(tmp=tmp_path, run=run_folder) for argument in arguments]

    assert main(["export", *filled]) == 2

    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_damaged_file_is_one_line(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = run_folder / FILE_NAME
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(bytes(data))

    assert main(["export", str(run_folder), "--report"]) == 2
    assert "checksum" in capsys.readouterr().err


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler installed")
@pytest.mark.parametrize("kind", ["dense", "one_hot"])
def test_the_arduino_library_compiles_and_its_sketch_passes(kind: str, tmp_path: Path) -> None:
    model = random_model(np.random.default_rng(4), block_size=16, input_kind=kind)
    library = export_arduino(model, tmp_path / "net", "net")
    properties = dict(
        line.split("=", 1) for line in (library / "library.properties").read_text().splitlines()
    )
    assert properties["includes"] == "net.h" and properties["architectures"] == "*"
    assert json.loads((library / "library.json").read_text())["name"] == "net"
    (tmp_path / "main.cpp").write_text(
        f'{ARDUINO_STUB}#include "{library}/examples/net/net.ino"\nint main() {{ setup(); loop(); }}\n'
    )
    subprocess.run(["cc", "-std=c99", "-c", f"{library}/src/net.c", "-o", tmp_path / "net.o"], check=True)
    command = ["c++", "-Wall", "-Wextra", "-Werror", f"-I{library}/src", str(tmp_path / "main.cpp")]
    subprocess.run([*command, tmp_path / "net.o", "-o", tmp_path / "sketch"], check=True)

    output = subprocess.run([tmp_path / "sketch"], check=True, capture_output=True, text=True).stdout

    assert output.startswith("net self-test: passed\n")


def test_export_needs_no_torch() -> None:
    code = "import sys, hadamrnn.export, hadamrnn.export.report; sys.exit('torch' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_equal_models_give_equal_folders(tmp_path: Path) -> None:
    def model() -> IntegerModel:
        return random_model(np.random.default_rng(9))

    first, second = export_c(model(), tmp_path / "a", "net"), export_c(model(), tmp_path / "b", "net")

    assert {p.name: p.read_text() for p in first.iterdir()} == {
        p.name: p.read_text() for p in second.iterdir()
    }

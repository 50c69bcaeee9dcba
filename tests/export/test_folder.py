"""Names that C accepts, new folders, and metadata that cannot leave its comment."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hadamrnn.cli import main
from hadamrnn.data.tasks import load_task
from hadamrnn.errors import InputError
from hadamrnn.export import export_arduino, export_c, export_js, fit_golden
from hadamrnn.export.folder import check_name
from hadamrnn.export.metadata import summarise
from hadamrnn.files import INTEGER_FILE
from hadamrnn.fixedpoint import IntegerModel, load, save
from hadamrnn.fixedpoint.drawn import draw_integers
from hadamrnn.fixedpoint.encoding import encode_inputs, encode_raw
from hadamrnn.fixedpoint.engine import Engine
from hadamrnn.network import Network
from hadamrnn.run import train
from hadamrnn.training.config import make_config
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
    save(random_model(np.random.default_rng(0), block_size=16), folder / INTEGER_FILE)
    return folder


@pytest.mark.parametrize(
    "name",
    ["", "1net", "my-net", "a b", "naïve", "int", "class", "string", "features", "_x", "a" * 41, "NET"],
)
def test_a_name_that_is_no_identifier_is_refused(name: str) -> None:
    with pytest.raises(InputError, match=r"A name must"):
        check_name(name)


def test_a_folder_is_replaced_with_force_only_and_only_if_an_export_wrote_it(tmp_path: Path) -> None:
    model = random_model(np.random.default_rng(1), block_size=8)
    folder = export_c(model, tmp_path / "out", "net")
    for export in (export_c, export_arduino, export_js):
        with pytest.raises(InputError, match="Use --force"):
            export(model, folder, "net")
    export_c(model, folder, "gait", force=True)
    assert not (folder / "net.c").exists() and (folder / "gait.c").exists()

    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.tex").write_text("")
    with pytest.raises(InputError, match="holds other files"):
        export_c(model, precious, "net", force=True)
    assert (precious / "thesis.tex").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "precious"]


def test_force_never_touches_a_file_that_is_the_users(tmp_path: Path) -> None:
    model = random_model(np.random.default_rng(1), block_size=8)
    folder = export_c(model, tmp_path / "out", "net")
    (folder / "main.c").write_text("mine")
    export_c(model, folder, "net", force=True)
    assert (folder / "main.c").read_text() == "mine"

    (folder / "gait.c").write_text("mine too")
    with pytest.raises(InputError, match=r"gait\.c is not of an export"):
        export_c(model, folder, "gait", force=True)
    source = (folder / "net.c").read_text()
    (folder / "net.c").write_text(f"/* edited */{source}")
    with pytest.raises(InputError, match=r"net\.c was edited since"):
        export_c(model, folder, "net", force=True)
    assert (folder / "net.c").read_text().startswith("/* edited */")
    assert (folder / "gait.c").read_text() == "mine too"
    assert not (folder / "gait.h").exists()  # refused before anything was written


@pytest.mark.parametrize("outer", ["../outside.txt", "{tmp}/outside.txt"], ids=["relative", "absolute"])
def test_a_manifest_reaches_nothing_outside_its_folder(outer: str, tmp_path: Path) -> None:
    model = random_model(np.random.default_rng(1), block_size=8)
    folder = export_c(model, tmp_path / "out", "net")
    outside = tmp_path / "outside.txt"
    outside.write_text("")
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["sha256"][outer.format(tmp=tmp_path)] = hashlib.sha256(b"").hexdigest()
    (folder / "manifest.json").write_text(json.dumps(manifest))

    with pytest.raises(InputError, match="is a link"):
        export_c(model, folder, "net", force=True)
    assert outside.exists()


@given(st.dictionaries(st.text(max_size=20), st.text(max_size=60), max_size=3))
def test_metadata_never_leaves_its_comment(metadata: dict[str, str]) -> None:
    model = random_model(np.random.default_rng(2), block_size=8)
    summary = summarise(dataclasses.replace(model, metadata=metadata))

    for line in summary.lines:
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
    assert main(["export", str(run_folder / INTEGER_FILE), "--report", "--json"]) == 0

    figures = json.loads(capsys.readouterr().out)
    names = {row["target"] for row in figures["targets"]} | set(figures["skipped"])
    assert names == {"cortex-m0", "cortex-m3", "cortex-m4", "rv32imac", "atmega328p"}
    assert all(row["differences"] == 0 for row in figures["targets"])


@pytest.fixture(scope="module")
def digits_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A quantized run whose data ships with scikit-learn."""
    out = tmp_path_factory.mktemp("runs") / "digits"
    train(make_config(task="digits", hidden_size=32, steps=2), out)
    assert main(["quantize", str(out)]) == 0
    return out


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler installed")
def test_golden_vectors_are_sequences_of_the_runs_test_set(
    digits_run: Path, tmp_path: Path, command: Command
) -> None:
    answer = command("export", digits_run, "--out", tmp_path / "c", "--name", "digits")

    golden = (tmp_path / "c" / "test" / "digits_golden.h").read_text()
    model = load(digits_run / INTEGER_FILE)
    codes, _ = encode_inputs(model, load_task("digits").test.batch(slice(3))[0].numpy())
    numbers = golden.split("digits_golden_inputs[", 1)[1].split("{", 1)[1].split("}", 1)[0].split(",")
    assert [int(number) for number in numbers] == codes.reshape(-1).tolist()
    assert "golden vectors: sequences of the test set of digits\n" in answer.out
    assert "The inputs are sequences of the test set of digits." in golden
    subprocess.run(["make", "test"], cwd=tmp_path / "c", check=True, capture_output=True)


def test_golden_vectors_are_random_without_data_and_a_line_says_so(tmp_path: Path, command: Command) -> None:
    run, data = tmp_path / "run", tmp_path / "mine.npz"
    np.savez(data, x=np.random.default_rng(0).normal(size=(30, 6, 2)), y=np.arange(30) % 2)
    train(make_config(task="npz", task_options={"path": str(data)}, hidden_size=8, steps=1), run)
    assert main(["quantize", str(run)]) == 0
    data.unlink()

    answer = command("export", run, "--out", tmp_path / "c")
    refused = command("export", run, "--out", tmp_path / "d", "--golden", "data")

    assert answer.status == 0
    assert "golden vectors: random codes (no test data: " in answer.out
    assert refused.status == 2 and refused.err.count("\n") == 1 and "mine.npz" in refused.err
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
        (["{tmp}/nowhere", "--out", "{tmp}/x"], "does not exist"),
        (["{tmp}", "--out", "{tmp}/x"], "hadamrnn quantize"),
        (["{run}"], "needs --out DIR"),
        (["{run}", "--out", "{tmp}/x", "--name", "two words"], "C identifier"),
        (["{run}", "--out", "{run}"], "holds files"),
        (["{run}/" + INTEGER_FILE, "--out", "{run}/" + INTEGER_FILE], "is a file"),
        (["{run}/" + INTEGER_FILE, "--out", "{tmp}/x", "--golden", "data"], "names no test data"),
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
    file = run_folder / INTEGER_FILE
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(bytes(data))

    assert main(["export", str(run_folder), "--report"]) == 2
    assert "checksum" in capsys.readouterr().err


def build_sketch(library: Path, folder: Path, stub: str, loops: int) -> Path:
    """Compile the example of the library `net` against a stub of Arduino.h; return the program."""
    (folder / "main.cpp").write_text(
        f'{stub}#include "{library}/examples/net/net.ino"\n'
        f"int main() {{ setup(); for (long i = 0; i < {loops}; i++) loop(); }}\n"
    )
    sources = sorted(str(path) for path in (library / "src").glob("*.c"))
    subprocess.run(["cc", "-std=c99", "-O2", "-c", *sources], check=True, cwd=folder)
    command = ["c++", "-Wall", "-Wextra", "-Werror", "-O1", f"-I{library}/src", str(folder / "main.cpp")]
    subprocess.run([*command, *folder.glob("*.o"), "-o", folder / "sketch"], check=True)
    return folder / "sketch"


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler installed")
@pytest.mark.parametrize("kind", ["dense", "one_hot"])
def test_the_arduino_library_compiles_and_its_sketch_passes(kind: str, tmp_path: Path) -> None:
    model = random_model(np.random.default_rng(4), block_size=16, input_kind=kind)
    library = export_arduino(model, tmp_path / "net", "net")
    properties = dict(
        line.split("=", 1) for line in (library / "library.properties").read_text().splitlines()
    )
    assert properties["includes"] == "net.h,net_window.h" and properties["architectures"] == "*"
    assert json.loads((library / "library.json").read_text())["name"] == "net"
    sketch = build_sketch(library, tmp_path, ARDUINO_STUB, loops=1)

    output = subprocess.run([sketch], check=True, capture_output=True, text=True).stdout

    assert output.startswith("net self-test: passed\n")


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler installed")
@pytest.mark.parametrize("hop", [128, 32])
def test_the_sketch_classifies_every_window_of_an_endless_stream(hop: int, tmp_path: Path) -> None:
    """Over 128,000 steps, far more than the state was scaled for, every class depends on its window alone."""
    shape = {"block_size": 16, "hidden_size": 16, "input_size": 1, "input_kind": "dense", "output_size": 4}
    bits = {"input_bits": 8, "activation_bits": 10, "hidden_shift": 4, "weight_bits": 4}
    drawn = random_model(
        np.random.default_rng(6), reads=True, biased=False, raw=False, recurrence="linear", **shape, **bits
    )
    model = dataclasses.replace(drawn, metadata={"calibrated_length": 128})
    raw = np.random.default_rng(7).integers(-100, 100, 128_000)
    raw.astype(np.int32).tofile(tmp_path / "stream")
    library = export_arduino(model, tmp_path / "net", "net")
    example = library / "examples" / "net" / "net.ino"
    example.write_text(example.read_text().replace("#define HOP WINDOW", f"#define HOP {hop}"))
    reader = 'inline int analogRead(int) { static FILE *f = std::fopen(STREAM, "rb"); int32_t r = 0; '
    reader += "return std::fread(&r, 4, 1, f) == 1 ? r : 0; }"
    stub = ARDUINO_STUB.replace("inline int analogRead(int) { return 512; }", reader)
    stub = f'#define STREAM "{tmp_path}/stream"\n{stub}'

    printed = subprocess.run(
        [build_sketch(library, tmp_path, stub, loops=len(raw))], check=True, capture_output=True, text=True
    ).stdout.splitlines()

    windows = np.lib.stride_tricks.sliding_window_view(raw, 128)[::hop]
    logits = Engine(model).run(encode_raw(model, windows[:, :, None])[0]).logits
    last = logits[:, -1] if model.every_output else logits
    assert printed[0] == "net self-test: passed"
    assert [int(line) for line in printed[1:]] == last.argmax(axis=1).tolist()
    assert len(set(printed)) > 2


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler installed")
@pytest.mark.parametrize("longest", [40, 0])
def test_the_sketch_of_a_network_made_for_longer_sequences_has_the_longest_window(
    longest: int, tmp_path: Path
) -> None:
    network = Network(1, 8, 4, readouts=("mean",) if longest else ("last",), activation_bits=12)
    drawn = draw_integers(network, np.random.default_rng(0))
    model = dataclasses.replace(drawn, longest=longest, metadata={"calibrated_length": 70_000})
    library = export_arduino(model, tmp_path / "net", "net")
    steps = longest or 65_535

    sketch = build_sketch(library, tmp_path, ARDUINO_STUB, loops=2 * steps)
    output = subprocess.run([sketch], check=True, capture_output=True, text=True).stdout

    assert output.splitlines()[0] == "net self-test: passed"
    assert len(output.splitlines()) == 3  # two classes, one for each window


def test_export_needs_no_torch() -> None:
    code = "import sys, hadamrnn.export, hadamrnn.export.targets; sys.exit('torch' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_equal_models_give_equal_folders(tmp_path: Path) -> None:
    def model() -> IntegerModel:
        return random_model(np.random.default_rng(9))

    first, second = export_c(model(), tmp_path / "a", "net"), export_c(model(), tmp_path / "b", "net")

    def contents(folder: Path) -> dict[str, bytes]:
        return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}

    assert contents(first) == contents(second)
    assert {"net.c", "shared/net.bin", "zephyr/module.yml"} <= contents(first).keys()


def test_force_never_follows_a_linked_subfolder_out_of_its_target(tmp_path: Path) -> None:
    model = random_model(np.random.default_rng(1), block_size=8)
    folder = export_c(model, tmp_path / "out", "net")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.rmtree(folder / "test")
    (folder / "test").symlink_to(elsewhere, target_is_directory=True)

    with pytest.raises(InputError, match="is a link"):
        export_c(model, folder, "net", force=True)

    assert not list(elsewhere.iterdir())


@pytest.mark.parametrize(("mask", "mode"), [(0o077, 0o700), (0o022, 0o755), (0o002, 0o775)])
def test_an_export_leaves_to_the_umask_who_may_read_it(tmp_path: Path, mask: int, mode: int) -> None:
    previous = os.umask(mask)
    try:
        folder = export_c(random_model(np.random.default_rng(1), block_size=8), tmp_path / "out", "net")
    finally:
        os.umask(previous)

    modes = {path.stat().st_mode & 0o777 for path in (folder, *folder.rglob("*")) if path.is_dir()}
    assert modes == {mode}
    assert {path.stat().st_mode & 0o777 for path in folder.rglob("*") if path.is_file()} == {mode & 0o666}

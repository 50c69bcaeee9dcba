"""The examples run in their short form, and a stream gives the decisions of its windows."""

from __future__ import annotations

import ast
import os
import pty
import runpy
import struct
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.io import wavfile

from hadamrnn import Engine, InputError, fixedpoint
from hadamrnn.export.c import export_c
from hadamrnn.files import INTEGER_FILE
from hadamrnn.models import find
from tests.export.programs import STRICT

FOLDER = Path(__file__).parents[2] / "examples"
needs_data = pytest.mark.skipif(
    "HADAMRNN_DATA" not in os.environ, reason="HADAMRNN_DATA names no data folder"
)


def example(name: str) -> dict[str, Any]:
    return runpy.run_path(str(FOLDER / f"{name}.py"))


@pytest.fixture(scope="module")
def har(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of har_to_c.py."""
    out = tmp_path_factory.mktemp("examples") / "har"
    assert example("har_to_c")["main"](["--short", "--out", str(out)]) == 0
    return out


@needs_data
def test_motion_sensors_become_c_and_a_recording(har: Path) -> None:
    model = fixedpoint.load(har / INTEGER_FILE)
    with np.load(har / "recording.npz") as recording:
        codes, activity = recording["codes"], recording["activity"]

    assert (har / "c" / "har.c").is_file()
    assert model.metadata["raw_unit"] == 2.0**-12
    assert codes.dtype == np.int16 and codes.shape == (6 * 8 * 64, 9)
    assert len(activity) == len(codes) and len(set(activity)) == 6


@pytest.mark.parametrize("script", sorted(FOLDER.glob("*.py")), ids=lambda script: script.stem)
def test_examples_use_public_names_alone(script: Path) -> None:
    imports = (node for node in ast.walk(ast.parse(script.read_text())) if isinstance(node, ast.ImportFrom))
    modules = {str(node.module) for node in imports}
    assert {module for module in modules if module.startswith("hadamrnn")} == {"hadamrnn"}


@needs_data
def test_the_drop_in_script_prints_a_line_for_each_layer(capsys: pytest.CaptureFixture[str]) -> None:
    layers = ["torch.nn.RNN", "HadamRNN", "HadamRNN that forgets"]
    for options, scored in (([], "test windows"), (["--validation"], "windows of held-out people")):
        assert example("har_drop_in")["main"](["--short", *options]) == 0
        printed = capsys.readouterr().out.splitlines()
        assert [line[:22].strip() for line in printed] == layers
        assert all(scored in line for line in printed)


@needs_data
def test_a_stream_is_decided_as_its_windows_are(har: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert example("stream_serial")["main"]([str(har)]) == 0
    printed = capsys.readouterr().out.splitlines()
    model = fixedpoint.load(har / INTEGER_FILE)
    with np.load(har / "recording.npz") as recording:
        codes, _ = fixedpoint.encode_raw(model, recording["codes"])
    starts = range(0, len(codes) - 127, 64)
    logits = Engine(model).run(np.stack([codes[start : start + 128] for start in starts])).logits
    classes = np.array(model.class_names)

    assert [line.split()[2] for line in printed[:-2]] == classes[logits.argmax(1)].tolist()
    assert printed[-2].startswith(f"{len(codes):,} samples, 0 bytes skipped")


@needs_data
def test_the_stream_needs_no_torch(har: Path) -> None:
    script = str(FOLDER / "stream_serial.py")
    code = (
        f"import runpy, sys; runpy.run_path({script!r})['main']([{str(har)!r}, '--short']);"
        "sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_frames_come_back_whatever_noise_stands_between_them() -> None:
    stream = example("stream_serial")
    samples = np.random.default_rng(0).integers(-(2**15), 2**15, (50, 3)).astype(np.int16)
    samples[7] = struct.unpack("<h", b"\xa5\xa5")[0]  # a payload of start bytes
    noise = b"\x00\x01\xa5"
    reader, writer = os.pipe()
    os.write(writer, noise + b"".join(stream["frame"](sample) for sample in samples))
    os.close(writer)
    frames = stream["Frames"](reader, 3)

    np.testing.assert_array_equal(np.stack(list(frames)), samples)
    assert frames.skipped == len(noise)
    os.close(reader)


def test_a_real_port_is_opened_raw_and_read_by_name() -> None:
    stream = example("stream_serial")
    board, port = pty.openpty()
    samples = np.array(
        [[10, 13], [3, 4], [0x1104, 0x1A1C]], np.int16
    )  # newlines, Ctrl-C, Ctrl-D, flow control
    descriptor = stream["open_port"](os.ttyname(port), 115200)
    os.write(board, b"".join(stream["frame"](sample) for sample in samples))
    frames = stream["Frames"](descriptor, 2)

    np.testing.assert_array_equal(np.stack(list(islice(frames, len(samples)))), samples)
    for end in (descriptor, port, board):
        os.close(end)


def test_a_folder_without_its_recording_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.int.safetensors").touch()
    with pytest.raises(InputError, match=r"recording\.npz\. .*har_to_c\.py"):
        example("stream_serial")["main"]([str(tmp_path)])


def test_a_port_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="serial port"):
        example("stream_serial")["open_port"](str(tmp_path / "ttyNONE"), 115200)
    with pytest.raises(InputError, match="har_to_c"):
        example("stream_serial")["main"]([str(tmp_path)])


@needs_data
def test_the_forecast_is_shown_beside_persistence(capsys: pytest.CaptureFixture[str]) -> None:
    assert example("forecast_etth1")["main"](["--seeds", "1", "--validation"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    last, day, floats, integers = (
        float(row[place]) for row, place in zip(rows[1:5], (2, 3, 4, 5), strict=True)
    )

    assert [row[0] for row in rows[1:5]] == ["last", "the", "HadamRNN,", "in"]
    assert floats < 0.9 * min(last, day) and integers == pytest.approx(floats, abs=0.005)


def test_windows_of_the_test_see_only_their_past() -> None:
    forecast = example("forecast_etth1")
    hours = np.repeat(np.arange(800.0)[:, None], 7, axis=1)
    past, future = forecast["windows"](hours, 300, 600)

    assert past.shape == future.shape == (205, 96, 7)
    assert future.min() == 300 and future.max() == 599
    np.testing.assert_array_equal(future[:, 0], past[:, -1] + 1)


@pytest.mark.parametrize(
    ("name", "argument", "said"),
    [
        ("har_to_c", "--out=.", "must be a new folder"),
        ("har_drop_in", "--data-dir=nowhere", "must name an existing folder"),
        ("har_drop_in", "--seeds=0", "--seeds must be at least 1"),
        ("forecast_etth1", "--seeds=0", "--seeds must be at least 1"),
        ("stream_serial", "nowhere", "Run first: har_to_c.py"),
    ],
)
def test_bad_input_is_one_line(name: str, argument: str, said: str) -> None:
    command = [sys.executable, str(FOLDER / f"{name}.py"), argument]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert done.stderr.count("\n") == 1 and said in done.stderr


def test_the_microphone_says_the_same_of_a_file_of_a_pipe_and_in_c(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng, model = np.random.default_rng(4), find("keywords-5kb")
    tones = np.sin(np.arange(80_000) * rng.uniform(0.02, 0.6, 10).repeat(8_000))
    samples = np.rint(tones * rng.uniform(0, 9000, 10).repeat(8_000)).astype("<i2")
    wavfile.write(tmp_path / "a.wav", 16_000, samples)

    assert example("microphone")["main"]([str(model.path()), str(tmp_path / "a.wav")]) == 0
    words = [line.split()[-1] for line in capsys.readouterr().out.splitlines()]
    script = [sys.executable, str(FOLDER / "microphone.py"), str(model.path())]
    (tmp_path / "b.wav").write_text("no sound")
    refused = subprocess.run([*script, str(tmp_path / "b.wav")], capture_output=True, text=True)
    assert (refused.returncode, refused.stderr.count("\n")) == (
        2,
        1,
    ) and "b.wav must be a WAV" in refused.stderr
    piped = subprocess.run(script, input=samples.tobytes(), capture_output=True, check=True).stdout
    out = export_c(model.load(), tmp_path / "c", "keywords")
    program = str(tmp_path / "microphone")
    units = [str(out / f"keywords{part}.c") for part in ("", "_window", "_signal")]
    built = ["gcc", *STRICT, f"-I{out}", str(FOLDER / "microphone.c"), *units, "-o", program]
    subprocess.run(built, check=True)
    in_c = subprocess.run([program], input=samples.tobytes(), capture_output=True, check=True).stdout

    assert [line.split()[-1] for line in piped.decode().splitlines()] == words
    assert in_c.decode().split() == words
    assert len(words) == 9 and len(set(words)) > 1

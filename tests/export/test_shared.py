"""One C runtime compiled once runs every network from its blob, bit for bit, and refuses damaged ones."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
import zlib
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from hadamrnn import Network, SequenceModel, calibrate, lower
from hadamrnn.export import draw_golden
from hadamrnn.export.c import source_files
from hadamrnn.export.golden import Golden
from hadamrnn.fixedpoint.blob import BLOB_VERSION, ModelData
from hadamrnn.fixedpoint.engine import Engine, SlidingWindow
from hadamrnn.fixedpoint.model import IntegerModel
from tests.export.programs import STRICT
from tests.export.random_models import random_model
from tests.family_models import family_model

COMPILERS = [
    pytest.param(name, marks=pytest.mark.skipif(shutil.which(name) is None, reason=f"no {name} installed"))
    for name in ("gcc", "clang")
]
SANITIZED = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
END = 0xE0D
HOP = 3
MODELS, DAMAGED = 1000, 10_000


@pytest.fixture(scope="module")
def gcc_driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("gcc") is None:
        pytest.skip("no gcc installed")
    return build(tmp_path_factory.mktemp("driver"), "gcc")


def build(folder: Path, compiler: str, flags: Sequence[str] = SANITIZED) -> Path:
    """Compile the driver with the shared runtime; return the program."""
    runtime = Path(str(files("hadamrnn.runtime")))
    sources = [Path(__file__).with_name("shared_driver.c"), runtime / "hadamrnn_shared.c"]
    program = folder / f"driver.{compiler}"
    command = [compiler, *STRICT, *flags, "-DHADAMRNN_LAYERS=8", f"-I{runtime}", *map(str, sources)]
    built = subprocess.run([*command, "-o", str(program)], capture_output=True, text=True)
    assert built.returncode == 0, built.stderr[:3000]
    return program


def case(blob: bytes, golden: Golden, window: int) -> bytes:
    """Return the driver's input for one case."""
    inputs = golden.inputs.astype("<i4")
    head = struct.pack("<5I", *inputs.shape[:2], window, HOP, inputs.size)
    return struct.pack("<I", len(blob)) + blob + head + inputs.tobytes()


def answers(program: Path, cases: Sequence[bytes]) -> list[tuple[int, NDArray[np.int32]]]:
    """Return the status of every case and the numbers that it printed."""
    result = subprocess.run([str(program)], input=b"".join(cases), capture_output=True, timeout=600)
    assert result.returncode == 0, result.stderr.decode(errors="replace")[-3000:]
    words = np.frombuffer(result.stdout, "<i4")
    return list(split(words, cases))


def split(words: NDArray[np.int32], cases: Sequence[bytes]) -> Any:
    at = 0
    for each in cases:
        (size,) = struct.unpack_from("<I", each)
        sequences, steps, window, _, _ = struct.unpack_from("<5I", each, 4 + size)
        status, outputs = int(words[at]), int(words[at + 1])
        hops = max((steps - window) // HOP + 1, 0) if window else 0
        count = sequences * (steps * outputs + 1) + hops * outputs if outputs else 0
        yield status, words[at + 2 : at + 2 + count]
        assert words[at + 2 + count] == END
        at += count + 3
    assert at == len(words)


def expected(model: IntegerModel, golden: Golden, window: int) -> NDArray[np.int64]:
    """Return the numbers that the reference engine gives: logits and saturations, then those of windows."""
    numbers = []
    for logits, saturations in zip(golden.logits, golden.saturations, strict=True):
        numbers += [logits.reshape(-1), np.array([saturations])]
    if window:
        sliding = SlidingWindow(Engine(model), window, HOP)
        pushed = [sliding.push(codes) for codes in golden.codes[0]]
        numbers += [logits for logits in pushed if logits is not None]
    return np.concatenate(numbers)


def drawn(rng: np.random.Generator, index: int) -> tuple[IntegerModel, Golden, int]:
    model = random_model(rng) if index % 5 == 0 else family_model(rng, extreme=bool(rng.random() < 0.2))
    golden = draw_golden(model, sequences=2, time=7, seed=index)
    fits = not model.longest or model.longest >= 2 * HOP
    return model, golden, 2 * HOP if fits and golden.inputs.shape[1] >= 2 * HOP else 0


@pytest.mark.slow
@pytest.mark.parametrize("compiler", COMPILERS)
def test_the_shared_build_is_the_engine_on_a_thousand_networks_of_the_family(
    compiler: str, tmp_path: Path
) -> None:
    rng = np.random.default_rng(31)
    networks = [drawn(rng, index) for index in range(MODELS)]
    blobs = [ModelData(model, packed=index % 3 > 0).blob for index, (model, _, _) in enumerate(networks)]
    cases = [case(blob, golden, window) for blob, (_, golden, window) in zip(blobs, networks, strict=True)]

    for (model, golden, window), (status, numbers) in zip(
        networks, answers(build(tmp_path, compiler), cases), strict=True
    ):
        assert status == 0, model
        assert np.array_equal(numbers, expected(model, golden, window)), model


def damage(rng: np.random.Generator, blob: bytes, *, seal: bool) -> bytes:
    """Return the blob with bytes changed or cut off; `seal` makes its size and checksum right again."""
    changed = bytearray(blob)
    kind = rng.integers(4)
    if kind == 0:
        changed[int(rng.integers(len(changed)))] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        start, count = int(rng.integers(len(changed))), int(rng.integers(1, 9))
        changed[start : start + count] = rng.bytes(len(changed[start : start + count]))
    elif kind == 2:
        del changed[int(rng.integers(len(changed))) :]
    else:
        head = int(rng.integers(16, min(len(changed), 200)))  # a field
        changed[head] = int(rng.choice([0, 1, 2, 7, 8, 15, 16, 31, 32, 127, 128, 254, 255]))
    if seal and len(changed) >= 16:
        changed[8:16] = struct.pack("<II", len(changed), zlib.crc32(bytes(changed[16:])))
    return bytes(changed)


@pytest.mark.parametrize("seal", [False, True], ids=["checksum", "sealed"])
def test_a_damaged_blob_is_refused_or_runs_without_undefined_behaviour(seal: bool, gcc_driver: Path) -> None:
    """An unsealed blob that opens must give the same bits; a sealed one that opens is another network."""
    rng = np.random.default_rng(7)
    networks = [drawn(rng, index) for index in range(100)]
    blobs = [ModelData(model).blob for model, _, _ in networks]
    sources = [(n, damage(rng, blobs[n], seal=seal)) for n in rng.integers(len(networks), size=DAMAGED // 2)]
    cases = [case(blob, *networks[n][1:]) for n, blob in sources]

    found = answers_of_any(gcc_driver, cases)

    assert len(found) == len(cases)
    opened = [n for n, (status, _) in zip(sources, found, strict=True) if status == 0]
    for (n, blob), (status, numbers) in zip(sources, found, strict=True):
        if status == 0 and not seal:
            assert np.array_equal(numbers, expected(*networks[n])), blob[:16]
    assert (len(opened) > DAMAGED // 50) == seal


def answers_of_any(program: Path, cases: Sequence[bytes]) -> list[tuple[int, NDArray[np.int32]]]:
    """Return the answers of cases that may open as networks of other sizes: up to the end mark."""
    result = subprocess.run([str(program)], input=b"".join(cases), capture_output=True, timeout=600)
    assert result.returncode == 0, result.stderr.decode(errors="replace")[-3000:]
    words, found, at = np.frombuffer(result.stdout, "<i4"), [], 0
    ends = np.flatnonzero(words == END)
    for _ in cases:
        end = int(ends[np.searchsorted(ends, at)])
        found.append((int(words[at]), words[at + 2 : end]))
        at = end + 1
    return found


@pytest.mark.parametrize(
    ("change", "status"),
    [
        (lambda blob: blob[:8], 16),
        (lambda blob: b"hrnn" + blob[4:], 16),
        (lambda blob: blob[:4] + bytes([BLOB_VERSION + 1, 0]) + blob[6:], 17),
        (lambda blob: blob + b"\0", 18),
        (lambda blob: blob[:-1] + bytes([blob[-1] ^ 1]), 18),
    ],
    ids=["short", "magic", "version", "size", "checksum"],
)
def test_the_reason_of_a_refusal_is_told(change: Any, status: int, gcc_driver: Path) -> None:
    model, golden, window = drawn(np.random.default_rng(3), 1)

    ((found, _),) = answers(gcc_driver, [case(change(ModelData(model).blob), golden, window)])

    assert found == status


def test_a_network_whose_sums_could_overflow_is_refused_with_a_right_checksum(gcc_driver: Path) -> None:
    model = random_model(np.random.default_rng(5), block_size=64, input_kind="dense", activation_bits=12)
    golden = draw_golden(model, sequences=1, time=3)
    data = ModelData(model)
    data.layers = [{**data.layers[0], "state_shift": 20}]

    ((status, _),) = answers(gcc_driver, [case(data.blob, golden, 0)])

    assert status == 19


def test_a_factor_of_an_order_that_has_no_hadamard_matrix_is_refused(gcc_driver: Path) -> None:
    model = random_model(np.random.default_rng(5), block_size=12, input_kind="dense", activation_bits=12)
    data = ModelData(model)
    ((order, stride, signs), *others) = data.layers[0]["factors"]
    data.layers = [{**data.layers[0], "factors": ((order // 2, stride * 2, signs), *others)}]

    ((status, _),) = answers(gcc_driver, [case(data.blob, draw_golden(model, sequences=1, time=3), 0)])

    assert status == 19


def test_two_trainings_of_one_architecture_differ_in_data_only() -> None:
    """The programs are equal byte for byte; headers and weights differ in the values of numbers."""
    network = Network(
        3, layer_sizes=(16, 16), output_size=4, leak=(1, 2), num_blocks=2, readouts=("mean", "max")
    )
    first, second = (source_files(trained(network, seed), "net") for seed in (1, 2))

    assert first.keys() == second.keys()
    assert {name for name in first if first[name] != second[name]} == {"net.h", "net_weights.h"}
    for name in ("net.h", "net_weights.h"):
        assert without_numbers(first[name]) == without_numbers(second[name])


def trained(network: Network, seed: int) -> IntegerModel:
    """Return the integers of a network after a step of gradient descent."""
    torch.manual_seed(seed)
    model, x = SequenceModel(network), torch.randn(8, 20, 3)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    torch.nn.functional.cross_entropy(model(x), torch.arange(8) % 4).backward()
    optimizer.step()
    return lower(model, calibrate(model, [(x, None)]))


def without_numbers(text: str) -> list[str]:
    """Return the words of C without comments, runs of numbers as one #."""
    code = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    return re.sub(r"#[\s,]+(#[\s,]+)*", "# ", re.sub(r"-?\b\d[\w.+-]*", "#", code)).split()


@pytest.mark.edge
def test_a_fuzzer_finds_no_blob_that_opens_and_misbehaves(tmp_path: Path) -> None:
    """libFuzzer seals every input, so that it reaches the checks behind the checksum."""
    seconds, corpus = 30, tmp_path / "corpus"
    corpus.mkdir()
    rng = np.random.default_rng(5)
    for index in range(60):
        model, _, _ = drawn(rng, index)
        (corpus / str(index)).write_bytes(ModelData(model).blob[16:])
    program = build(tmp_path, "clang", (*SANITIZED, "-fsanitize=fuzzer", "-DFUZZ"))
    command = [str(program), f"-max_total_time={seconds}", "-max_len=8192", "-rss_limit_mb=1024", "-seed=1"]

    result = subprocess.run([*command, str(corpus)], cwd=tmp_path, capture_output=True, text=True)

    assert result.returncode == 0, result.stderr[-3000:]

"""Every export takes values of the training file and answers with the label that `predict` returns."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hadamrnn.cli import main
from hadamrnn.estimators import HadamRNNClassifier
from hadamrnn.export import export_arduino, export_c, export_js
from hadamrnn.export.js import runtime_text
from hadamrnn.export.page import RUNTIME
from hadamrnn.files import INTEGER_FILE
from hadamrnn.fixedpoint import IntegerModel, load
from hadamrnn.reservoir import IntegerReservoir

Labels = list[str]

NAMES = ("läuft, schnell", "sitzt", "steht")
STEPS, SPREAD = 24, 3.0

C_MAIN = """
#include <math.h>
#include <stdio.h>
#include "net.h"

int main(void)
{
    static const char *const names[] = NET_CLASS_NAMES;
    static net_state state;
    unsigned steps = 0;
    double values[NET_INPUT_SIZE];
    net_init(&state);
    while (fread(values, sizeof values, 1, stdin) == 1) {
        int32_t raw[NET_INPUT_SIZE];
        int16_t x[NET_INPUT_SIZE];
        for (unsigned j = 0; j < NET_INPUT_SIZE; j++) {
            raw[j] = (int32_t)floor(values[j] / NET_RAW_UNIT + 0.5);
        }
        (void)net_encode(raw, x);
        (void)net_step(&state, x);
        if (++steps % STEPS == 0) {
            puts(names[net_classify(&state)]);
            net_init(&state);
        }
    }
    return 0;
}
"""
JS_MAIN = """
import { readFileSync } from "node:fs";
const { network, sequences } = await setUp(JSON.parse(readFileSync(0, "utf8")));
const labels = sequences.map((sequence) => {
  const logits = network.run(sequence.map((values) => network.encodeValues(values)));
  return network.classNames[network.classify(logits)];
});
console.log(JSON.stringify(labels));
"""


@dataclass
class Trained:
    """A fitted network with its exports in a folder, and its predictions for `x`."""

    x: NDArray[np.float64]
    predicted: Labels
    integer: IntegerModel | IntegerReservoir
    folder: Path


def waves(offset: float, count: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.str_]]:
    """Return series of two channels around `offset`, with the frequency of their class, and the classes."""
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % 3
    phases = rng.uniform(0, 2 * np.pi, (count, 1))
    angles = phases + np.arange(STEPS) * (0.3 + 0.5 * labels[:, None])
    x = np.stack([np.sin(angles), np.cos(angles) + 1], axis=2) + rng.normal(0, 0.05, (count, STEPS, 2))
    return offset + SPREAD * x, np.array(NAMES)[labels]


def fit_estimator(offset: float, folder: Path, solver: Any) -> Trained:
    x, y = waves(offset, 150, seed=0)
    new, truth = waves(offset, 30, seed=1)
    fitted = HadamRNNClassifier(solver=solver, random_state=0).fit(x, y)
    assert fitted.score(new, truth) == 1
    integer = fitted.quantize()
    export_c(integer, folder / "c", "net")
    fitted.to_onnx(folder / "onnx", "net")
    fitted.to_page(folder / "page", new, truth, "net")
    return Trained(new, fitted.predict(new).tolist(), integer, folder)


def fit_counts(offset: float, folder: Path) -> Trained:
    return fit_estimator(offset, folder, "auto")


def fit_network(offset: float, folder: Path) -> Trained:
    return fit_estimator(offset, folder, "ridge")


def train_run(offset: float, folder: Path) -> Trained:
    x, y = waves(offset, 150, seed=0)
    new, truth = waves(offset, 30, seed=1)
    np.savez(folder / "train.npz", x=x, y=y)
    np.savez(folder / "new.npz", x=new)
    trained, found = folder / "run", folder / "found.npz"
    assert main(["train", str(folder / "train.npz"), "--out", str(trained), "--quiet", "--threads", "1"]) == 0
    assert main(["quantize", str(trained), "--threads", "1"]) == 0
    assert main(["predict", str(trained), str(folder / "new.npz"), "--out", str(found)]) == 0
    for target in ("c", "onnx", "arduino", "js", "page"):
        out = str(folder / target)
        assert main(["export", str(trained), "--to", target, "--out", out, "--name", "net"]) == 0
    predicted = np.load(found)["prediction"].tolist()
    assert np.mean(np.array(predicted) == truth) > 0.9
    return Trained(new, predicted, load(trained / INTEGER_FILE), folder)


@pytest.fixture(scope="module", params=[0.0, 500.0, 1e6], ids=["0", "500", "1e6"])
def offset(request: pytest.FixtureRequest) -> float:
    return float(request.param)


@pytest.fixture(scope="module", params=[fit_counts, fit_network, train_run])
def trained(
    request: pytest.FixtureRequest, offset: float, tmp_path_factory: pytest.TempPathFactory
) -> Trained:
    found: Trained = request.param(offset, tmp_path_factory.mktemp("units"))
    return found


def exported(trained: Trained, target: str, write: Callable[..., Path]) -> Path:
    """Return the folder of an export; write it first if necessary."""
    folder = trained.folder / target
    return folder if folder.exists() else write(trained.integer, folder, "net")


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler installed")
@pytest.mark.parametrize("target", ["c", "arduino"])
def test_c_takes_values_of_the_training_file(trained: Trained, target: str, tmp_path: Path) -> None:
    folder = exported(trained, target, export_c if target == "c" else export_arduino)
    sources = folder / "src" if target == "arduino" else folder
    (tmp_path / "main.c").write_text(C_MAIN)
    flags = ["-std=c99", f"-DSTEPS={STEPS}u", f"-I{sources}", str(sources / "net.c"), "-lm"]

    subprocess.run(["cc", "main.c", *flags, "-o", "labels"], cwd=tmp_path, check=True)
    printed = subprocess.run(
        [tmp_path / "labels"], input=trained.x.tobytes(), capture_output=True, check=True
    )

    assert printed.stdout.decode().splitlines() == trained.predicted


def node_labels(set_up: str, trained: Trained, **data: Any) -> Labels:
    code = JS_MAIN.replace("setUp", f"(async ({{ sequences, ...data }}) => {{ {set_up} }})")
    given = json.dumps({"sequences": trained.x.tolist(), **data})
    command = ["node", "--input-type=module", "-e", code]
    answer = subprocess.run(command, input=given, capture_output=True, text=True, check=True)
    labels: Labels = json.loads(answer.stdout)
    return labels


@pytest.mark.skipif(shutil.which("node") is None, reason="no node installed (Debian: nodejs)")
def test_javascript_takes_values_of_the_training_file(trained: Trained) -> None:
    folder = exported(trained, "js", export_js)

    set_up = (
        f'const {{ network }} = await import("{folder.as_uri()}/net.js"); return {{ network, sequences }};'
    )
    assert node_labels(set_up, trained) == trained.predicted


@pytest.mark.skipif(shutil.which("node") is None, reason="no node installed (Debian: nodejs)")
def test_a_page_takes_values_of_the_training_file(trained: Trained, tmp_path: Path) -> None:
    page = (trained.folder / "page" / "net.html").read_text()
    data = re.search(r'type="application/json"[^>]*>(.*?)</script>', page)
    assert data is not None
    live = json.loads(data[1])["net"]
    runtime = tmp_path / "runtime.js"
    runtime.write_text("".join(map(runtime_text, RUNTIME)))

    set_up = (
        f'const {{ networkOf }} = await import("{runtime.as_uri()}");'
        "return { network: networkOf(data.model), sequences };"
    )
    assert node_labels(set_up, trained, model=live["model"]) == trained.predicted
    assert live["classes"] == list(NAMES)


def test_onnx_takes_values_of_the_training_file(trained: Trained) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="no onnxruntime installed")
    graphs = list((trained.folder / "onnx").glob("*_sequence.onnx"))
    assert len(graphs) == (1 if isinstance(trained.integer, IntegerReservoir) else 2)
    for graph in graphs:
        session = runtime.InferenceSession(graph)
        facts = {key: json.loads(text) for key, text in session.get_modelmeta().custom_metadata_map.items()}

        logits = session.run(["logits"], {"x": trained.x})[0]

        assert [facts["classes"][k] for k in logits.argmax(1)] == trained.predicted
        inputs = (trained.x - facts["offset"]) / facts["scale"]
        np.testing.assert_allclose([inputs.mean((0, 1)), inputs.std((0, 1)) - 1], 0, atol=0.2)

"""The JavaScript export in Node equals the engine bit for bit: streams, whole sequences and windows."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hadamrnn.export.golden import draw_golden
from hadamrnn.export.js import RUNTIME, export_js, js_model
from hadamrnn.files import INTEGER_FILE
from hadamrnn.fixedpoint import Engine, IntegerModel, save
from hadamrnn.fixedpoint.encoding import encode_raw, target_metadata, value_format
from hadamrnn.fixedpoint.engine import SlidingWindow
from tests.conftest import Command
from tests.export.random_models import random_model
from tests.family_models import family_model
from tests.plain_integers import calibrated_codes

NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="no node installed (Debian: nodejs)")
MODELS = 500  # per kind
ROWS, STEPS, WINDOW, HOP = 2, 8, 4, 2


def node(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(NODE), *map(str, arguments)], capture_output=True, text=True, cwd=cwd)


def drawn_inputs(model: IntegerModel, rng: np.random.Generator) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Codes over the whole range and a little beyond it, `(rows, steps, ...)`, or ids."""
    if model.input_kind != "dense":
        return rng.integers(0, model.vocabulary_size, (ROWS, STEPS))
    beyond = 1 << model.input_bits
    return rng.integers(-beyond, beyond + 1, (ROWS, STEPS, model.input_size))


def expected(model: IntegerModel, rows: Any, raw: Any, zero: Any, gain: Any) -> dict[str, Any]:
    """The engine's results for the same inputs, in the form of replay.mjs."""
    engine, streams = Engine(model), []
    for row in rows:
        state, logits = engine.init(), []
        for codes in row:
            engine.step(state, codes)
            logits.append(engine.read(state)[0].tolist())
        states = [h[:, 0].tolist() for h in state.hidden]
        streams.append({"logits": logits, "states": states, "saturations": state.saturations})
    sliding = SlidingWindow(engine, WINDOW, HOP)
    windows = [sliding.push(codes) for codes in rows[0]]
    values = value_format(model)
    run = engine.run(rows).logits.reshape(ROWS, -1, model.output_size)
    return {
        "streams": streams,
        "run": run.tolist(),
        "encoded": encode_raw(model, raw)[0].tolist() if len(raw) else [],
        "calibrated": [calibrated_codes(step, zero, gain) for step in raw],
        "values": [None if values is None else values.values(logits[-1]).tolist() for logits in run],
        "windows": [None if logits is None else logits.tolist() for logits in windows],
    }


@needs_node
@pytest.mark.parametrize("draw", [random_model, family_model], ids=["paper", "family"])
def test_javascript_is_the_engine_bit_for_bit(draw: Callable[..., IntegerModel], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    cases, answers = [], []
    for _ in range(MODELS):
        model = draw(rng)
        if rng.random() < 0.5:  # a regressor
            scale, offset = 10.0 ** rng.uniform(-6, 2, (2, model.output_size))
            model = replace(model, metadata=target_metadata(scale, offset))
        rows = drawn_inputs(model, rng)
        size = (4, model.input_size) if model.input_kind == "dense" else (0,)
        raw = rng.integers(-(1 << 31), 1 << 31, size) >> rng.integers(0, 24, size)
        zero = rng.integers(-(1 << 20), 1 << 20, model.input_size)
        gain = rng.integers(0, 1 << 16, model.input_size)
        inputs = {"rows": rows, "raw": raw, "zero": zero, "gain": gain}
        lists = {name: array.tolist() for name, array in inputs.items()}
        cases.append({"model": js_model(model), "window": [WINDOW, HOP], **lists})
        answers.append(expected(model, rows, raw, zero, gain))
    file = tmp_path / "cases.json"
    file.write_text(json.dumps(cases))

    replayed = node(Path(__file__).with_name("replay.mjs"), (RUNTIME / "network.js").as_uri(), file)

    assert replayed.returncode == 0, replayed.stderr
    for index, (found, wanted) in enumerate(zip(json.loads(replayed.stdout), answers, strict=True)):
        assert found == wanted, f"model {index} of the draw"


@needs_node
@pytest.mark.parametrize("kind", ["dense", "one_hot", "embedded"])
def test_the_exported_folder_tests_itself_and_notices_a_wrong_bit(kind: str, tmp_path: Path) -> None:
    model = random_model(np.random.default_rng(3), input_kind=kind, reads=True)
    folder = export_js(model, tmp_path / "js", "net")

    passed = node("test.js", cwd=folder)
    golden = draw_golden(model)
    logits = golden.logits.copy()
    logits[-1, -1, -1] += 1
    export_js(model, folder, "net", golden=replace(golden, logits=logits), force=True)

    assert passed.returncode == 0 and "the same bits" in passed.stdout, passed.stderr
    failed = node("test.js", cwd=folder)
    assert failed.returncode == 1 and "1 DIFFERENCES" in failed.stdout


@needs_node
def test_what_a_step_cannot_take_is_refused_or_leaves_the_state_alone(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    dense = export_js(random_model(rng, input_kind="dense", input_size=3), tmp_path / "dense", "net")
    ids = export_js(random_model(rng, input_kind="embedded"), tmp_path / "ids", "net")
    pooled = replace(family_model(rng, input_kind="one_hot", input_size=2, readouts=("mean",)), longest=2)
    counted = export_js(pooled, tmp_path / "counted", "net", golden=draw_golden(pooled, time=2))
    code = """
      import { network } from "%s/net.js";
      const state = network.init(), said = [];
      for (const input of [%s]) {
        try { said.push(network.step(state, input)); } catch (error) { said.push(error.message); }
      }
      console.log(JSON.stringify([...said, state.steps]));
    """

    def said(folder: Path, inputs: str) -> Any:
        return json.loads(node("--input-type=module", "-e", code % (folder.as_uri(), inputs)).stdout)

    assert said(ids, "-1, 99, 0.5, 'a', 0") == [False, False, False, False, True, 1]
    assert said(counted, "0, 1, 0") == [True, True, False, 2]
    assert said(dense, "[1, 2], [1, 2, 0.5], [1, 2, NaN], [1e300, -7, 0]") == [
        "A step of this network has 3 codes, got 2.",
        "A code must be a whole number, got 0.5.",
        "A code must be a whole number, got NaN.",
        True,
        1,
    ]


@needs_node
def test_readings_that_are_no_int32_are_refused(tmp_path: Path) -> None:
    model = random_model(np.random.default_rng(1), input_kind="dense", input_size=1, raw=True)
    folder = export_js(model, tmp_path / "js", "net")
    code = """
      import { network } from "%s/net.js";
      const said = [2147483647, -2147483648, 2147483648, 4294967297, 0.5, NaN, "7"].map((reading) => {
        try { network.encode([reading]); return "fits"; } catch (error) { return error.message; }
      });
      console.log(JSON.stringify(said));
    """

    said = json.loads(node("--input-type=module", "-e", code % folder.as_uri()).stdout)

    refused = [f"A reading must be an int32, got {value}." for value in (1 << 31, 2**32 + 1, 0.5, "NaN", 7)]
    assert said == ["fits", "fits", *refused]


@needs_node
def test_class_names_reach_javascript_whatever_they_hold(tmp_path: Path) -> None:
    names = ["</script>", "hot & \"cold\" 'ü'", "*/"]
    model = random_model(np.random.default_rng(2), output_size=3)
    named = replace(model, metadata={"class_names": json.dumps(names)})
    folder = export_js(named, tmp_path / "js", "net")

    code = f'import net from "{folder.as_uri()}/net.js"; console.log(JSON.stringify(net.classNames))'
    assert json.loads(node("--input-type=module", "-e", code).stdout) == names
    assert "</script" not in (folder / "net.js").read_text()


def test_the_command_writes_a_module_with_its_types(tmp_path: Path, command: Command) -> None:
    save(random_model(np.random.default_rng(0)), tmp_path / INTEGER_FILE)

    answer = command(
        "export", tmp_path / INTEGER_FILE, "--to", "js", "--name", "gait", "--out", tmp_path / "js"
    )

    assert answer.status == 0
    assert "check it with: node" in answer.out
    assert {path.name for path in (tmp_path / "js").iterdir()} == {
        *("gait.js", "gait.d.ts", "test.js", "golden.json", "package.json", "README.md", "manifest.json"),
    }

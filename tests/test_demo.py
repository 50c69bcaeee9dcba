"""The demo from digits to C: its table and page report what ran and what could not run."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from hadamrnn.demo import DemoResult, table
from hadamrnn.errors import InputError
from hadamrnn.export.targets import classify_on_host
from hadamrnn.fixedpoint.encoding import encode_raw
from hadamrnn.fixedpoint.engine import Engine
from tests.conftest import Command
from tests.export.random_models import random_model

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


@needs_compiler
@pytest.mark.parametrize("kind", ["dense", "one_hot", "embedded"])
def test_the_compiled_c_classifies_as_the_engine_does(kind: str) -> None:
    rng = np.random.default_rng(7)
    model = random_model(rng, input_kind=kind, output_size=5)
    if kind == "dense":
        inputs = rng.integers(-3000, 3000, (20, 9, model.input_size))
        codes = encode_raw(model, inputs)[0].astype(np.int64)
    else:
        inputs = codes = rng.integers(0, model.vocabulary_size, (20, 9))
    engine, state = Engine(model), Engine(model).init(20)
    for t in range(9):
        engine.step(state, codes[:, t])

    classes = classify_on_host(model, inputs)

    np.testing.assert_array_equal(classes, engine.read(state).argmax(axis=1))


def test_sequences_of_the_wrong_form_are_refused() -> None:
    model = random_model(np.random.default_rng(7), input_kind="dense")

    with pytest.raises(InputError, match=r"must hold integers of shape \(2, 3, "):
        classify_on_host(model, np.zeros((2, 3, model.input_size)))


@pytest.mark.slow
def test_the_demo_ends_with_a_table_and_a_page(command: Command, tmp_path: Path) -> None:
    answer = command("demo", "--epochs", 2, "--out", tmp_path / "demo")

    assert answer.status == 0
    for label in ("accuracy, float", "accuracy, integer", "accuracy, C", "weights", "additions", "cortex-m4"):
        assert label in answer.out
    found = dict(re.findall(r"accuracy, (\w+) +([\d.]+)", answer.out))
    assert found.get("C", found["integer"]) == found["integer"] and float(found["integer"]) > 10
    assert [line[:3] for line in answer.err.splitlines() if line[1] == "/"] == ["1/4", "2/4", "3/4", "4/4"]
    shown = (Path(__file__).parents[1] / "docs" / "index.md").read_text()
    for line in answer.out.splitlines():
        if line.startswith(("handwritten", "  weights", "  additions")):  # the same on every processor
            assert line in shown
    page = (tmp_path / "demo" / "demo.html").read_text()
    assert page.count("<svg ") == 1 and page.count('data-live="digits"') == 1 and len(page) < 400_000
    assert 'href="c/README.md"' in page and (tmp_path / "demo" / "c" / "README.md").is_file()
    assert "prefers-color-scheme: dark" in page


@pytest.mark.slow
def test_without_tools_the_table_says_what_to_install(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    answer = command("demo", "--epochs", 1, "--json", "--out", tmp_path / "demo")

    assert answer.status == 0
    figures = json.loads(answer.out)
    assert figures["c_accuracy"] is figures["c_test"] is figures["instructions_per_step"] is None
    assert "gcc" in figures["missing"]["c_accuracy"]
    assert "qemu-system-arm" in figures["missing"]["instructions_per_step"]
    assert figures["integer_accuracy"] > 0.1
    assert ("C and Python", "not run, no C compiler (Debian: gcc)") in table(DemoResult(**figures))


def test_the_demo_refuses_a_folder_that_holds_something(command: Command, tmp_path: Path) -> None:
    (tmp_path / "mine").touch()

    answer = command("demo", "--out", tmp_path)

    assert (answer.status, answer.err.count("\n")) == (2, 1)
    assert "new or empty folder" in answer.err

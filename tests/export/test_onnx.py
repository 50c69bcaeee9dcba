"""ONNX in onnxruntime: the float network equals torch up to rounding, the integer one the engine exactly."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hadamrnn.cli import main
from hadamrnn.errors import InputError
from hadamrnn.export.golden import draw_golden
from hadamrnn.fixedpoint import Engine, IntegerModel, State, encode_raw, encode_values
from hadamrnn.fixedpoint.drawn import draw_integers
from hadamrnn.network import Network
from hadamrnn.nn.model import SequenceModel
from hadamrnn.run import train
from hadamrnn.training.config import make_config
from tests.conftest import Command
from tests.export.graphs import session, stepwise
from tests.export.random_models import random_model
from tests.family_models import family_codes, family_model

onnx = pytest.importorskip("onnx", reason="no onnx installed: pip install 'hadamrnn[onnx]'")
onnxruntime = pytest.importorskip("onnxruntime", reason="no onnxruntime installed")

from hadamrnn.export.onnx import export_onnx  # noqa: E402 (after the skip)
from hadamrnn.export.onnx_graph import Builder  # noqa: E402
from hadamrnn.export.onnx_integer import within  # noqa: E402


def values_of(model: IntegerModel, raw: Any) -> Any:
    """Return the inputs of a graph: the values of raw codes, or ids."""
    return raw * model.raw_unit if model.input_kind == "dense" else raw.astype(np.int64)


def codes_of(model: IntegerModel, raw: Any) -> Any:
    """Return the inputs of the engine."""
    return encode_raw(model, raw)[0] if model.input_kind == "dense" else raw


@pytest.mark.parametrize("seed", range(40))
def test_integer_onnx_is_the_engine(seed: int, tmp_path: Path) -> None:
    model = random_model(np.random.default_rng(seed))
    golden = draw_golden(model, sequences=3, time=5, seed=seed)
    folder = export_onnx(tmp_path / "onnx", integer_model=model)
    inputs = values_of(model, golden.inputs)

    step = session(folder, "net_integer_step.onnx")
    h = np.zeros((3, model.hidden_size), np.int64)
    for t in range(5):
        logits, h = step.run(["logits", "h_next"], {"x": inputs[:, t], "h": h})
        assert np.array_equal(logits, golden.logits[:, t])
    assert np.array_equal(h, golden.hidden[-1])

    sequence = session(folder, "net_integer_sequence.onnx")
    logits, last = sequence.run(["logits", "h_last"], {"x": inputs})
    assert np.array_equal(logits, golden.logits if model.every_output else golden.logits[:, -1])
    assert np.array_equal(last, golden.hidden[-1])


@pytest.mark.parametrize("kind", ["dense", "one_hot", "embedded"])
def test_inputs_out_of_range_saturate_or_leave_the_state_alone(kind: str, tmp_path: Path) -> None:
    model = random_model(np.random.default_rng(5), input_kind=kind, input_bits=4, reads=True)
    golden = draw_golden(model, sequences=3, time=4)
    folder = export_onnx(tmp_path / "onnx", integer_model=model)
    h = golden.hidden[-1].astype(np.int64)
    shape = (3, model.input_size) if kind == "dense" else (3,)

    for beyond in (-(2**40), 2**40):
        x = np.full(shape, beyond)
        inputs = x.astype(np.float64 if kind == "dense" else np.int64)
        found = session(folder, "net_integer_step.onnx").run(["h_next"], {"x": inputs, "h": h})[0]
        if kind == "dense":
            state = State([golden.hidden[-1].T.copy()], [], {})
            Engine(model).step(state, encode_values(model, inputs)[0])
            assert np.array_equal(found, state.h.T)
        else:
            assert np.array_equal(found, h)


def test_values_beyond_32_bits_are_those_at_the_end_of_the_range(tmp_path: Path) -> None:
    drawn = random_model(
        np.random.default_rng(5), input_kind="dense", input_size=2, input_bits=4, block_size=8
    )
    zero = np.zeros(2, np.int32)
    coarse = replace(drawn, raw_offset=zero, raw_multiplier=zero + 1, raw_shift=zero + 29)  # codes of -4 to 4
    model = replace(coarse, raw_knee=None)
    step = session(export_onnx(tmp_path / "onnx", integer_model=model), "net_integer_step.onnx")

    def answers(value: float) -> list[Any]:
        h = np.zeros((1, model.hidden_size), np.int64)
        return [each.tolist() for each in step.run(None, {"x": np.full((1, 2), value), "h": h})]

    assert answers(2.0**32) == answers(2.0**31) != answers(2.0**30)
    assert answers(-(2.0**32)) == answers(-(2.0**31)) != answers(-(2.0**30))


@pytest.mark.parametrize("bits", [8, 33, 63])
def test_numbers_of_any_size_saturate(bits: int) -> None:
    numbers = np.random.default_rng(bits).integers(-(2**bits), 2**bits, 1001)
    build = Builder()
    build.op("Identity", within(build, "x", -(1 << 15), 100), output="y")
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.INT64, ["n"]) for name in "xy")
    graph = onnx.helper.make_graph(build.nodes, "within", [x], [y], list(build.constants.values()))
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)

    (found,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": numbers})

    assert np.array_equal(found, np.clip(numbers, -(1 << 15), 100))


CONFIGS = [
    Network(input_size=1, hidden_size=32, output_size=10),
    Network(input_size=3, hidden_size=24, output_size=1, num_blocks=2, weight_bits="ternary"),
    Network(input_size=5, hidden_size=16, output_size=4, input_kind="one_hot", every_output=True),
    Network(
        input_size=6,
        hidden_size=8,
        output_size=2,
        input_kind="embedded",
        vocabulary_size=11,
        recurrence="relu",
    ),
    Network(input_size=2, hidden_size=128, output_size=3, weight_bits=None),
]


def inputs_of(model: SequenceModel, batch: int, time: int) -> torch.Tensor:
    assert model.network is not None
    if model.network.takes_ids:
        return torch.randint(0, model.network.vocabulary_size or model.network.input_size, (batch, time))
    return torch.randn(batch, time, model.network.input_size)


def graph_input(x: torch.Tensor) -> Any:
    return (x.double() if x.is_floating_point() else x).numpy()


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize(("batch", "time"), [(1, 1), (4, 13)])
def test_float_onnx_is_torch_within_rounding(config: Network, batch: int, time: int, tmp_path: Path) -> None:
    model = SequenceModel(config).eval()
    x = inputs_of(model, batch, time)
    folder = export_onnx(tmp_path / "onnx", float_model=model)
    with torch.no_grad():
        expected = model(x).numpy()

    logits = session(folder, "net_sequence.onnx").run(["logits"], {"x": graph_input(x)})[0]
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-4)

    step = session(folder, "net_step.onnx")
    h = np.zeros((batch, config.hidden_size), np.float32)
    for t in range(time):
        logits, h = step.run(["logits", "h_next"], {"x": graph_input(x[:, t]), "h": h})
    np.testing.assert_allclose(
        logits, expected[:, -1] if config.every_output else expected, rtol=1e-4, atol=1e-4
    )


FAMILY = [
    replace(CONFIGS[0], hidden_size=32, num_blocks=4, leak=(1, 2, 0)),
    replace(CONFIGS[1], readouts=("max", "mean", "last", "positive"), thresholds=3),
    replace(CONFIGS[1], readouts=("mean",), normalize=True, layer_sizes=(24, 48, 24), stride=2, leak=(3,)),
    replace(CONFIGS[2], num_layers=2, normalize=True, skip=True),
    replace(CONFIGS[3], num_layers=3, skip=True, stride=3, readouts=("positive", "max")),
]


@pytest.mark.parametrize("config", FAMILY)
def test_float_onnx_of_the_family_is_torch_within_rounding(config: Network, tmp_path: Path) -> None:
    model = SequenceModel(config)
    with torch.no_grad():
        model(inputs_of(model, 16, 20))  # statistics of the normalisation
        x = inputs_of(model.eval(), 4, 19)
        if config.thresholds:
            model.set_thresholds(x)
        expected = model(x).numpy()
    folder = export_onnx(tmp_path / "onnx", float_model=model)

    logits = session(folder, "net_sequence.onnx").run(["logits"], {"x": graph_input(x)})[0]
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-4)
    stepped = stepwise(session(folder, "net_step.onnx"), graph_input(x))[-1]
    np.testing.assert_allclose(
        stepped, expected[:, -1] if config.every_output else expected, rtol=1e-4, atol=1e-4
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_integer_onnx_of_the_family_is_the_engine(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    for index in range(20):
        model = family_model(rng, extreme=index % 2 == 0)
        raw = family_codes(rng, model, 3, 7)
        codes, values = codes_of(model, raw), values_of(model, raw)
        folder = export_onnx(tmp_path / str(index), integer_model=model)
        engine, state, expected = Engine(model), Engine(model).init(3), []
        for t in range(7):
            engine.step(state, codes[:, t])
            expected.append(engine.read(state))

        stepped = stepwise(session(folder, "net_integer_step.onnx"), values)
        assert np.array_equal(stepped, expected)
        logits = session(folder, "net_integer_sequence.onnx").run(["logits"], {"x": values})[0]
        assert np.array_equal(logits, engine.run(codes).logits)


def test_past_the_longest_sequence_the_state_stands_still(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    model = replace(family_model(rng, readouts=("mean", "positive")), longest=3)
    raw = family_codes(rng, model, 2, 5)
    folder = export_onnx(tmp_path / "onnx", integer_model=model)

    logits = session(folder, "net_integer_sequence.onnx").run(["logits"], {"x": values_of(model, raw)})[0]

    assert np.array_equal(logits, Engine(model).run(codes_of(model, raw[:, :3])).logits)


def test_graphs_replace_no_folder_unless_forced(tmp_path: Path) -> None:
    model = random_model(np.random.default_rng(0), block_size=8)
    folder = export_onnx(tmp_path / "onnx", integer_model=model)

    with pytest.raises(InputError, match="Use --force"):
        export_onnx(folder, integer_model=model)


def test_a_network_that_reads_backwards_too_is_refused_in_one_line(tmp_path: Path) -> None:
    model = SequenceModel(Network(input_size=1, hidden_size=8, output_size=2, bidirectional=True))

    with pytest.raises(InputError, match="got bidirectional=True"):
        export_onnx(tmp_path / "onnx", float_model=model)


def test_column_signs_are_refused_in_one_line(tmp_path: Path) -> None:
    model = SequenceModel(Network(input_size=1, hidden_size=8, output_size=2, switches="rows+columns"))

    with pytest.raises(InputError, match=r'signs of rows only, got switches="rows\+columns"'):
        export_onnx(tmp_path / "onnx", float_model=model)


def test_a_baseline_is_refused_in_one_line_about_export(tmp_path: Path, command: Command) -> None:
    train(make_config(task="digits", model="lstm", hidden_size=8, steps=1), tmp_path / "run")

    answer = command("export", tmp_path / "run", "--to", "onnx", "--out", tmp_path / "onnx")

    assert answer.status == 2 and answer.err.count("\n") == 1
    assert "A Hadamard network is needed, got a lstm." in answer.err


def test_the_command_exports_what_the_run_holds(tmp_path: Path) -> None:
    run, out = tmp_path / "run", tmp_path / "o"
    train(make_config(task="digits", hidden_size=32, steps=1), run)
    command = [
        "export",
        str(run),
        "--to",
        "onnx",
        "--name",
        "digits",
        "--force",
        "--out",
        str(out),
    ]

    assert main(command) == 0
    assert {path.name for path in out.iterdir()} == {
        "README.md",
        "manifest.json",
        "digits_step.onnx",
        "digits_sequence.onnx",
    }
    assert main(["quantize", str(run)]) == 0
    assert main(command) == 0
    assert (out / "digits_integer_step.onnx").exists()


def test_the_readme_tells_floats_from_integers_whatever_the_name(tmp_path: Path) -> None:
    network = SequenceModel(Network(1, 4, 2))
    integer = random_model(np.random.default_rng(0))
    folder = export_onnx(tmp_path / "o", "an_integer_net", float_model=network, integer_model=integer)

    lines = [line for line in (folder / "README.md").read_text().splitlines() if line.startswith("- ")]
    assert {line.split("`")[1]: "int64" in line for line in lines} == {
        "an_integer_net_step.onnx": False,
        "an_integer_net_sequence.onnx": False,
        "an_integer_net_integer_step.onnx": True,
        "an_integer_net_integer_sequence.onnx": True,
    }


def test_a_stack_whose_last_layer_never_makes_a_step_has_a_graph(tmp_path: Path) -> None:
    """Its first step needs 2^70 inputs, more than an int64 can count."""
    network = Network(1, 4, 2, num_layers=8, stride=1024, activation_bits=6)
    model = draw_integers(network, np.random.default_rng(0))
    folder = export_onnx(tmp_path / "onnx", integer_model=model)
    codes = np.ones((1, 3, 1), np.int64)

    (logits,) = session(folder, "net_integer_sequence.onnx").run(["logits"], {"x": codes * model.raw_unit})

    assert np.array_equal(logits, Engine(model).run(codes).logits)

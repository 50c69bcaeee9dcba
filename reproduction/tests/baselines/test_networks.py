"""Every baseline in the training code: tokens, lengths, files and refused input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from hadamrnn import packages
from hadamrnn.architecture import Architecture
from hadamrnn.errors import InputError
from hadamrnn.nn.interface import RecurrentLayer, Tokens
from hadamrnn.nn.model import SequenceModel
from hadamrnn.nn.storage import load_model, save_model
from hadamrnn.training.config import make_config
from hadamrnn_paper.baselines.networks import KINDS

VARIANTS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    *((name, {}, {}) for name in KINDS),
    ("lstm", {"num_layers": 2, "bidirectional": True}, {}),
    ("rnn", {}, {"nonlinearity": "relu"}),
    ("ornn", {"recurrence": "relu"}, {"orthogonal_map": "matrix_exp"}),
    ("ornn", {}, {"orthogonal_map": "projection"}),
    ("qornn", {"weight_bits": 5, "recurrence": "relu"}, {}),
    ("fastgrnn", {}, {"input_rank": 2, "recurrent_density": 0.5, "piecewise": True}),
    ("quantized_lstm", {"weight_bits": 1}, {"activation_bits": 3}),
    ("naive_binary_rnn", {"recurrence": "relu"}, {}),
]
variants = pytest.mark.parametrize(("name", "settings", "options"), VARIANTS)


def config(name: str, settings: dict[str, Any], options: dict[str, Any], **others: Any) -> Architecture:
    return KINDS[name](input_size=3, hidden_size=8, output_size=2, **settings, **options, **others)


def layer(name: str, settings: dict[str, Any], options: dict[str, Any]) -> RecurrentLayer:
    recurrent = SequenceModel(config(name, settings, options)).double().eval().recurrent
    assert isinstance(recurrent, RecurrentLayer)
    return recurrent


@variants
def test_padding_changes_nothing(name: str, settings: dict[str, Any], options: dict[str, Any]) -> None:
    recurrent = layer(name, settings, options)
    x = torch.randn(4, 9, 3, dtype=torch.float64)
    lengths = torch.tensor([9, 4, 1, 0])
    states, ends = recurrent.every_state(x, lengths), recurrent.end_state(x, lengths)

    assert states.shape == (4, 9, recurrent.output_size)
    for row, length in enumerate(lengths.tolist()):
        assert bool((states[row, length:] == 0).all())
        if length:
            alone = x[row : row + 1, :length]
            torch.testing.assert_close(states[row : row + 1, :length], recurrent.every_state(alone))
            torch.testing.assert_close(ends[row : row + 1], recurrent.end_state(alone))
    assert bool((ends[-1] == 0).all())


@variants
def test_the_end_is_the_last_of_all_states(
    name: str, settings: dict[str, Any], options: dict[str, Any]
) -> None:
    recurrent = layer(name, settings, options)
    x = torch.randn(32, 9, 3, dtype=torch.float64)
    states, ends = recurrent.every_state(x), recurrent.end_state(x)

    width = ends.shape[-1] if not settings.get("bidirectional") else ends.shape[-1] // 2
    torch.testing.assert_close(ends[:, :width], states[:, -1, :width])


@variants
def test_tokens_are_one_hot_or_embedded_vectors(
    name: str, settings: dict[str, Any], options: dict[str, Any]
) -> None:
    recurrent = layer(name, settings, options)
    ids = torch.randint(3, (4, 9))
    one_hot = nn.functional.one_hot(ids, 3).double()
    torch.testing.assert_close(recurrent.every_state(Tokens(ids)), recurrent.every_state(one_hot))
    torch.testing.assert_close(recurrent.end_state(Tokens(ids)), recurrent.end_state(one_hot))

    embedding = nn.Embedding(11, 3).double()
    words = torch.randint(11, (4, 9))
    torch.testing.assert_close(
        recurrent.end_state(Tokens(words, embedding)), recurrent.end_state(embedding(words))
    )


@variants
def test_a_saved_baseline_answers_with_the_same_bits(
    name: str, settings: dict[str, Any], options: dict[str, Any], tmp_path: Path
) -> None:
    model = SequenceModel(
        config(name, settings, options, input_kind="embedded", vocabulary_size=11, padding_id=0)
    )
    words = torch.randint(11, (4, 9))
    model.train()(words)  # moves the running statistics away from their initial values
    model.eval()
    save_model(model, tmp_path / "model.safetensors")
    loaded = load_model(tmp_path / "model.safetensors").eval()

    assert loaded.network == model.network
    assert torch.equal(loaded(words), model(words))
    assert f'"kind\\": \\"{name}\\"'.encode() in (tmp_path / "model.safetensors").read_bytes()


@variants
def test_every_parameter_has_a_gradient(name: str, settings: dict[str, Any], options: dict[str, Any]) -> None:
    model = SequenceModel(config(name, settings, options, every_output=True)).train()
    model.loss(torch.randn(4, 9, 3), torch.randint(2, (4, 9))).backward()

    missing = [name for name, p in model.named_parameters() if p.requires_grad and p.grad is None]
    assert missing == []
    assert all(bool(torch.isfinite(p.grad).all()) for p in model.parameters() if p.grad is not None)


@pytest.mark.parametrize(
    ("name", "closed", "opened"),
    [
        ("lstm", {"forget_bias": 0.0}, {"forget_bias": 5.0}),
        ("lstm", {"forget_bias": 0.0}, {"forget_bias": 5.0, "input_gate_bias": -5.0}),
        ("fastgrnn", {}, {"memory_steps": 150}),
    ],
)
def test_an_open_gate_remembers_the_first_step_for_longer(
    name: str, closed: dict[str, Any], opened: dict[str, Any]
) -> None:
    def influence(options: dict[str, Any]) -> float:
        torch.manual_seed(0)
        recurrent = layer(name, {}, options)
        x = torch.randn(4, 60, 3, dtype=torch.float64, requires_grad=True)
        (gradient,) = torch.autograd.grad(recurrent.end_state(x).sum(), x)
        return float(gradient[:, 0].abs().max())

    assert influence(opened) > 1e3 * influence(closed)


def test_names_are_the_same_everywhere() -> None:
    assert set(KINDS) == set(packages.names(packages.NETWORKS))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "mamba"}, "model must be one of hadamrnn, lstm.*Did you mean"),
        ({"weight_bits": 4}, "no setting 'weight_bits' of lstm networks"),
        ({"num_blocks": 2}, "no setting 'num_blocks' of lstm networks"),
        ({"recurrence": "relu"}, "no setting 'recurrence' of lstm networks"),
        ({"forget": 3}, "no setting 'forget' of lstm networks. Did you mean 'forget_bias'"),
        ({"model": "rnn", "nonlinearity": "sin"}, "nonlinearity must be one of"),
        ({"model": "ornn", "orthogonal_map": "qr"}, "orthogonal_map must be one of"),
        ({"model": "fastgrnn", "memory_steps": 1}, "memory_steps must"),
        ({"model": "fastgrnn", "input_density": 0}, "input_density must"),
        ({"model": "fastgrnn", "weight_bits": 1}, "weight_bits must"),
        ({"model": "ornn", "recurrence": "tanh"}, "recurrence must be one of"),
        ({"model": "ornn", "hidden_size": 0}, "hidden_size must lie in 1"),
        ({"model": "binary_lstm", "norm_steps": 0}, "norm_steps must lie in 1"),
        ({"model": "quantized_lstm", "weight_bits": 0}, "weight_bits must lie in 1"),
        ({"model": "quantized_lstm", "activation_bits": 1}, "activation_bits must lie in 2"),
    ],
)
def test_what_a_kind_does_not_know_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_config(**{"task": "digits", "epochs": 1, "model": "lstm", **changes})


@variants
def test_what_stands_past_a_rows_end_reaches_no_gradient(
    name: str, settings: dict[str, Any], options: dict[str, Any]
) -> None:
    model = SequenceModel(config(name, settings, options)).train()
    x = torch.randn(2, 5, 3)
    x[0, 3:] = float("nan")
    model.loss(x, torch.tensor([0, 1]), torch.tensor([3, 5])).backward()

    assert all(bool(torch.isfinite(p.grad).all()) for p in model.parameters() if p.grad is not None)


@pytest.mark.parametrize("name", [name for name in KINDS if name not in ("lstm", "gru", "rnn")])
def test_no_steps_leave_the_state_at_its_start(name: str) -> None:
    model = SequenceModel(config(name, {}, {}, every_output=True)).train()
    empty = torch.zeros(2, 0, 3)
    model(empty).sum().backward()

    assert model(empty).shape == (2, 0, 2)
    recurrent = model.recurrent
    assert isinstance(recurrent, RecurrentLayer)
    assert torch.equal(recurrent.end_state(empty), torch.zeros(2, 8))


@pytest.mark.parametrize("name", KINDS)
def test_numbers_of_another_type_are_refused(name: str) -> None:
    model = SequenceModel(config(name, {}, {}))
    for dtype in (torch.float64, torch.int64):
        with pytest.raises(InputError, match=r"must be torch\.float32 like the layer's weights"):
            model(torch.zeros(2, 5, 3, dtype=dtype))


def test_wrong_lengths_and_empty_sequences_are_refused() -> None:
    recurrent = layer("lstm", {}, {})
    with pytest.raises(InputError, match=r"lengths must lie in 0\.\.5"):
        recurrent.end_state(torch.zeros(2, 5, 3).double(), torch.tensor([6, 1]))
    with pytest.raises(InputError, match="at least one time step"):
        recurrent.end_state(torch.zeros(2, 0, 3).double())

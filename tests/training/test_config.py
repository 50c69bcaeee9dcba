from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hadamrnn.data.tasks import LIBRARY, find_task
from hadamrnn.errors import InputError
from hadamrnn.network import hadamard
from hadamrnn.training.config import (
    OPTIONS,
    PRESETS,
    SETTINGS,
    config_yaml,
    make_config,
    read_config,
    resolve_config,
)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("task", LIBRARY)
def test_every_preset_has_a_recipe_for_every_task(preset: str, task: str) -> None:
    config = resolve_config(task, preset=preset)

    assert (config.task, config.preset) == (task, preset)


def test_the_command_line_wins_over_the_file_and_the_file_over_the_preset(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("hidden_size: 32\nlearning_rate: 1e-2\ntask_options: {delay: 7, train_size: 10}\n")

    overrides = {"hidden_size": 64, "task_options": {"delay": 9}}
    config = resolve_config("copy", preset="best", file=file, overrides=overrides)

    assert config.network.hidden_size == 64
    assert config.learning_rate == 0.01  # YAML 1.1 reads 1e-2 as text
    assert config.steps == find_task("copy").recipes["best"]["steps"]
    assert config.task_options == {"delay": 9, "train_size": 10}


def test_epochs_replace_the_steps_of_a_preset_and_steps_its_epochs() -> None:
    in_epochs = resolve_config("copy", preset="best", overrides={"epochs": 2})
    in_steps = resolve_config("digits", preset="best", overrides={"steps": 5})

    assert (in_epochs.epochs, in_epochs.steps) == (2, None)
    assert (in_steps.epochs, in_steps.steps) == (None, 5)


def test_a_written_configuration_reads_back_and_repeats_the_run(tmp_path: Path) -> None:
    config = resolve_config("digits", preset="paper", overrides={"weight_bits": "ternary", "steps": 3})
    file = tmp_path / "config.yaml"
    file.write_bytes(config_yaml(config))

    assert read_config(file) == config
    assert resolve_config(file=file) == config


@pytest.mark.parametrize(
    ("name", "nearest"), [("hiden_size", "hidden_size"), ("lr", "learning_rate"), ("epoch", "epochs")]
)
def test_an_unknown_name_is_refused_with_the_nearest_valid_one(name: str, nearest: str) -> None:
    with pytest.raises(InputError, match=f"{name}.*Did you mean '[a-z_]+'") as refusal:
        resolve_config("digits", overrides={name: 1})

    if name != "lr":  # two letters have many neighbours; any valid name is accepted
        assert nearest in str(refusal.value)
    assert str(refusal.value).split("'")[-2] in (*SETTINGS, *OPTIONS)


@pytest.mark.parametrize(
    ("values", "rule"),
    [
        ({"epochs": None, "steps": None}, "Exactly one of epochs and steps"),
        ({"steps": 3}, "Exactly one of epochs and steps"),
        ({"epochs": 0}, r"lie in 1\.\.1000000, got 0"),
        ({"epochs": 1.5}, "int or none"),
        ({"batch_size": True}, "must be int"),
        ({"learning_rate": "fast"}, "must be float"),
        ({"learning_rate": -1.0}, r"lie in \(0, "),
        ({"learning_rate": float("nan")}, r"lie in \(0, .*, got nan"),
        ({"decay": "linear"}, "one of none, exponential, cosine"),
        ({"weight_average": 1.0}, r"\(0, 1\)"),
        ({"negative_signs": 1.5}, r"in 0\.\.1"),
        ({"embedding_scale": 0.0}, r"\(0, "),
        ({"input_dropout": 1.0}, r"\[0, 1\)"),
        ({"weight_clip": 1.0}, r"\(1, "),
        ({"seed": -1}, r"0\.\.4294967295"),
        ({"hidden_size": 10**9}, r"1\.\.32768, got 1000000000"),
        ({"num_layers": 10**9}, r"1\.\.64"),
        ({"threads": 10**9}, r"1\.\.1024"),
        ({"epochs": 10**5000}, "too many digits"),
        ({"task_options": 3}, "must be names and values"),
    ],
)
def test_a_value_out_of_range_is_refused_with_the_rule(values: dict[str, object], rule: str) -> None:
    with pytest.raises(InputError, match=rule):
        make_config(**{"task": "digits", "epochs": 1, **values})


ANYTHING = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.just({}), st.just(10**400)
)


def test_few_bits_are_clipped_unless_it_is_the_papers_recipe_or_said_otherwise(tmp_path: Path) -> None:
    def clip(preset: str, **values: object) -> float | None:
        return resolve_config("digits", preset=preset, overrides=values).weight_clip

    assert clip("best", weight_bits=2) == clip("quick", weight_bits="ternary") == 1.5
    assert clip("paper", weight_bits=2) is clip("best", weight_bits=4) is None
    assert clip("best", weight_bits=2, weight_clip=None) is None
    file = tmp_path / "mine.yaml"
    file.write_text("task: digits\nweight_bits: [2]\n")
    with pytest.raises(InputError, match="weight_bits"):
        resolve_config(file=file)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("hiden_size: 64\n", "Did you mean 'hidden_size'"),
        ("network: {hidden_size: 64}\n", "There is no setting 'network'"),
        ("epochs: 3\nepochs: 4\n", "epochs is given twice"),
        ("task_options: {1: 2}\n", "task_options: a name must be str, got 1"),
        (f"task_options: {'x' * 100}\n", r"task_options must be names and values, got 'x+\.\.\.\.$"),
    ],
)
def test_no_line_of_a_file_is_ignored(text: str, complaint: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(text)

    with pytest.raises(InputError, match=complaint):
        resolve_config("copy", file=file)


@pytest.mark.parametrize("other", [{"hidden_size": 64}, {"num_layers": 3}])
def test_widths_and_one_width_that_differs_are_refused(other: dict[str, int]) -> None:
    with pytest.raises(InputError, match=f"layer_sizes .8, 16. gives all widths, got {next(iter(other))}"):
        resolve_config("digits", overrides={"layer_sizes": (8, 16), **other})
    agreed = resolve_config("digits", overrides={"layer_sizes": (8, 16), "hidden_size": 16, "num_layers": 2})
    assert hadamard(agreed.network).widths == (8, 16)


def test_one_width_wins_over_the_widths_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("layer_sizes: [8, 16]\n")

    assert hadamard(resolve_config("copy", file=file).network).widths == (8, 16)
    changed = resolve_config("copy", file=file, overrides={"hidden_size": 64})
    assert hadamard(changed.network).layer_sizes == ()


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"epochs": 1}, "task must be str, got None"),
        ({"task": "copy", "epochs": 1, "task_options": 3}, "task_options must be names and values, got 3"),
        ({"task": "copy", "epochs": 1, "task_options": {1: 2}}, "a name must be str, got 1"),
    ],
)
def test_what_is_no_configuration_is_refused(values: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        make_config(**values)


@given(st.dictionaries(st.sampled_from((*SETTINGS, *OPTIONS)), ANYTHING, max_size=3))
def test_whatever_the_values_there_is_a_configuration_or_a_clear_refusal(values: dict[str, object]) -> None:
    try:
        config = make_config(**{"task": "digits", "epochs": 1, **values})
    except InputError as refusal:
        assert "\n" not in str(refusal)
    else:
        assert config.learning_rate > 0 and config.batch_size >= 1


@pytest.mark.parametrize("text", ["- a\n- b\n", "epochs: [", "\x00"])
def test_a_file_that_is_no_configuration_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(text)

    with pytest.raises(InputError, match=r"mine\.yaml"):
        resolve_config("digits", file=file)


def test_a_file_for_another_task_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("task: copy\n")

    with pytest.raises(InputError, match="for the task copy, got digits"):
        resolve_config("digits", file=file)


def test_a_seed_has_32_bits() -> None:
    assert resolve_config("digits", overrides={"seed": 2**32 - 1}).seed == 2**32 - 1
    with pytest.raises(InputError, match=r"seed must lie in 0\.\.4294967295, got 4294967296"):
        resolve_config("digits", overrides={"seed": 2**32})

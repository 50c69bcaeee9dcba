"""The recipes of the paper's tasks, and the changes that its competitors make to a recipe."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hadamrnn.data.tasks import task_names
from hadamrnn.training.config import PRESETS, resolve_config
from hadamrnn_paper.baselines.networks import KINDS
from tests.data.test_tasks import published

GOLDEN = Path(__file__).parents[2] / "tests/golden/recipes.json"


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("task", ["smnist", "pmnist", "imdb", "sst2", "qqp", "dsa19", "google12", "keywords"])
def test_every_preset_has_a_recipe_for_every_task_of_the_paper(preset: str, task: str) -> None:
    config = resolve_config(task, preset=preset)

    assert (config.task, config.preset) == (task, preset)


@pytest.mark.parametrize("task", ["google12", "keywords"])
def test_recipes_are_those_that_gave_the_published_figures(task: str) -> None:
    assert json.loads(json.dumps(published(task))) == json.loads(GOLDEN.read_text())[task]


@pytest.mark.parametrize(
    ("task", "hidden_size", "epochs", "batch_size", "learning_rate", "decay_factor"),
    [
        ("copy", 128, 10, 128, 1e-4, 0.98),
        ("pmnist", 512, 200, 64, 1e-3, 0.98),
        ("smnist", 512, 200, 64, 1e-3, 0.98),
        ("imdb", 512, 30, 100, 5e-4, 0.99),
        ("sst2", 128, 60, 20, 5e-4, 0.99),
        ("qqp", 512, 50, 20, 5e-4, 0.99),
    ],
)
def test_preset_paper_is_the_papers_appendix(
    task: str, hidden_size: int, epochs: int, batch_size: int, learning_rate: float, decay_factor: float
) -> None:
    config = resolve_config(task, preset="paper")

    assert (config.network.hidden_size, config.epochs, config.batch_size) == (hidden_size, epochs, batch_size)
    assert (config.learning_rate, config.decay, config.decay_factor) == (
        learning_rate,
        "exponential",
        decay_factor,
    )
    assert config.sign_freeze_epoch is None and config.sign_learning_rate is None


@pytest.mark.parametrize("preset", PRESETS)
def test_a_baseline_takes_nothing_from_a_recipe_that_only_hadamrnn_knows(preset: str) -> None:
    for task in task_names():
        for model in KINDS:
            config = resolve_config(task, preset=preset, overrides={"model": model})
            assert isinstance(config.network, KINDS[model])
            assert (config.negative_signs, config.sign_freeze_epoch, config.weight_clip) == (None, None, None)


def test_few_bits_are_clipped_in_hadamrnn_alone() -> None:
    baseline = resolve_config("pmnist", preset="best", overrides={"weight_bits": 2, "model": "qornn"})

    assert baseline.weight_clip is None
    assert resolve_config("sst2", preset="best").weight_clip == 1.5  # the recipe itself has two bits

from __future__ import annotations

import dataclasses

import pytest
import torch

from hadamrnn.data.splits import Splits
from hadamrnn.data.tasks import load_task
from hadamrnn.errors import InputError
from hadamrnn.training.config import make_config
from hadamrnn.training.models import build


def test_a_task_without_an_embedding_takes_no_embedding_size(digits: Splits) -> None:
    with pytest.raises(InputError, match="no embedding"):
        build(make_config(task="digits", epochs=1, embedding_size=4), digits)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"embedding_scale": 0.1}, "embedding_scale has no effect here: the task digits has no embedding"),
        ({"negative_signs": 0.5, "model": "gru"}, "a gru has no signs"),
        ({"input_bias": False, "model": "gru"}, "no setting 'input_bias' of gru networks"),
    ],
)
def test_a_start_that_the_network_does_not_have_is_refused(
    values: dict[str, object], message: str, digits: Splits
) -> None:
    with pytest.raises(InputError, match=message):
        build(make_config(**{"task": "digits", "epochs": 1, **values}), digits)


def test_an_embedding_begins_at_its_scale() -> None:
    splits = load_task("copy", delay=1, sentence_length=1, train_size=3, validation_size=2, test_size=1)
    embedded = dataclasses.replace(splits, one_hot=False, vocabulary_size=1000)
    weights = []
    for scale in (1.0, 0.05):
        model = build(make_config(task="copy", epochs=1, embedding_scale=scale), embedded)
        assert model.embedding is not None
        weights.append(model.embedding.weight)

    torch.testing.assert_close(weights[1], 0.05 * weights[0])


def test_an_unknown_model_is_refused_with_the_known_ones(digits: Splits) -> None:
    with pytest.raises(InputError, match=r"one of hadamrnn.*got 'transformer'"):
        build(make_config(task="digits", epochs=1, model="transformer"), digits)

"""At 12 bits (more for small blocks) the integer network keeps the float one's accuracy, on real data."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hadamrnn.data.tasks import load_task
from hadamrnn.quantization import QuantizeConfig
from hadamrnn.quantization.chain import IntegerNetwork, quantize
from hadamrnn.run import Run, train
from hadamrnn.training.config import make_config
from hadamrnn.training.evaluate import evaluate
from hadamrnn_paper.results import read_results

RESULTS = Path(__file__).parents[1] / "results"


@pytest.mark.slow
@pytest.mark.skipif("HADAMRNN_DATA" not in os.environ, reason="HADAMRNN_DATA names the folder of real data")
@pytest.mark.parametrize(("num_blocks", "bits"), [(2, 12), (64, 14)], ids=["blocks of 128", "blocks of 4"])
def test_integers_lose_at_most_three_tenths_of_a_point_on_har2(
    tmp_path: Path, num_blocks: int, bits: int
) -> None:
    """Use all 10,299 windows, because chance alone moves a few of the test set's 2,947 decisions."""
    config = make_config(
        task="har2",
        hidden_size=256,
        num_blocks=num_blocks,
        epochs=10,
        batch_size=64,
        decay="cosine",
        sign_freeze_epoch=0.0,
    )
    train(config, tmp_path / "run")
    model = Run.open(tmp_path / "run").model
    splits = load_task("har2")
    parts = (splits.train, splits.validation, splits.test)

    integer = quantize(model, splits, QuantizeConfig(activation_bits=bits))

    network = IntegerNetwork(integer)
    right = {
        name: sum(evaluate(candidate, part, "accuracy") * len(part) for part in parts)
        for name, candidate in (("float", model), ("integer", network))
    }
    samples = sum(len(part) for part in parts)
    assert right["float"] > 0.8 * samples  # it has learnt enough for rounding to matter
    assert right["integer"] >= right["float"] - 0.003 * samples


# At 12 bits, blocks of 4 and 16 units fail this because their rounding errors add up, and blocks of 64 lose
# up to half a point; docs/how.md has the remedy.
SMALLEST_BLOCK = 64

# A ReLU recurrence over 784 single pixels fails too; even in floats it recognises few digits.
LOSES_MORE = {"smnist-512-4bit-relu": 0.015}


def test_measured_networks_lose_at_most_three_tenths_of_a_point() -> None:
    """Check every network that `hadamrnn reproduce` measured on a test set, except small blocks.

    The paper's own recipe may lose a tenth more: it learns b_i for padded text too, see docs/how.md.
    """
    checked = set()
    for result in read_results(RESULTS):
        if result.metric != "accuracy" or result.integer is None:
            continue
        block = result.config["hidden_size"] // result.config["num_blocks"]
        if block < SMALLEST_BLOCK:
            continue
        assert result.test is not None and result.integer.test is not None
        loss = 0.005 if block == SMALLEST_BLOCK else 0.004 if result.preset == "paper" else 0.003
        loss = LOSES_MORE.get(result.experiment, loss)
        assert result.integer.test >= result.test - loss, result.name
        checked.add(result.config["task"])
    assert checked >= {"pmnist", "smnist", "har2", "imdb"}


def test_the_measured_copy_task_keeps_its_cross_entropy() -> None:
    """At 12 bits, blocks of 64 units and fewer lose more: docs/how.md.

    Over five seeds the integers have up to five times the cross-entropy of the float network if that is
    small: rounding states to 12 bits adds a constant error.
    """
    checked = set()
    for result in read_results(RESULTS):
        if result.metric != "cross_entropy" or result.config["num_blocks"] > 1:
            continue
        assert result.test is not None and result.integer is not None and result.integer.test is not None
        assert result.integer.test <= max(6 * result.test, 3e-7), result.name
        checked.add(result.experiment)
    assert checked >= {"copy-128-2bit", "copy-128-3bit", "copy-128-4bit", "copy-128-6bit"}

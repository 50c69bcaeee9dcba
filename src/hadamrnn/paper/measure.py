"""The figures of a trained run. The test set is read here, once, after everything has been chosen."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

from hadamrnn import fixedpoint
from hadamrnn.data.splits import Splits
from hadamrnn.fixedpoint.cost import network_size
from hadamrnn.nn.model import SequenceModel
from hadamrnn.nn.rnn import HadamRNN
from hadamrnn.paper.main_tables import TASKS
from hadamrnn.paper.results import IntegerFigures, Result, cpu_model, curve_columns
from hadamrnn.paper.rows import Setup, Task
from hadamrnn.quantization.chain import quantize
from hadamrnn.quantization.config import QuantizeConfig
from hadamrnn.quantization.lowering import can_lower
from hadamrnn.quantization.network import IntegerNetwork
from hadamrnn.training.config import TrainingConfig, config_values
from hadamrnn.training.evaluate import evaluate
from hadamrnn.training.folder import RunFolder
from hadamrnn.training.run import load_run


def measure_run(setup: Setup, path: Path, splits: Splits, ended: str = "finished") -> Result:
    """Return the figures of the run at `path`, and write its integer network into the folder."""
    folder, model = load_run(path)
    config = folder.config
    rows = [asdict(row) for row in folder.rows()]
    # A run that diverged has no `Outcome` to ask.
    choose = max if splits.metric == "accuracy" else min
    best = rows[-1] if config.keep == "last" else choose(rows, key=lambda row: row["validation_metric"])
    return Result(
        experiment=setup.key,
        preset=str(config.preset),
        seed=config.seed,
        config=config_values(config),
        metric=splits.metric,
        test=evaluate(model, splits.test, splits.metric) if splits.test.labelled else None,
        validation=best["validation_metric"],
        integer=integer_figures(setup, model, splits, folder),
        kilobytes=float_kilobytes(setup, splits, config),
        steps=rows[-1]["step"],
        epochs=round(rows[-1]["epoch"], 4),
        best_step=best["step"],
        seconds=round(rows[-1]["seconds"], 1),
        ended=ended,
        threads=folder.record.threads,
        cpu=cpu_model(),
        versions=folder.record.versions,
        note=splits.note,
        curve=curve_columns(rows),
    )


def integer_figures(
    setup: Setup, model: SequenceModel, splits: Splits, folder: RunFolder
) -> IntegerFigures | None:
    """Quantize to the setup's activations, save, and return the figures; None without an integer form."""
    if not has_integer_form(model):
        return None
    integer, _ = quantize(model, splits, QuantizeConfig(activation_bits=setup.integer_bits))
    metadata = {"task": splits.task, "metric": splits.metric, "experiment": setup.key}
    integer = replace(integer, metadata={**integer.metadata, **metadata})
    fixedpoint.save(integer, folder.path / fixedpoint.FILE_NAME)
    network = IntegerNetwork(integer, folder.record.threads)
    return IntegerFigures(
        activation_bits=setup.integer_bits,
        test=evaluate(network, splits.test, splits.metric) if splits.test.labelled else None,
        kilobytes=round(network_size(integer.network).kilobytes, 4),
        hidden_shift=integer.layers[0].hidden_shift,
        saturations=network.saturations,
    )


def has_integer_form(model: SequenceModel) -> bool:
    """Whether `quantize` takes this network: HadamRNN layers that read forwards, of at most 8 bits."""
    recurrent = model.recurrent
    return isinstance(recurrent, HadamRNN) and not recurrent.bidirectional and can_lower(model)


def float_kilobytes(setup: Setup, splits: Splits, config: TrainingConfig) -> float:
    """Return the size with float activations, by the rule of the paper's tables."""
    task = TASKS.get(setup.task) or Task(
        splits.task, splits.task, splits.seq_length, splits.input_size, splits.output_size
    )
    return round(setup.kilobytes(task, config=config_values(config)), 4)

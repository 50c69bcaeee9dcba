"""Use a run directory: its configuration, data, model and integer model. Start at `Run.open`.

    run = train(resolve_config("digits"), "runs/digits")
    run.evaluate().value, run.quantize().integer_value, run.export("digits_c")

A run refuses data, models, checkpoints and configurations that are not its own. An integer model identifies
its float model by the SHA-256 of `model.safetensors`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import torch

from hadamrnn.architecture import Architecture
from hadamrnn.data.files import offline
from hadamrnn.data.splits import Preparation, Split, Splits
from hadamrnn.data.tasks import load_task
from hadamrnn.deployment import Export, ExportFormat, write, write_onnx
from hadamrnn.errors import InputError
from hadamrnn.files import INTEGER_FILE, locked
from hadamrnn.fixedpoint import IntegerModel
from hadamrnn.nn.model import SequenceModel
from hadamrnn.nn.storage import check_run, load_model
from hadamrnn.quantization import QuantizeConfig
from hadamrnn.quantization.chain import IntegerNetwork, quantize
from hadamrnn.quantization.results import (
    Evaluation,
    Predictions,
    Quantization,
    load_integer,
    saturation,
    save_integer,
)
from hadamrnn.training.config import TrainingConfig
from hadamrnn.training.evaluate import (
    Predictor,
    accuracy_of,
    confusion,
    evaluate,
    predict_logits,
    value_errors,
)
from hadamrnn.training.folder import RunFolder, check_free
from hadamrnn.training.inference import Arrays, read_split, readable
from hadamrnn.training.loop import CHECKPOINT_SECONDS, Outcome, Watcher, decide_levels, run_trainer
from hadamrnn.training.models import build
from hadamrnn.training.processes import Processes, join_processes
from hadamrnn.training.trainer import Trainer

Part = Literal["train", "validation", "test"]


@dataclass(frozen=True)
class RunOptions:
    """Options of a run that do not change its result.

    Args:
        data_dir: folder of the public data sets.
        watcher: receives the progress, to show it.
        checkpoint_seconds: time between checkpoints.
        stop: called after every step; if it returns True, the run ends with a checkpoint.
        splits: the task's data, if already loaded.
    """

    data_dir: str | Path | None = None
    watcher: Watcher | None = None
    checkpoint_seconds: float = CHECKPOINT_SECONDS
    stop: Callable[[], bool] = lambda: False
    splits: Splits | None = None


class Run(RunFolder):
    """A run on disk, from `train`, `resume` or `Run.open`."""

    outcome: Outcome | None = None  # result of the training that returned this run; None for an opened run

    @property
    def finished(self) -> bool:
        """Whether training is complete; an opened run must be resumed to know."""
        return self.outcome is not None and self.outcome.finished

    @property
    def network(self) -> Architecture:
        return self.config.network

    @cached_property
    def model(self) -> SequenceModel:
        """The model with the best validation figure so far."""
        if self.outcome is not None:
            return self.outcome.model
        return load_model(self._own_model_file()).eval()

    @property
    def integer(self) -> IntegerModel:
        """The integer model that `quantize` wrote."""
        self._own_model_file()  # refuse a model of another run
        return load_integer(self.path)

    def _own_model_file(self) -> Path:
        """Return the path of the float model, after checking that it belongs to this run."""
        if not self.model_path.is_file():
            raise InputError(
                f"{self.path} holds no model yet. Continue with: hadamrnn train --resume {self.path}."
            )
        check_run(self.model_path, self.record.identity)
        return self.model_path

    @cached_property
    def splits(self) -> Splits:
        """The run's data, prepared as in training; data that have changed are refused."""
        config, preparation = self.config, self.facts
        return load_task(config.task, self.data_dir, preparation, **config.task_options)

    def predictor(self, integer: bool = False, threads: int | None = None) -> SequenceModel | IntegerNetwork:
        """Return the float model, or the integer model with its saturation counters reset to zero."""
        if not integer:
            return self.model
        return IntegerNetwork(self.integer, threads)

    def read(
        self, file: str | Path, layout: str | None = None, labelled: bool = True
    ) -> tuple[Split, Arrays]:
        """Return a user's arrays or recordings, scaled as in training, and the original arrays."""
        return read_split(Path(file), self, self.model, layout, labelled)

    def samples(
        self, split: Part = "test", file: str | Path | None = None, layout: str | None = None
    ) -> Split:
        """Return a part of the run's own data, or the user's data in `file`."""
        own: Split = getattr(self.splits, split) if file is None else self.read(file, layout)[0]
        return own

    def evaluate(
        self,
        split: Part = "test",
        *,
        file: str | Path | None = None,
        layout: str | None = None,
        integer: bool = False,
        threads: int | None = None,
    ) -> Evaluation:
        """Return the metric over a part of the run's own data, or over the data in `file`."""
        samples = self.samples(split, file, layout)
        own = self.splits.note if file is None else samples.note
        by_group = "" if samples.groups is None else "the right group of classes counts"
        facts: dict[str, Any] = {
            "samples": len(samples),
            "metric": self.facts.metric,
            "class_names": self.facts.class_names,
        }
        facts["note"] = "; ".join(filter(None, [own, by_group]))
        network = self.predictor(integer, threads)
        if not samples.labelled:
            return Evaluation(**facts, value=None)
        counts, errors = None, {}
        if self.facts.metric == "mse":
            errors = value_errors(network, samples, self.facts.targets)
            value = errors["model"].mse
        elif self.facts.metric == "accuracy":
            table = confusion(network, samples, len(self.facts.class_names))
            counts, value = table.tolist(), accuracy_of(table, samples)
        else:
            value = evaluate(network, samples, self.facts.metric)
        results: dict[str, Any] = {"value": value, "confusion": counts, "errors": errors}
        return Evaluation(**facts, **results, saturation=saturation(network))

    def _measure(self, network: Predictor, samples: Split) -> float:
        """Return the metric of a network, in the units of the data."""
        if self.facts.metric == "mse":
            return value_errors(network, samples, self.facts.targets)["model"].mse
        return evaluate(network, samples, self.facts.metric)

    def predict(
        self,
        file: str | Path,
        *,
        layout: str | None = None,
        integer: bool = False,
        threads: int | None = None,
    ) -> Predictions:
        """Return the predictions for a user's arrays or recordings."""
        network = self.predictor(integer, threads)
        split, arrays = self.read(file, layout, labelled=False)
        logits = predict_logits(network, split)
        places: dict[str, list[Any]] = {
            name: arrays[name].tolist() for name in ("file", "row") if name in arrays
        }
        return Predictions(readable(logits, self.facts), logits, places, saturation(network), split.note)

    def quantize(
        self, config: QuantizeConfig | None = None, *, split: Part = "test", threads: int | None = None
    ) -> Quantization:
        """Write the integer model into the run; return it with both models' metric over `split`."""
        with locked(self.path):
            integer = quantize(self.model, self.splits, config or QuantizeConfig())
            samples, metric = self.samples(split), self.facts.metric
            network = IntegerNetwork(integer, threads)
            scores = [self._measure(each, samples) for each in (self.model, network) if samples.labelled]
            exact, rounded = scores or (None, None)
            clipped = saturation(network) if scores else None
            figures: dict[str, Any] = {"task": self.facts.task, "metric": metric, "split": split}
            if clipped is not None:
                figures |= {"float": exact, "integer": rounded, **clipped.figures()}
            return Quantization(
                metric=metric,
                split=split,
                float_value=exact,
                integer_value=rounded,
                saturation=clipped,
                model=integer,
                file=self.path / INTEGER_FILE,
                size=save_integer(integer, self.path, figures),
            )

    def export(self, out: str | Path, to: ExportFormat = "c", name: str = "net", **options: Any) -> Export:
        """Export the run to a self-contained directory; `options` are those of `hadamrnn.deployment.write`.

        A run without an integer model is quantized first, except for ONNX, which exports the models that
        exist.
        """
        quantized = (self.path / INTEGER_FILE).exists()
        if to == "onnx":
            integer = self.integer if quantized else None
            return write_onnx(
                integer, self.model, self.facts, Path(out), name, force=bool(options.get("force"))
            )
        if not quantized:
            self.quantize()
        return write(self.integer, out, to, name, splits=self.local_splits, **options)

    def local_splits(self) -> Splits:
        """Return `splits` if its files are present; download nothing."""
        with offline():
            return self.splits


def train(config: TrainingConfig, out: str | Path, options: RunOptions | None = None) -> Run:
    """Train a new model in the run directory `out`; invalid input leaves no directory behind."""
    options = options or RunOptions()
    processes = join_processes(config.dtype)
    first = processes.rank == 0
    if first:
        check_free(out)
    trainer = _prepare(config, options, processes)
    splits = trainer.splits
    decided = {**config.task_options, **splits.options}
    config = replace(trainer.config, network=trainer.model.network, task_options=decided)
    with locked(Path(out)) if first else nullcontext():
        run = Run.create(out, config, splits, options.data_dir, write=first)
        return _carry_out(run, trainer, options)


def resume(path: str | Path, options: RunOptions | None = None) -> Run:
    """Resume the run at `path`; the result is bit for bit that of an uninterrupted run."""
    options = options or RunOptions()
    run = Run.open(path, options.data_dir)
    changes = run.version_changes()
    if changes and options.watcher is not None:
        options.watcher.remark(f"note: {', '.join(changes)}: results may differ in their last bits")
    processes = join_processes(run.config.dtype)
    with locked(run.path) if processes.rank == 0 else nullcontext():
        options = replace(options, data_dir=run.data_dir)
        return _carry_out(run, _prepare(run.config, options, processes, run.facts), options)


def _carry_out(run: Run, trainer: Trainer, options: RunOptions) -> Run:
    how: dict[str, Any] = {"watcher": options.watcher, "stop": options.stop}
    run.outcome = run_trainer(trainer, run, checkpoint_seconds=options.checkpoint_seconds, **how)
    run.splits = trainer.splits
    return run


def _prepare(
    config: TrainingConfig,
    options: RunOptions,
    processes: Processes,
    preparation: Preparation | None = None,
) -> Trainer:
    """Return a trainer with a newly built model and the task's data, prepared as before if requested."""
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    splits = options.splits
    if splits is None:
        splits = load_task(config.task, options.data_dir, preparation, **config.task_options)
    elif preparation is not None:
        preparation.check(splits.fingerprint, f"the task {config.task}")
    watcher = options.watcher if processes.rank == 0 else None
    if watcher is not None and preparation is None:
        for line in splits.assumptions:
            watcher.remark(line)
    config = decide_levels(config, splits, watcher, options.stop)
    return Trainer(build(config, splits), splits, config, processes)

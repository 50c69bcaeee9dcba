"""A run directory: configuration, data, model and integer model that belong together. Start at `Run.open`.

    run = train(resolve_config("digits"), "runs/digits")
    run.evaluate().value, run.quantize().integer_value, run.export("digits_c")

A run refuses data, a model, a checkpoint or a configuration that are not its own. An integer model names the
model that it was made from by the SHA-256 of `model.safetensors`. torch is imported only where it is needed:
reading an integer model needs none.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hadamrnn.errors import InputError
from hadamrnn.files import INTEGER_FILE, MODEL_FILE
from hadamrnn.locks import held
from hadamrnn.quantization.config import QuantizeConfig
from hadamrnn.quantization.results import (
    Evaluation,
    Predictions,
    Quantization,
    load_integer,
    saturation,
    save_integer,
)

if TYPE_CHECKING:
    from hadamrnn.architecture import Architecture
    from hadamrnn.data.splits import Preparation, Split, Splits
    from hadamrnn.deployment import Export, Target
    from hadamrnn.fixedpoint import IntegerModel
    from hadamrnn.nn.model import SequenceModel
    from hadamrnn.quantization.network import IntegerNetwork
    from hadamrnn.training.config import TrainingConfig
    from hadamrnn.training.folder import RunFolder, TaskFacts
    from hadamrnn.training.inference import Arrays
    from hadamrnn.training.loop import Outcome
    from hadamrnn.training.processes import Processes
    from hadamrnn.training.progress import Watcher
    from hadamrnn.training.trainer import Trainer


Part = Literal["train", "validation", "test"]


@dataclass(frozen=True)
class RunOptions:
    """How a run is carried out. Nothing here changes its result.

    Args:
        data_dir: folder of the public data sets.
        watcher: shows the progress.
        checkpoint_seconds: between checkpoints.
        stop: asked after every step; True ends the run with a checkpoint.
        splits: the task's data, if the caller has loaded it already.
    """

    data_dir: str | Path | None = None
    watcher: Watcher | None = None
    checkpoint_seconds: float = 30.0
    stop: Callable[[], bool] = lambda: False
    splits: Splits | None = None


class Run:
    """A run on disk, from `train`, `resume` or `Run.open`."""

    def __init__(
        self, folder: RunFolder, data_dir: str | Path | None = None, outcome: Outcome | None = None
    ) -> None:
        self.folder = folder
        self.path: Path = folder.path
        self.config: TrainingConfig = folder.config
        self.facts: TaskFacts = folder.facts
        self.data_dir = data_dir or folder.record.data_dir
        self.outcome = outcome  # of the training that returned this run; None for an opened one

    @classmethod
    def open(cls, path: str | Path, data_dir: str | Path | None = None) -> Run:
        """Return the run at `path`; `data_dir` is where its public data set is now, if it has moved."""
        from hadamrnn.training.folder import RunFolder

        return cls(RunFolder.open(path), data_dir)

    @property
    def finished(self) -> bool:
        """Whether training has ended by itself; an opened run must be resumed to know."""
        return self.outcome is not None and self.outcome.finished

    @property
    def network(self) -> Architecture:
        return self.config.network

    @cached_property
    def model(self) -> SequenceModel:
        """The best model by validation so far."""
        if self.outcome is not None:
            return self.outcome.model
        from hadamrnn.nn.build import load_model

        return load_model(self._own_model_file()).eval()

    @property
    def integer(self) -> IntegerModel:
        """The integer model that `quantize` wrote."""
        self._own_model_file()  # which the integer model names
        return load_integer(self.path)

    def _own_model_file(self) -> Path:
        """Return the path of the float model, which must be of this run."""
        from hadamrnn.nn.storage import check_run

        path = self.path / MODEL_FILE
        if not path.is_file():
            raise InputError(
                f"{self.path} holds no model yet. Continue with: hadamrnn train --resume {self.path}."
            )
        check_run(path, self.folder.record.identity)
        return path

    @cached_property
    def splits(self) -> Splits:
        """The data that the run was trained with, prepared as it was then; changed data are refused."""
        return _load(self.config, self.data_dir, self.facts.preparation)

    def predictor(self, integer: bool = False, threads: int | None = None) -> SequenceModel | IntegerNetwork:
        """Return the float model, or the integer model with its saturation counters at zero."""
        if not integer:
            return self.model
        from hadamrnn.quantization.network import IntegerNetwork

        return IntegerNetwork(self.integer, threads)

    def read(
        self, file: str | Path, layout: str | None = None, labelled: bool = True
    ) -> tuple[Split, Arrays]:
        """Return a user's arrays or recordings, scaled as in training, and the arrays they were made of."""
        from hadamrnn.training.inference import read_split

        return read_split(Path(file), self.folder, self.model, layout, labelled)

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
        from hadamrnn.training.evaluate import accuracy_of, confusion, evaluate

        samples: Split = getattr(self.splits, split) if file is None else self.read(file, layout)[0]
        by_group = "" if samples.groups is None else "the right group of classes counts"
        own = self.splits.note if file is None else ""
        facts: dict[str, Any] = {
            "samples": len(samples),
            "metric": self.facts.metric,
            "class_names": self.facts.class_names,
        }
        facts["note"] = "; ".join(filter(None, [own, by_group]))
        network = self.predictor(integer, threads)
        if not samples.labelled:
            return Evaluation(**facts, value=None)
        counts = None
        if self.facts.metric == "accuracy":
            table = confusion(network, samples, len(self.facts.class_names))
            counts, value = table.tolist(), accuracy_of(table, samples)
        else:
            value = evaluate(network, samples, self.facts.metric)
        return Evaluation(**facts, value=value, confusion=counts, saturation=saturation(network))

    def predict(
        self,
        file: str | Path,
        *,
        layout: str | None = None,
        integer: bool = False,
        threads: int | None = None,
    ) -> Predictions:
        """Return the predictions for a user's arrays or recordings."""
        from hadamrnn.training.evaluate import predict_logits
        from hadamrnn.training.inference import readable

        network = self.predictor(integer, threads)
        split, arrays = self.read(file, layout, labelled=False)
        logits = predict_logits(network, split)
        places: dict[str, list[Any]] = {
            name: arrays[name].tolist() for name in ("file", "row") if name in arrays
        }
        return Predictions(readable(logits, self.facts), logits, places, saturation(network))

    def quantize(
        self, config: QuantizeConfig | None = None, *, split: Part = "test", threads: int | None = None
    ) -> Quantization:
        """Write the integer model into the run, and return it with the metric of both models over `split`."""
        from hadamrnn.quantization.chain import quantize
        from hadamrnn.quantization.network import IntegerNetwork
        from hadamrnn.training.evaluate import evaluate

        with held(self.path):
            integer, _ = quantize(self.model, self.splits, config or QuantizeConfig())
            samples, metric = getattr(self.splits, split), self.facts.metric
            network = IntegerNetwork(integer, threads)
            scores = [evaluate(each, samples, metric) for each in (self.model, network) if samples.labelled]
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

    def export(self, out: str | Path, to: Target = "c", name: str = "net", **options: Any) -> Export:
        """Write the run as a self-contained directory; `options` are those of `hadamrnn.deployment.write`.

        A run that has no integer model yet is quantized first. ONNX takes the models that the run has.
        """
        from hadamrnn.deployment import write, write_onnx

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
        """Return `splits` if its files are here: nothing is downloaded."""
        from hadamrnn.data.files import offline

        with offline():
            return self.splits


def train(config: TrainingConfig, out: str | Path, options: RunOptions | None = None) -> Run:
    """Train a new model; `out` becomes its run directory. Bad input leaves no directory behind."""
    from hadamrnn.training.folder import RunFolder, check_free
    from hadamrnn.training.processes import join_processes

    options = options or RunOptions()
    processes = join_processes(config.dtype)
    first = processes.rank == 0
    if first:
        check_free(out)
    trainer = _prepare(config, options, processes)
    splits = trainer.splits
    decided = {**config.task_options, **splits.options}
    config = replace(config, network=trainer.model.network, task_options=decided)
    if first and options.watcher is not None:
        for line in splits.assumptions:
            options.watcher.remark(line)
    with held(Path(out)) if first else nullcontext():
        folder = RunFolder.create(out, config, splits, options.data_dir, write=first)
        return _carry_out(folder, trainer, options)


def resume(path: str | Path, options: RunOptions | None = None) -> Run:
    """Continue the run at `path`; the end is bit for bit that of the uninterrupted run."""
    from hadamrnn.training.folder import RunFolder
    from hadamrnn.training.processes import join_processes

    folder = RunFolder.open(path)
    options = options or RunOptions()
    options = replace(options, data_dir=options.data_dir or folder.record.data_dir)
    changes = folder.version_changes()
    if changes and options.watcher is not None:
        options.watcher.remark(f"note: {', '.join(changes)}: results may differ in their last bits")
    processes = join_processes(folder.config.dtype)
    with held(folder.path) if processes.rank == 0 else nullcontext():
        trainer = _prepare(folder.config, options, processes, folder.facts.preparation)
        return _carry_out(folder, trainer, options)


def _carry_out(folder: RunFolder, trainer: Trainer, options: RunOptions) -> Run:
    from hadamrnn.training.loop import Session

    session = Session(trainer, folder, options.watcher)
    run = Run(folder, options.data_dir, session.run(options.checkpoint_seconds, options.stop))
    run.splits = trainer.splits
    return run


def _prepare(
    config: TrainingConfig,
    options: RunOptions,
    processes: Processes,
    preparation: Preparation | None = None,
) -> Trainer:
    """Return a trainer with the task's data, prepared as before if asked to, and a freshly drawn model."""
    import torch

    from hadamrnn.training.models import build
    from hadamrnn.training.trainer import Trainer

    if config.threads is not None:
        torch.set_num_threads(config.threads)
    splits = options.splits
    if splits is None:
        splits = _load(config, options.data_dir, preparation)
    elif preparation is not None:
        preparation.check(splits.fingerprint, f"the task {config.task}")
    return Trainer(build(config, splits), splits, config, processes)


def _load(
    config: TrainingConfig, data_dir: str | Path | None, preparation: Preparation | None = None
) -> Splits:
    from hadamrnn.data import load_task

    return load_task(config.task, data_dir, preparation, **config.task_options)

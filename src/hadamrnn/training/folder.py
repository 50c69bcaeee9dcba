"""Write and read the folder of a run.

config.yaml          the whole configuration: `train --config` repeats the run
run.json             versions, seed, threads, and the facts of the task that inference needs
metrics.jsonl        one row for each validation
tensorboard/         the same rows as event files, if tensorboardX is installed
model.safetensors    the best model by validation
resume.safetensors   the state for `train --resume`
.lock                locked by the process that writes the run

A checkpoint has tensors, and counters as JSON in its header. It is replaced atomically, so it is always
complete. It has no random generator state, because `hadamrnn.training.schedule` derives all random numbers
from the seed and the step.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

import torch
from safetensors.torch import save
from torch import Tensor, nn

from hadamrnn.data.splits import Preparation, Splits
from hadamrnn.errors import InputError, printable
from hadamrnn.files import (
    CHECKPOINT_FILE,
    CONFIG_FILE,
    METRICS_FILE,
    MODEL_FILE,
    RECORD_FILE,
    check_new_folder,
    parse_json,
    read_json,
    read_regular,
    read_sealed,
    seal,
    write_atomically,
)
from hadamrnn.network import network_values, read_architecture
from hadamrnn.nn.storage import check_owner, check_tensors, parse_tensors, save_model
from hadamrnn.packages import installed_version, package_version
from hadamrnn.settings import from_json
from hadamrnn.training.config import TrainingConfig, config_yaml, read_config
from hadamrnn.training.evaluate import MetricsRow
from hadamrnn.training.schedule import MOMENTS
from hadamrnn.training.trainer import Counters, Trainer

FORMAT = "hadamrnn run"
FORMAT_VERSION = 3
CHECKPOINT = {"format": "hadamrnn checkpoint", "version": "2"}
MAX_RECORD_BYTES = 1 << 30  # large, because the record lists the sample numbers of every part
PACKAGES = ("torch", "numpy", "safetensors")


@dataclass(frozen=True)
class Record:
    """The content of run.json, without its format.

    `network` is the configuration's network with the task's inputs and outputs; `config_sha256` identifies
    the configuration with which the run began.
    """

    seed: int
    threads: int
    data_dir: str | None
    versions: dict[str, str | None]
    facts: Preparation
    network: dict[str, Any]
    config_sha256: str

    @property
    def identity(self) -> str:
        """The identity of this run in its model and checkpoint, the same for equal settings and data."""
        content = json.dumps([self.config_sha256, self.network, asdict(self.facts)])
        return hashlib.sha256(content.encode()).hexdigest()


class RunFolder:
    """A run's folder, from `create` or `open`; `data_dir` is the folder of its public data set."""

    def __init__(
        self, path: Path, config: TrainingConfig, record: Record, data_dir: str | Path | None = None
    ) -> None:
        self.path = path
        self.config = config
        self.record, self.facts = record, record.facts
        self.data_dir = data_dir or record.data_dir
        self.metrics_path = path / METRICS_FILE
        self.model_path = path / MODEL_FILE
        self._saved_step: int | None = None
        self._metrics_digest = hashlib.sha256()
        self._events: Any | None = None

    @classmethod
    def create(
        cls,
        path: str | Path,
        config: TrainingConfig,
        splits: Splits,
        data_dir: str | Path | None = None,
        write: bool = True,
    ) -> Self:
        """Create a run; of several processes, one creates the directory, and the others do not `write`."""
        path = Path(path)
        record = Record(
            seed=config.seed,
            threads=torch.get_num_threads(),
            data_dir=None if data_dir is None else str(Path(data_dir).resolve()),
            versions=versions(),
            facts=splits.preparation,
            network=network_values(config.network),
            config_sha256=_config_sha256(config),
        )
        if not write:
            return cls(path, config, record)
        check_free(path)
        values = {"format": FORMAT, "version": FORMAT_VERSION, **asdict(record)}
        path.mkdir(parents=True, exist_ok=True)
        # Write the configuration last, because a folder with a configuration counts as a run.
        write_atomically(path / RECORD_FILE, (json.dumps(values) + "\n").encode())
        write_atomically(path / CONFIG_FILE, config_yaml(config))
        return cls(path, config, record)

    @classmethod
    def open(cls, path: str | Path, data_dir: str | Path | None = None) -> Self:
        """Open the run at `path`; `data_dir` is the folder of its public data set, if it has moved."""
        path = Path(path)
        if not (path / CONFIG_FILE).is_file() or not (path / RECORD_FILE).is_file():
            raise InputError(
                f"{path} must be a run folder, with config.yaml and run.json. hadamrnn train creates one."
            )
        advice = "Use the release of hadamrnn that wrote it."
        values = read_json(path / RECORD_FILE, FORMAT, FORMAT_VERSION, advice, MAX_RECORD_BYTES)
        record = from_json(Record, values, path / RECORD_FILE)
        config = read_config(path / CONFIG_FILE)
        if _config_sha256(config) != record.config_sha256:
            raise InputError(
                f"{path / CONFIG_FILE} must hold the settings that the run began with, but was changed. "
                f"Undo that, or start another run with: hadamrnn train --config {path / CONFIG_FILE}"
            )
        return cls(path, replace(config, network=read_architecture(record.network)), record, data_dir)

    def version_changes(self) -> list[str]:
        """Return the versions that have changed since the run began, which may change its bits."""
        began = self.record.versions
        return [
            f"{name} {now}, was {printable(str(began.get(name)))}"
            for name, now in versions().items()
            if now != began.get(name)
        ]

    def restore(self, trainer: Trainer) -> None:
        """Restore a trainer from the checkpoint, if there is one."""
        path = self.path / CHECKPOINT_FILE
        if path.is_file():
            groups, counters = read_checkpoint(path, self.record.identity)
            check_fits(groups, trainer.model, path, trainer.average)
            trainer.restore(groups, counters)
            self._saved_step = counters.step

    def begin(self, trainer: Trainer) -> None:
        """Prepare to write: remove what a killed process left, and rows after the checkpoint."""
        for name in (RECORD_FILE, CONFIG_FILE, CHECKPOINT_FILE, MODEL_FILE):
            for leftover in self.path.glob(f".{name}.*"):
                leftover.unlink(missing_ok=True)
        self._cut_metrics(trainer.counters.metrics_bytes, trainer.counters.metrics_sha256)
        if trainer.finished:
            self.save(trainer)  # the run may have been killed between writing the checkpoint and the model
        else:
            with self._guarded():
                self._events = open_events(self.path / "tensorboard", trainer.counters.step)

    def append(self, row: MetricsRow, counters: Counters) -> None:
        """Append a row to metrics.jsonl and track its length."""
        values = asdict(row)
        line = (json.dumps(values) + "\n").encode()
        with self._guarded():
            with self.metrics_path.open("ab") as file:
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
                counters.metrics_bytes = file.tell()
            self._metrics_digest.update(line)
            counters.metrics_sha256 = self._metrics_digest.hexdigest()
            if self._events is not None:
                for name, value in values.items():
                    if name != "step" and value is not None:
                        self._events.add_scalar(name, value, row.step)
                self._events.flush()

    def save(self, trainer: Trainer) -> None:
        """Write the checkpoint, then the best model so far, or the last model if none was validated."""
        with self._guarded():
            path, identity = self.path / CHECKPOINT_FILE, self.record.identity
            write_checkpoint(path, trainer.state(), trainer.counters, identity)
            self._saved_step = trainer.counters.step
        if trainer.best or trainer.finished:
            self.save_model(trainer)

    def save_model(self, trainer: Trainer) -> None:
        """Write the best model so far."""
        with self._guarded():
            save_model(trainer.best_model(), self.model_path, self.record.identity)

    def close(self) -> None:
        if self._events is not None:
            with suppress(OSError):  # every row was flushed, so nothing is lost
                self._events.close()

    def _cut_metrics(self, size: int, sha256: str | None) -> None:
        """Remove rows after the checkpoint, which will be written again.

        The earlier rows must match its checksum (None: no row was written yet).
        """
        self.metrics_path.touch()
        content = read_regular(self.metrics_path)[:size]
        self._metrics_digest = hashlib.sha256(content)
        if len(content) < size or sha256 not in (None, self._metrics_digest.hexdigest()):
            raise InputError(
                f"{self.metrics_path} is shorter than when the checkpoint was written, or was changed. "
                "Start the run again."
            )
        os.truncate(self.metrics_path, size)

    def rows(self) -> list[MetricsRow]:
        lines = read_regular(self.metrics_path).splitlines()
        return [
            from_json(MetricsRow, parse_json(line, self.metrics_path), self.metrics_path) for line in lines
        ]

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Turn a disk error, such as a full disk, into one line that names the intact checkpoint."""
        try:
            yield
        except OSError as error:
            if self._saved_step is None:
                kept = "no checkpoint had been written yet"
            else:
                kept = f"the checkpoint of step {self._saved_step} is intact"
            raise OSError(
                f"{self.path} cannot be written ({error.strerror}): the run has stopped, {kept}. "
                f"Make room, then continue with: hadamrnn train --resume {self.path}"
            ) from error


def check_free(path: str | Path) -> None:
    """Refuse a folder that is not empty, apart from hidden files.

    A folder with only run.json is accepted, because a process killed in its first milliseconds leaves that.
    """
    advice = f"Choose another, or continue with: hadamrnn train --resume {path}."
    check_new_folder(Path(path), advice, ignored=(RECORD_FILE,))


def _config_sha256(config: TrainingConfig) -> str:
    return hashlib.sha256(config_yaml(config)).hexdigest()


def versions() -> dict[str, str | None]:
    """Return the versions of software that may affect a run's bits."""
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "hadamrnn": package_version(),
        **{package: installed_version(package) for package in PACKAGES},
    }


def open_events(folder: Path, start_step: int) -> Any | None:
    """Return a `SummaryWriter` on a new TensorBoard file in `folder`, or None without tensorboardX.

    TensorBoard ignores steps after `start_step` in earlier files.
    """
    try:
        from tensorboardX import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder), purge_step=start_step + 1 if start_step else None)


def write_checkpoint(
    path: Path, groups: Mapping[str, Mapping[str, Tensor]], counters: Counters, run: str = ""
) -> None:
    """Replace the checkpoint at `path` by these groups of named tensors and a run's counters."""
    tensors = {
        f"{group}/{name}": tensor.detach().contiguous()
        for group, members in groups.items()
        for name, tensor in members.items()
    }
    header = {**CHECKPOINT, "counters": json.dumps(asdict(counters)), "run": run}
    write_atomically(path, seal(save(tensors, header)))


def read_checkpoint(path: Path, run: str | None = None) -> tuple[dict[str, dict[str, Tensor]], Counters]:
    """Read the groups and counters of a checkpoint; refuse the checkpoint of another run."""
    kind, version = CHECKPOINT.values()
    header, content = read_sealed(path, kind, version, "Resume with the release that wrote it.")
    if run is not None:
        check_owner(header, run, path)
    groups: dict[str, dict[str, Tensor]] = {}
    for key, tensor in parse_tensors(content, path).items():
        group, _, name = key.partition("/")
        groups.setdefault(group, {})[name] = tensor
    return groups, from_json(Counters, parse_json(header.get("counters", "null"), path), path)


def check_fits(
    groups: Mapping[str, Mapping[str, Tensor]], model: nn.Module, path: Path, average: nn.Module | None = None
) -> None:
    """Refuse a checkpoint whose tensors differ from those of the model or its average in name or form."""
    state = model.state_dict()
    check_tensors(groups.get("model", {}), state, path)
    check_tensors(groups.get("average", {}), {} if average is None else average.state_dict(), path)
    if "best" in groups:
        check_tensors(groups["best"], state, path)
    for moment in MOMENTS[1:]:
        found = groups.get(f"adam_{moment}", {})
        expected = {name: parameter for name, parameter in model.named_parameters() if name in found}
        check_tensors(found, expected, path)

"""All kinds of files that `hadamrnn` reads, each with a small original and a reader."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hadamrnn import fixedpoint
from hadamrnn.data.npz import load_npz
from hadamrnn.data.tasks import load_task
from hadamrnn.files import INTEGER_FILE
from hadamrnn.fixedpoint.drawn import draw_model
from hadamrnn.network import Network
from hadamrnn.nn.storage import load_model
from hadamrnn.quantization import QuantizeConfig
from hadamrnn.quantization.chain import quantize
from hadamrnn.run import train
from hadamrnn.training.config import resolve_config
from hadamrnn.training.folder import RunFolder, check_fits, read_checkpoint
from hadamrnn.training.models import build
from hadamrnn_paper.results import IntegerFigures, Result, read_file, write_result
from tests.fuzz.damage import Damaged, lying_header, lying_json, lying_npz, lying_yaml, worn

Reader = Callable[[Path], str]
STACK = Network(
    8, 8, 2, 2, num_blocks=2, leak=(1, 3), readouts=("mean", "max"), thresholds=1, normalize=True, skip=True,
    stride=2, activation_bits=12,
)  # fmt: skip


@dataclass(frozen=True)
class Subject:
    """A kind of file.

    Args:
        path: the original; a damaged one takes its place while it is read.
        read: returns a digest of the content, or raises.

        checked: whether an accepted file must have the original content, unless it was sealed again.
    """

    path: Path
    read: Reader
    lies: Callable[[bytes], Iterator[Damaged]]
    checked: bool = False

    def damages(self, count: int, seed: int) -> list[Damaged]:
        """Return `count` damaged files: half of them worn, half of them lying."""
        content = self.path.read_bytes()
        draw = random.Random(f"{self.path.name} {seed}")
        lies = list(self.lies(content))
        drawn = draw.sample(lies, min(len(lies), count // 2))
        return drawn + [worn(content, draw) for _ in range(count - len(drawn))]


def make_subjects(folder: Path) -> list[Subject]:
    """Train a small network into `folder`, and return one subject for every kind of file."""
    config = resolve_config("digits", overrides={"epochs": 2, "hidden_size": 8, "threads": 1})
    run = folder / "run"
    outcome = train(config, run)
    splits = load_task("digits")
    integer = quantize(outcome.model, splits, QuantizeConfig())
    fixedpoint.save(integer, run / INTEGER_FILE)
    rng = np.random.default_rng(0)
    stack = folder / "stack.int.safetensors"
    fixedpoint.save(draw_model(STACK), stack)
    np.savez(folder / "x.npz", x=rng.normal(size=(30, 6, 2)).astype(np.float32), y=np.arange(30) % 3)
    counters = read_checkpoint(run / "resume.safetensors")[1]

    def read_resume(path: Path) -> str:
        groups, counters = read_checkpoint(path)
        check_fits(groups, outcome.model, path)
        named = ((f"{group}/{name}", each) for group in groups for name, each in groups[group].items())
        return digest(counters, *sorted((name, each.numpy().tobytes()) for name, each in named))

    def read_metrics(path: Path) -> str:
        opened = RunFolder.open(path.parent)
        rows = opened.rows()
        opened._cut_metrics(counters.metrics_bytes, counters.metrics_sha256)
        return digest(rows)

    def read_run(path: Path) -> str:
        opened = RunFolder.open(path.parent)
        opened.version_changes()
        build(opened.config, splits)
        return digest(opened.config, opened.record)

    def read_arrays(path: Path) -> str:
        return digest(load_npz(path=path).train.x.shape)

    return [
        Subject(run / "model.safetensors", read_model, lying_header, checked=True),
        Subject(run / INTEGER_FILE, read_integer, lying_header, checked=True),
        Subject(stack, read_integer, lying_header, checked=True),
        Subject(run / "resume.safetensors", read_resume, lying_header, checked=True),
        Subject(run / "metrics.jsonl", read_metrics, lying_rows, checked=True),
        Subject(run / "run.json", read_run, _lying_text),
        Subject(run / "config.yaml", read_run, lambda content: _texts(lying_yaml(content.decode()))),
        Subject(folder / "x.npz", read_arrays, lying_npz),
        Subject(write_result(folder, _result()), lambda path: digest(read_file(path)), _lying_text),
    ]


def read_model(path: Path) -> str:
    state = load_model(path).state_dict()
    return digest(*((name, state[name].numpy().tobytes()) for name in sorted(state)))


def read_integer(path: Path) -> str:
    return hashlib.sha256(fixedpoint.file.to_bytes(fixedpoint.load(path))).hexdigest()


def lying_rows(content: bytes) -> Iterator[Damaged]:
    first, *rest = content.decode().splitlines(keepends=True)
    for how, text in lying_json(first):
        yield Damaged(how, "\n".join([text, *rest]).encode(errors="surrogatepass"), True)


def digest(*values: object) -> str:
    return hashlib.sha256(repr(values).encode(errors="surrogatepass")).hexdigest()


def _lying_text(content: bytes) -> Iterator[Damaged]:
    return _texts(lying_json(content.decode()))


def _texts(lies: Iterator[tuple[str, str]]) -> Iterator[Damaged]:
    for how, text in lies:
        yield Damaged(how, text.encode(errors="surrogatepass"), False)


def _result() -> Result:
    return Result(
        experiment="digits-8-4bit",
        preset="quick",
        seed=0,
        config={"task": "digits", "model": "hadamrnn", "epochs": 1},
        metric="accuracy",
        test=0.9,
        validation=0.9,
        integer=IntegerFigures(12, 0.9, 0.1, 3, 0),
        kilobytes=0.1,
        steps=10,
        epochs=1.0,
        best_step=5,
        seconds=1.0,
        ended="finished",
        threads=1,
        cpu="a processor",
        versions={"torch": "2"},
        curve={"epoch": [1.0], "loss": [1.0], "validation": [0.9], "flips": [3]},
    )

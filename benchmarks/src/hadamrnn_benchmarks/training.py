"""`hadamrnn bench training`: time a training step of the engine against the plain loop.

Both run in one process, taking turns, with the same threads and batch; a row's ratio is the quotient of the
medians. Peak memory is measured in a separate process for each. Start at `run_shapes`.

After that, the overhead of the training loop of `hadamrnn train` over an engine step is measured: it samples
and converts a batch, checks the loss, clips, and counts sign flips. A callback runs the bare step after every
step of the loop, so both see the same load on the machine.
"""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import isnan, nan
from pathlib import Path
from statistics import median

import torch
from torch import Tensor

from hadamrnn.architecture import Architecture
from hadamrnn.data.splits import Metric, Split, Splits
from hadamrnn.errors import InputError, check_name
from hadamrnn.network import Network
from hadamrnn.nn.model import SequenceModel
from hadamrnn.training.config import TrainingConfig
from hadamrnn.training.loop import Watcher, fit
from hadamrnn.training.schedule import Adam
from hadamrnn_benchmarks.plain import plain_loss
from hadamrnn_benchmarks.torch_layers import LAYERS, torch_step

Step = Callable[[], None]
SIDES = ("plain", "engine")
LOOP_STEPS = 4  # steps of the training loop for every round of the comparison
WARM_UP = 3  # steps of the training loop that are not timed
LEVELS = 255  # the training loop's dense inputs are stored as bytes, like MNIST's pixels
TORCH_ROUNDS = 3  # rounds that include the torch layers, which are slow
BATCHES = 8  # batches in the training loop's data


@dataclass(frozen=True)
class Workload:
    """A network, the batch it is trained on, and the ratio that the engine should reach."""

    name: str
    batch: int
    time: int
    network: Architecture
    ratio: float
    train_signs: bool = True


MNIST = Network(input_size=1, hidden_size=512, output_size=10)
COPY = Network(input_size=10, hidden_size=128, output_size=9, input_kind="one_hot", every_output=True)
IMDB = Network(512, 512, 1, input_kind="embedded", vocabulary_size=10_000, padding_id=0)
SPECTRUM = (1, 2, 3, 4, 5, 6)
STACK = Network(
    32, 128, 12, num_layers=3, num_blocks=8, leak=SPECTRUM, readouts=("mean",), normalize=True, skip=True
)
SHAPES = {
    shape.name: shape
    for shape in (
        Workload("mnist", 64, 784, MNIST, 180),
        Workload("copy", 128, 1020, COPY, 11),
        Workload("imdb", 100, 500, IMDB, 15),
        Workload("relu", 64, 784, Network(1, 512, 10, recurrence="relu"), 30),
        Workload("block", 64, 784, Network(1, 512, 10, num_blocks=32), 180),
        Workload("pooled", 64, 784, Network(1, 512, 10, readouts=("mean",)), 28),
        Workload("leaky", 64, 784, Network(1, 512, 10, num_blocks=8, leak=SPECTRUM), 150),
        Workload("stack", 64, 99, STACK, 3),
        Workload("frozen", 64, 784, MNIST, 25, train_signs=False),  # 25 also without the native library
    )
}


@dataclass(frozen=True)
class TrainingRow:
    """The measurements of one shape."""

    shape: str
    ratio: float
    wanted: float
    plain_ms: float
    engine_ms: float
    gru_ms: float  # torch.nn.GRU of the same width and depth
    rnn_ms: float  # torch.nn.RNN of the same width and depth
    obvious_ms: float  # the obvious implementation, see `ObviousLayer`
    loop_ms: float  # one step of `fit`, including the engine's
    loop_share: float  # fraction of that step outside the engine
    plain_mb: float | None  # peak memory without imports, model and batch
    engine_mb: float | None
    rounds: int
    threads: int


def run_shapes(
    names: Sequence[str], *, rounds: int, threads: int, data_dir: Path | None, memory: bool = True
) -> list[TrainingRow]:
    """Measure the shapes one after another."""
    return [run_shape(shape, rounds, threads, data_dir, memory) for shape in named_shapes(names)]


def named_shapes(names: Sequence[str]) -> list[Workload]:
    """Return the shapes with these names; an unknown name is refused before anything is measured."""
    for name in names:
        check_name("A shape", name, SHAPES)
    return [SHAPES[name] for name in names]


def run_shape(shape: Workload, rounds: int, threads: int, data_dir: Path | None, memory: bool) -> TrainingRow:
    """Measure one shape: a warm-up of each implementation, then `rounds` rounds."""
    with torch_threads(threads):
        plain_ms, engine_ms, gru_ms, rnn_ms, obvious_ms = time_sides(shape, rounds, data_dir)
        loop_ms, loop_share = measure_loop(shape, LOOP_STEPS * rounds, data_dir)
    plain_mb, engine_mb = (
        peak_megabytes(shape.name, side, threads, data_dir) if memory else None for side in SIDES
    )
    return TrainingRow(
        shape=shape.name,
        ratio=plain_ms / engine_ms,
        wanted=shape.ratio,
        plain_ms=plain_ms,
        engine_ms=engine_ms,
        gru_ms=gru_ms,
        rnn_ms=rnn_ms,
        obvious_ms=obvious_ms,
        loop_ms=loop_ms,
        loop_share=loop_share,
        plain_mb=plain_mb,
        engine_mb=engine_mb,
        rounds=rounds,
        threads=threads,
    )


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Run torch on this many threads within the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def time_sides(shape: Workload, rounds: int, data_dir: Path | None) -> list[float]:
    """Return the median milliseconds of a step for the plain loop, the engine, and `LAYERS`.

    The torch layers may take seconds per step, so they run in the first `TORCH_ROUNDS` rounds only.
    """
    x, target = make_batch(shape, data_dir)
    plain, engine = (make_step(shape, side, x, target) for side in SIDES)
    assert isinstance(shape.network, Network)
    layers = [torch_step(layer, shape.network, x, target) for layer in LAYERS]
    for step in (plain, *layers):
        step()
    one = min(milliseconds(engine) for _ in range(3))
    # The faster one runs several steps per round, so that a round does not depend on a single short timing.
    repeats = max(1, min(40, round(300 / max(one, 1e-3))))
    times = [
        (
            milliseconds(plain),
            milliseconds(engine, repeats),
            *(milliseconds(layer) if number < TORCH_ROUNDS else nan for layer in layers),
        )
        for number in range(rounds)
    ]
    columns = zip(*times, strict=True)
    return [median(value for value in column if not isnan(value)) for column in columns]


def measure_loop(shape: Workload, steps: int, data_dir: Path | None) -> tuple[float, float]:
    """Return the mean milliseconds of a training loop's step, and the fraction spent outside the engine."""
    x, target = make_batch(shape, data_dir)
    turns = _Turns(make_step(shape, "engine", x, target))
    total = steps + WARM_UP
    recipe = TrainingConfig(
        task="bench", steps=total, evaluate_every=total, batch_size=len(x), gradient_clip=1.0
    )
    model = SequenceModel(shape.network, train_signs=shape.train_signs)
    fit(model, _splits(shape.network, x, target), recipe, watcher=turns)
    # Sums, not medians, because a coarse clock gives 0 for many short steps. The sum is at least a
    # microsecond.
    loop_times, engine_times = zip(*turns.pairs[WARM_UP:], strict=True)
    loop = max(sum(loop_times), 1e-3)
    return loop / steps, (loop - sum(engine_times)) / loop


class _Turns(Watcher):
    """Time the training loop's steps and, between them, `bare` steps."""

    def __init__(self, bare: Callable[[], None]) -> None:
        self._bare = bare
        self.pairs: list[tuple[float, float]] = []

    def start(self, step: int, total_steps: int, epochs: float, metric: Metric) -> None:
        self._began = time.perf_counter()

    def advance(self, step: int, loss: float) -> None:
        turn = time.perf_counter()
        self._bare()
        end = time.perf_counter()
        self.pairs.append((1e3 * (turn - self._began), 1e3 * (end - turn)))
        self._began = time.perf_counter()


def _splits(network: Architecture, x: Tensor, target: Tensor) -> Splits:
    """Return the batch as a task in storage form."""
    dense = x.is_floating_point()
    stored = (LEVELS * x).to(torch.uint8) if dense else x
    batch = Split(stored, target, levels=LEVELS if dense else None)
    train = Split(torch.cat([stored] * BATCHES), torch.cat([target] * BATCHES), levels=batch.levels)
    return Splits(
        "bench",
        train,
        batch,
        batch,
        x.shape[1],
        network.input_size,
        network.output_size,
        vocabulary_size=network.vocabulary_size,
        one_hot=network.input_kind == "one_hot",
        every_output=network.every_output,
    )


def milliseconds(
    step: Callable[[], object], repeats: int = 1, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Return the mean time of `repeats` steps, or of more until the clock, which may be coarse, advances."""
    count, start, elapsed = 0, clock(), 0.0
    while count < repeats or not elapsed:
        step()
        count += 1
        elapsed = clock() - start
    return elapsed * 1e3 / count


def make_step(shape: Workload, side: str, x: Tensor, target: Tensor) -> Step:
    """Return a function that runs one training step: forward, backward, Adam."""
    torch.manual_seed(0)
    model = SequenceModel(shape.network, train_signs=shape.train_signs)
    loss: Callable[[SequenceModel, Tensor, Tensor], Tensor]
    optimizer: torch.optim.Optimizer
    if side == "plain":
        loss, optimizer = plain_loss, torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    else:
        loss, optimizer = SequenceModel.loss, Adam(model.parameters(), lr=1e-3)

    def step() -> None:
        optimizer.zero_grad()
        loss(model, x, target).backward()
        optimizer.step()

    return step


def make_batch(shape: Workload, data_dir: Path | None) -> tuple[Tensor, Tensor]:
    """Return a batch of the shape; for imdb, real reviews if present, otherwise random ones."""
    generator = torch.Generator().manual_seed(0)
    size = (shape.batch, shape.time)
    network = shape.network
    if network.vocabulary_size is not None:
        return _reviews(shape, data_dir, generator)
    if network.input_kind == "one_hot":
        x = torch.randint(network.input_size, size, generator=generator)
    else:
        x = torch.rand(*size, network.input_size, generator=generator)
    targets = size if network.every_output else size[:1]
    return x, torch.randint(network.output_size, targets, generator=generator)


def _reviews(shape: Workload, data_dir: Path | None, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return IMDB reviews; without the data, random ids with similar word frequencies.

    In a real batch of 100 x 500 ids, 47 % are words, of which 3,500 to 3,800 are distinct; the rest is left
    padding. Sampling words with p(rank) ~ rank^-1.1 gives as many distinct words.
    """
    from hadamrnn.data.files import offline
    from hadamrnn.data.tasks import load_task

    target = torch.randint(2, (shape.batch,), generator=generator)
    with offline(), suppress(InputError):
        train = load_task("imdb", data_dir, seq_length=shape.time).train
        return train.batch(slice(0, shape.batch))[0], target
    vocabulary_size = shape.network.vocabulary_size or 0
    ranks = torch.arange(1, vocabulary_size, dtype=torch.float64)
    size = shape.batch * shape.time
    words = 1 + torch.multinomial(ranks**-1.1, size, replacement=True, generator=generator)
    ids = words.reshape(shape.batch, shape.time)
    ids[:, : round(0.53 * shape.time)] = 0
    return ids, target


def peak_megabytes(name: str, side: str, threads: int, data_dir: Path | None) -> float:
    """Return the peak memory of two training steps, without imports, model and batch, in a fresh process."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_measure_peak, (name, side, threads, data_dir))


def _measure_peak(name: str, side: str, threads: int, data_dir: Path | None) -> float:
    torch.set_num_threads(threads)
    shape = SHAPES[name]
    step = make_step(shape, side, *make_batch(shape, data_dir))
    return extra_megabytes(lambda: (step(), step()))


def extra_megabytes(work: Callable[[], object]) -> float:
    """Return the largest growth of this process while `work` runs."""
    gc.collect()  # earlier garbage that is freed during `work` would hide the growth
    _return_freed_memory()
    start = _reset_peak()
    work()
    return (_peak() - start) / 2**20


def _return_freed_memory() -> None:
    """Release memory that this process has freed but not yet returned to the system (glibc only)."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform.startswith("linux") else None
    if trim is not None:
        trim(0)


def _reset_peak() -> int:
    """Reset the peak (Linux only) and return the bytes in use now."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return _peak()
    return _status("VmRSS")


def _peak() -> int:
    if Path("/proc/self/status").exists():
        return _status("VmHWM")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # macOS counts bytes


def _status(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))

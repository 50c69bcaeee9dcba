"""Mixtures of runs: files of one run among those of another, and data that have changed since.

Among the runs are one with a decision, one with a front end, a detector, and the reservoir of an estimator.

Every command on a mixture must refuse it in one line, unless all files that it reads belong to one run; then
it must answer as it does for that run. Start at `fuzz_mixtures`.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import itertools
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from hadamrnn import HadamRNNClassifier, cli
from hadamrnn.run import RunOptions, train
from hadamrnn.training.config import read_config
from tests.fuzz.worker import run_limited

RUN_FILES = (
    *("config.yaml", "run.json", "model.safetensors", "model.int.safetensors"),
    *("resume.safetensors", "metrics.jsonl"),
)
STOP_AFTER = 6  # steps
DATA_FILES = ("mine.csv", "mine.npz")
LOADED = ("config.yaml", "run.json", "model.safetensors")
INTEGER = "model.int.safetensors"
RATE = ("--rate", "200")
LOOSE = ("--false-alarms-per-hour", "100000")
WINDOWS = "--label kind --window 8 --group time".split()
BANDS = "--label kind --window 64 --group time --features bands --frame 64 --bands 8 --rate 200".split()
GROUPS = (
    *((name,) for name in (*RUN_FILES, *DATA_FILES, *DATA_FILES)),
    *(("config.yaml", "run.json"), ("model.safetensors", INTEGER)),
    *(("config.yaml", "run.json", "model.safetensors"), ("resume.safetensors", "metrics.jsonl")),
)
Files = dict[str, bytes]


@dataclass(frozen=True)
class Check:
    """A command and the files of a run that its answer depends on; `data` stands for the run's data file."""

    words: tuple[str, ...]
    reads: tuple[str, ...]
    writes: str = ""  # a folder or file, relative to the arena, that belongs to the answer


CHECKS = {
    "eval": Check(("eval", "run", "--json"), (*LOADED, "data")),
    "eval --integer": Check(("eval", "run", "--integer", "--json"), (*LOADED, INTEGER, "data")),
    "predict": Check(("predict", "run", "new", "--json"), LOADED),
    "predict --integer": Check(("predict", "run", "new", "--integer", "--json"), (*LOADED, INTEGER)),
    "quantize": Check(("quantize", "run", "--json"), (*LOADED, "data"), f"run/{INTEGER}"),
    "export --to c": Check(
        ("export", "run", "--to", "c", "--golden", "random", "--out", "out"),
        ("model.safetensors", INTEGER),
        "out",
    ),
    "export --to onnx": Check(("export", "run", "--to", "onnx", "--out", "out"), (*LOADED, INTEGER), "out"),
    "export --to page": Check(
        ("export", "run", "--to", "page", "--out", "out"), (*LOADED, INTEGER, "data"), "out"
    ),
    "tune": Check(("tune", "run", "new", *LOOSE, *RATE), (*LOADED, INTEGER), f"run/{INTEGER}"),
    "eval --stream": Check(("eval", "run", "new", "--stream", "--json"), (*LOADED, INTEGER)),
    "train --resume": Check(
        ("train", "--resume", "run", "--quiet"),
        ("config.yaml", "run.json", "resume.safetensors", "metrics.jsonl", "data"),
        "run/model.safetensors",
    ),
}


class Arena:
    """A folder in which mixtures are put together: `run`, the data files beside it, and `new` data."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.intact: dict[str, Files] = {}
        self.changed: dict[str, list[bytes]] = {name: [] for name in DATA_FILES}

    def fill(self, files: Files) -> None:
        """Replace the arena's content."""
        for name in ("run", "out"):
            shutil.rmtree(self.folder / name, ignore_errors=True)
        (self.folder / "run").mkdir()
        for name in RUN_FILES:
            if name in files:
                (self.folder / "run" / name).write_bytes(files[name])
        for name in DATA_FILES:
            (self.folder / name).unlink(missing_ok=True)
            if name in files:
                (self.folder / name).write_bytes(files[name])

    def keep(self, name: str) -> None:
        """Store the arena's run as the intact run `name`."""
        paths = [*(self.folder / "run" / each for each in RUN_FILES), *(self.folder / n for n in DATA_FILES)]
        self.intact[name] = {path.name: path.read_bytes() for path in paths if path.is_file()}

    def answer(self, check: Check, files: Files) -> str:
        """Return the outcome of a command on these files: "refused", a digest of its answer, or a fault."""
        self.fill(files)
        new = "new.npz" if b"npz" in files.get("config.yaml", b"").partition(b"task: ")[2][:4] else "new.csv"
        words = [str(self.folder / word) if word in ("run", "out") else word for word in check.words]
        status, out, err = call(*(str(self.folder / new) if word == "new" else word for word in words))
        if status == 2 and len(err.splitlines()) == 1:
            return "refused"
        if status != 0:
            return f"ends with {status} and: {err[-300:]}"
        written = self.folder / check.writes
        paths = [] if not check.writes else [written] if written.is_file() else sorted(written.rglob("*"))
        content = [path.read_bytes() for path in paths if path.is_file()]
        printed = "" if check.writes else out
        return hashlib.sha256(repr((printed, content)).encode()).hexdigest()


def fuzz_mixtures(folder: Path, count: int, seed: int = 0) -> tuple[dict[str, int], list[str]]:
    """Run commands on `count` mixtures; return their outcomes, and what went wrong."""
    torch.set_num_threads(1)
    arena = make_arena(folder)
    expected = {
        (name, run): arena.answer(check, files)
        for name, check in CHECKS.items()
        for run, files in arena.intact.items()
    }
    rng = random.Random(seed)
    mixtures = [_mix(arena, rng) for _ in range(count)]
    names = [_draw_check(rng, files) for _, files in mixtures]
    outcomes = run_limited(
        [_case(arena, CHECKS[name], files) for name, (_, files) in zip(names, mixtures, strict=True)]
    )
    tally = {"same": 0, "refused": 0, "wrong": 0}
    wrong = [f"{name} on the intact run {run}: {end}" for (name, run), end in expected.items() if " " in end]
    for name, (how, files), outcome in zip(names, mixtures, outcomes, strict=True):
        owners = _owners(arena, CHECKS[name], files)
        answers = {expected[name, run] for run in owners}
        if outcome == "refused" and not any(files == arena.intact[run] for run in owners):
            tally["refused"] += 1
        elif outcome in answers:
            tally["same"] += 1
        else:
            tally["wrong"] += 1
            end = outcome if " " in outcome or outcome == "refused" else "answers without a word"
            wrong.append(f"{name} on {how}: {end}")
    return tally, wrong


def _draw_check(rng: random.Random, files: Files) -> str:
    name = rng.choice(list(CHECKS))
    # ONNX exports the models that exist, and every intact run has two.
    complete = all(each in files for each in (*LOADED, INTEGER))
    return name if name != "export --to onnx" or complete else "export --to c"


def _case(arena: Arena, check: Check, files: Files) -> Callable[[], str]:
    return lambda: arena.answer(check, files)


def _owners(arena: Arena, check: Check, files: Files) -> list[str]:
    """Return the intact runs that have every file that the command reads."""
    return [
        run
        for run, intact in arena.intact.items()
        if all(files.get(name) == intact.get(name) for name in _reads(check, files, _data_of(intact)))
    ]


def _reads(check: Check, files: Files, data: str) -> list[str]:
    reads = check.reads
    if check.words[0] in ("eval", "predict") and "run.json" not in files:
        reads = ("run.json", INTEGER)  # the folder of a detector
    elif "export" in check.words and INTEGER not in files:
        reads = (*LOADED, "data")  # quantizes first
    elif "c" in check.words and "model.safetensors" not in files:
        reads = (INTEGER,)  # an integer model alone is enough for C
    if "--resume" in check.words and "resume.safetensors" not in files:
        reads = ("config.yaml", "run.json", "data")  # starts again
    return [data if name == "data" else name for name in reads]


def _data_of(files: Files) -> str:
    return "mine.npz" if b"mine.npz" in files.get("config.yaml", b"") else "mine.csv"


def _mix(arena: Arena, rng: random.Random) -> tuple[str, Files]:
    """Return a run with some of its files exchanged, removed or changed, and a line about it."""
    run = rng.choice(list(arena.intact))
    files = dict(arena.intact[run])
    steps = []
    for names in rng.sample(GROUPS, rng.randint(1, 3)):
        other = rng.choice(list(arena.intact))
        if names[0] in DATA_FILES and rng.random() < 0.7:
            number = rng.randrange(len(arena.changed[names[0]]))
            files[names[0]] = arena.changed[names[0]][number]
            steps.append(f"{names[0]} changed ({number})")
            continue
        source = arena.intact[other] if rng.random() < 0.9 else {}
        for name in names:
            files.pop(name, None)
            if name in source:
                files[name] = source[name]
        steps.append(f"{' and '.join(names)} of {other if source else 'nothing'}")
    return f"{run} with {', '.join(steps)}", files


def call(*words: str) -> tuple[int, str, str]:
    """Run a command in this process and return its status and output."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = cli.main(list(words))
        except SystemExit as stop:
            status = int(str(stop.code or 0))
    return status, out.getvalue(), err.getvalue()


def make_arena(folder: Path) -> Arena:
    """Train runs that differ in seed, data, progress and kind of data, and change their data in many ways."""
    arena = Arena(folder)
    table, arrays = _table(), _arrays()
    (folder / "new.csv").write_text(table)
    (folder / "new.npz").write_bytes(arrays)
    shifted, scaled = _table(gain=3.0, offset=50.0), _arrays(gain=3.0)
    trainings = {
        "csv": (table, arrays, "mine.csv", 0),
        "csv with another seed": (table, arrays, "mine.csv", 1),
        "csv with other data": (shifted, scaled, "mine.csv", 0),
        "npz": (table, arrays, "mine.npz", 0),
        "npz with other data": (shifted, scaled, "mine.npz", 0),
        "bands": (table, arrays, "mine.csv", 0),
    }
    for name, (csv_text, npz_bytes, source, seed) in trainings.items():
        arena.fill({"mine.csv": csv_text.encode(), "mine.npz": npz_bytes})
        (folder / "run").rmdir()
        reading = [] if source == "mine.npz" else BANDS if name == "bands" else WINDOWS
        words = ["train", str(folder / source), *reading, "--out", str(folder / "run"), "--seed", str(seed)]
        sizes = ["--hidden-size", "32", "--learning-rate", "0.01", "--epochs", "6", "--threads", "1"]
        _must(*words, *sizes, "--quiet")
        _must("quantize", str(folder / "run"))
        arena.keep(name)
        if name in ("csv", "bands"):
            _must("tune", str(folder / "run"), str(folder / "new.csv"), *LOOSE, *RATE)
            arena.keep(f"{name}, tuned")
    _keep_models_without_runs(arena, table)
    arena.fill({"mine.csv": table.encode(), "mine.npz": arrays})
    _stop_halfway(arena.intact["csv with another seed"]["config.yaml"], folder)
    arena.keep("csv with another seed, half-trained")
    arena.changed["mine.csv"] = [each.encode() for each in _changed_tables(table)]
    arena.changed["mine.npz"] = _changed_arrays()
    return arena


def _keep_models_without_runs(arena: Arena, table: str) -> None:
    """Keep the folder of a detector, and a reservoir in the place of a run's integer network."""
    arena.fill({"mine.csv": table.encode()})
    (arena.folder / "run").rmdir()
    normal = [
        str(arena.folder / "mine.csv"),
        "--columns",
        "force",
        "--goal",
        "anomaly",
        "--hidden-size",
        "16",
    ]
    _must("train", *normal, "--out", str(arena.folder / "run"), "--threads", "1", "--quiet")
    arena.keep("detector")
    with np.load(io.BytesIO(_arrays())) as arrays:
        reservoir = HadamRNNClassifier(random_state=0).fit(arrays["x"], arrays["y"]).quantize()
    arena.fill({"mine.csv": table.encode()})
    reservoir.save(arena.folder / "run" / INTEGER)
    arena.keep("reservoir")


def _stop_halfway(config: bytes, folder: Path) -> None:
    """Train and quantize a run that was stopped after its first epoch."""
    (folder / "config.yaml").write_bytes(config)
    asked = itertools.count(1)
    (folder / "run").rmdir()
    settings = read_config(folder / "config.yaml")
    train(settings, folder / "run", RunOptions(stop=lambda: next(asked) >= STOP_AFTER))
    _must("quantize", str(folder / "run"))


def _must(*words: str) -> None:
    status, _, err = call(*words)
    assert status == 0, err


def _table(gain: float = 1.0, offset: float = 0.0) -> str:
    rng = np.random.default_rng(0)
    rows = [
        f"{gain * (np.sin(step / pace) + 0.3 * rng.normal()) + offset:.4f},{kind}"
        for kind, pace in (("slow", 3.0), ("fast", 1.7))
        for step in range(480)
    ]
    return "\n".join(["force,kind", *rows]) + "\n"


def _changed_tables(table: str) -> list[str]:
    header, *rows = table.splitlines()
    values = [float(row.partition(",")[0]) for row in rows]
    kinds = [row.partition(",")[2] for row in rows]

    def joined(values: list[float], kinds: list[str], head: str = header) -> str:
        pairs = zip(values, kinds, strict=True)
        return "\n".join([head, *(f"{value:.4f},{kind}" for value, kind in pairs)]) + "\n"

    return [
        joined([1000 * value for value in values], kinds),
        joined([value + 1 for value in values], kinds),
        joined([-value for value in values], kinds),
        joined(values, ["quick" if kind == "fast" else kind for kind in kinds]),
        joined(values, [{"fast": "slow", "slow": "fast"}[kind] for kind in kinds]),
        joined(values + values[:40], kinds + ["idle"] * 40),
        joined(values[:-1], kinds[:-1]),
        joined(values[320:] + values[:320], kinds[320:] + kinds[:320]),
        joined(values, kinds, "torque,kind"),
        joined([values[0] + 0.001, *values[1:]], kinds),
    ]


def _arrays(gain: float = 1.0) -> bytes:
    rng = np.random.default_rng(1)
    y = np.arange(60) % 3
    x = gain * (np.sin(np.arange(12) / (1 + y[:, None])) + 0.1 * rng.normal(size=(60, 12)))[:, :, None]
    return _saved(x.astype(np.float32), y)


def _changed_arrays() -> list[bytes]:
    with np.load(io.BytesIO(_arrays())) as arrays:
        x, y = arrays["x"], arrays["y"]
    order = np.roll(np.arange(60), 1)
    return [
        _saved(1000 * x, y),
        _saved(x + 1, y),
        _saved(x, (y + 1) % 3),
        _saved(x, y + 1),
        _saved(x, np.where(np.arange(60) < 4, 3, y)),
        _saved(x[:-1], y[:-1]),
        _saved(x[order], y[order]),
        _saved(x, np.array(["a", "b", "c"])[y]),
        _saved(x[:, :-1], y),
    ]


def _saved(x: np.ndarray, y: np.ndarray) -> bytes:
    content = io.BytesIO()
    np.savez(content, x=x, y=y)
    return content.getvalue()

"""Any command line ends with exit status 0, or with 2 and one line; no command hangs or crashes.

Hostile lines are small valid commands with hostile words inserted.
"""

from __future__ import annotations

import json
import random
import shlex
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch

from hadamrnn.cli import main
from hadamrnn.files import INTEGER_FILE
from hadamrnn.run import train
from hadamrnn.training.config import OPTIONS, resolve_config
from tests.conftest import Command

SECONDS = 5
WORDS = (
    *("", " ", "-1", "0", "1", "1.5", "1e30", "1e-300", "1e300", "nan", "inf", "-inf", "1000000000"),
    *("1000000000000", "9" * 400, "0x_", "0x10", "1_0", "2020-13-45", "[", "{a: b", "&a [*a]"),
    *("none", "true", "ternary", "\ud800", "a\x00b", "a\nb", "%s", "../..", "~", "=", "a=", "=a", "a=["),
)
TASK_OPTIONS = ("delay", "sentence_length", "train_size", "test_size", "seed", "path", "nothing")
SETTINGS = [
    "--" + name.replace("_", "-")
    for name, setting in OPTIONS.items()
    if name != "preset" and setting.type != "bool"
]
TRAIN = (
    *"train copy --quiet --threads 1 --steps 1 --batch-size 2 --hidden-size 8".split(),
    *(f"--task-option={name}=4" for name in ("train_size", "validation_size", "test_size", "delay")),
)
COST = tuple("cost --hidden-size 16 --input-size 2 --output-size 3".split())
QUANTIZE = ("quantize", "RUN")
COMMANDS: dict[tuple[str, ...], list[str]] = {
    TRAIN: [*SETTINGS, "--preset", "--config", "--model-option", "--checkpoint-seconds", "--data-dir"],
    COST: [
        *("--hidden-size", "--input-size", "--output-size", "--num-layers", "--num-blocks", "--weight-bits"),
        *("--activation-bits", "--vocabulary-size", "--model", "--model-option"),
    ],
    ("eval", "RUN"): ["--threads", "--split", "--data-dir", "--page"],
    ("predict", "RUN", "DATA"): ["--threads", "--out"],
    ("report", "--results", "EMPTY", "--out", "OUT"): ["--results"],
    ("models",): ["--out"],
    ("reproduce", "results", "--list"): ["--rows", "--preset", "--seed", "--budget", "--set", "--threads"],
    ("search", "copy"): ["--max-bytes", "--trials", "--minutes", "--steps", "--seed", "--task-option"],
    ("bench", "training"): ["--shapes", "--model"],
    ("bench", "inference"): ["--shapes", "--rounds"],
    ("bench", "edge"): ["--out"],
    ("bench", "estimators", "--sets", "nothing"): ["--sets", "--seeds", "--out"],
    QUANTIZE: [
        *("--activation-bits", "--input-bits", "--percentile", "--calibration-samples", "--raw-unit"),
        *("--finetune-steps", "--split", "--threads", "--data-dir"),
    ],
    ("export", "RUN", "--out", "OUT"): ["--to", "--out", "--name", "--golden", "--data-dir"],
    ("demo", "--epochs", "0"): ["--seed", "--out"],
    ("doctor",): ["--json"],
}


@contextmanager
def time_limit() -> Iterator[None]:
    def late(number: int, frame: object) -> None:
        raise TimeoutError(f"more than {SECONDS} seconds")

    previous = signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "copy"
    options = {"delay": 4, "train_size": 4, "validation_size": 4, "test_size": 4}
    given = {"task_options": options, "steps": 1, "batch_size": 2, "hidden_size": 8, "threads": 1}
    train(resolve_config("copy", overrides=given), out)
    assert main(["quantize", str(out), "--json"]) == 0
    return out


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that classifies and has no integer network."""
    out = tmp_path_factory.mktemp("runs") / "digits"
    train(resolve_config("digits", overrides={"steps": 1, "hidden_size": 8, "threads": 1}), out)
    return out


@pytest.fixture(autouse=True)
def own_threads() -> Iterator[None]:
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def hostile_lines(count: int) -> list[tuple[str, ...]]:
    """Return drawn command lines, the same every time."""
    draw = random.Random(0)
    lines = []
    for _ in range(count):
        base = draw.choice([TRAIN, COST, QUANTIZE, *COMMANDS])
        word = draw.choice(WORDS)
        option = draw.choice(COMMANDS[base])
        extra: tuple[str, ...] = (option, word)
        if base == TRAIN and draw.random() < 0.4:
            extra = ("--task-option", f"{draw.choice(TASK_OPTIONS)}={word}")
        lines.append((*base, *extra))
    return lines


@pytest.mark.parametrize("number", range(260))
def test_a_hostile_command_line_ends_with_0_or_with_one_line_and_2(
    number: int, command: Command, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("hadamrnn_benchmarks.edge.run_edge", lambda: ([], []))  # takes minutes
    np.savez(tmp_path / "data.npz", x=np.zeros((2, 24), np.int64))
    (tmp_path / "empty").mkdir()
    places = {"RUN": str(run), "DATA": "data.npz", "EMPTY": "empty", "OUT": "out"}
    line = [places.get(word, word) for word in hostile_lines(260)[number]]
    if line[0] == "train":
        line += ["--out", "run"]

    with time_limit():
        answer = command(*line)

    assert answer.status in (0, 2), (line, answer)
    if answer.status == 2:
        assert answer.err.count("\n") == 1 and "Traceback" not in answer.err, (line, answer)


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ((*TRAIN, "--hidden-size", "1000000000"), "--hidden-size must lie in 1..32768, got 1000000000"),
        ((*TRAIN, "--hidden-size", "1e30"), "--hidden-size must be int"),
        ((*TRAIN, "--num-layers", "1000000000"), "--num-layers must lie in 1..64"),
        ((*TRAIN, "--hidden-size", "32768", "--num-layers", "64"), "must fit into"),
        ((*TRAIN, "--task-option", "seed=["), "seed must be int, got '['"),
        ((*TRAIN, "--task-option", "seed=-1"), "seed must lie in 0..4294967295, got -1"),
        ((*TRAIN, "--task-option", "delay=abc"), "delay must be int, got 'abc'"),
        ((*TRAIN, "--task-option", "delay=1.5"), "delay must be int, got '1.5'"),
        ((*TRAIN, "--task-option", "delay=1000000000000"), "delay must lie in 1..100000"),
        ((*TRAIN, "--task-option", "train_size=1000000000000"), "train_size must lie in"),
        ((*TRAIN, "--task-option", "train_size=1000000000"), "in 1..500000000, got"),
        ((*TRAIN, "--model-option", "a=["), "There is no setting 'a'"),
        ((*TRAIN, "--epochs", "2020-13-45"), "--epochs must be int or none"),
        ((*TRAIN, "--seed", "0x_"), "--seed must be int"),
        ((*COST, "--activation-bits", "0"), "activation_bits must lie in 2..16"),
        ((*COST, "--vocabulary-size", "-1"), "vocabulary_size must lie in 1"),
        ((*TRAIN, "--out", ""), "--out must name a file or folder, got ''"),
        (("eval", "RUN", "--threads", "1000000000"), "must lie in 1..1024"),
        ((*QUANTIZE, "--raw-unit", "1e300"), "--raw-unit must lie in (0, 3e+38], got '1e300'"),
        ((*QUANTIZE, "--raw-unit", "nan"), "--raw-unit must lie in (0, 3e+38], got 'nan'"),
        ((*QUANTIZE, "--raw-unit", "0"), "--raw-unit must lie in (0, 3e+38], got '0'"),
        (("export", "RUN", "--to", "pdf"), "--to must be one of c, arduino, js, page, onnx, got 'pdf'"),
        (("bench", "estimators", "--seeds", "0"), "--seeds must lie in 1..1000"),
    ],
)
def test_a_value_out_of_range_is_refused_by_its_rule(
    line: tuple[str, ...], rule: str, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with time_limit():
        answer = command(*line, *(() if line[0] != "train" or "--out" in line else ("--out", "run")))

    assert answer.status == 2 and rule in answer.err and answer.err.count("\n") == 1, answer
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("cost RUN --hidden-size 64", "--hidden-size has no effect with a RUN"),
        ("cost RUN --input-size 3", "--input-size has no effect with a RUN"),
        ("cost RUN --one-hot", "--one-hot has no effect with a RUN"),
        ("cost RUN --model-option rank=3", "--model-option has no effect with a RUN"),
        (f"{' '.join(COST)} --one-hot --vocabulary-size 9", "--one-hot has no effect with --vocabulary-size"),
        ("eval RUN data.npz --split train", "--split has no effect with a FILE"),
        ("eval RUN data.npz --data-dir .", "--data-dir has no effect with a FILE"),
        ("eval RUN --layout time-first", "--layout has no effect without a FILE"),
        ("eval RUN --page page.html", "predicts neither classes nor values"),
        ("quantize RUN --finetune-steps 7", "--finetune-steps has no effect without --finetune"),
        ("export RUN --report --name digits", "--name has no effect without --out"),
        ("export RUN --out c --to js --unpacked", "--unpacked has no effect on --to js"),
        ("export RUN --out c --to onnx --golden data", "--golden has no effect on --to onnx"),
        ("reproduce memorization --list", "--list has no effect on memorization"),
        ("reproduce memorization --preset best", "--preset has no effect on memorization"),
        ("reproduce memorization --seed 0 --seed 1", "memorization takes one --seed"),
        ("reproduce results --list --preset bset", "A preset must be one of paper, best, quick, got 'bset'"),
        ("bench training --hidden-size 64", "--hidden-size has no effect without --model"),
        ("bench training --out a.svg", "--out has no effect without --scaling"),
        ("bench training --model gru --scaling", "--scaling has no effect with --model"),
        ("bench training --scaling --shapes mnist", "--shapes has no effect with --scaling"),
        ("train data.npz --task-option path=b.npz --out a", "TASK is the path, 'data.npz'"),
        ("train digits --task-option =4 --out a", "--task-option must be NAME=VALUE, got '=4'"),
        ("train digits --preset '' --out a", "--preset must not be empty"),
        ("train log.csv --label '' --out a", "--label must not be empty"),
        ("search digits --max-bytes 300 --study ''", "--study must not be empty"),
    ],
)
def test_an_option_that_would_be_ignored_is_refused(
    line: str, rule: str, command: Command, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with time_limit():
        answer = command(*(str(run) if word == "RUN" else word for word in shlex.split(line)))

    assert answer.status == 2 and rule in answer.err and answer.err.count("\n") == 1, answer
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "line",
    [
        "eval DIGITS --page FILE",
        "predict DIGITS data.npz --force --out FILE",
        "bench edge --out FILE",
        "bench estimators --out FILE",
        "bench estimators --keep FILE",
        "bench training --scaling --out FILE",
    ],
)
@pytest.mark.parametrize("file", ["nowhere/a.svg", ".", "mine.svg"])
def test_a_file_that_cannot_be_written_is_refused_before_the_work(
    line: str, file: str, command: Command, digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.svg").write_text("a line of my own")
    places = {"DIGITS": str(digits), "FILE": file}
    with time_limit():
        answer = command(*(places.get(word, word) for word in line.split()))

    assert answer.status == 2 and answer.err.count("\n") == 1, answer
    assert Path("mine.svg").read_text() == "a line of my own" and len(list(tmp_path.iterdir())) == 1


def test_a_page_replaces_a_page_and_an_empty_file_alone(
    command: Command, digits: Path, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    page.touch()
    assert command("eval", digits, "--page", page).status == 0
    assert command("eval", digits, "--page", page).status == 0

    answer = command("eval", digits, "--page", digits / "config.yaml")
    assert answer.status == 2 and "replaces only what this command wrote" in answer.err
    assert command("eval", digits).status == 0


@pytest.mark.parametrize("refused", ["--name if", "--out TAKEN"])
def test_an_export_that_is_refused_leaves_the_run_alone(
    refused: str, command: Command, digits: Path, tmp_path: Path
) -> None:
    (tmp_path / "mine").touch()
    words = refused.replace("TAKEN", str(tmp_path)).split()
    answer = command("export", digits, "--out", tmp_path / "new", *words)

    assert answer.status == 2 and answer.out == "" and answer.err.count("\n") == 1
    assert not (digits / INTEGER_FILE).exists()


def test_no_control_character_of_a_run_reaches_the_terminal(
    command: Command, digits: Path, tmp_path: Path
) -> None:
    hostile = tmp_path / "run"
    shutil.copytree(digits, hostile)
    record = json.loads((hostile / "run.json").read_text())
    record["facts"]["class_names"][3] = "\x1b[2Jthree"
    record["versions"]["torch"] = "\x1b[2J\n1"
    (hostile / "run.json").write_text(json.dumps(record))

    for line in (("eval", hostile), ("quantize", hostile), ("train", "--resume", hostile)):
        answer = command(*line)
        assert answer.status == 2 and answer.err.count("\n") == 1, answer
        assert "\x1b" not in answer.out + answer.err


@pytest.mark.parametrize(
    "words", [("eval", "RUN"), ("train", "RUN.csv", "--out", "new"), ("RUN",), ("eval", "run", "--RUN")]
)
def test_no_control_character_of_a_command_line_reaches_the_terminal(
    words: tuple[str, ...], command: Command, tmp_path: Path
) -> None:
    (tmp_path / "\x1b[31m.csv").write_text("a\n")
    answer = command(*(word.replace("RUN", f"{tmp_path}/\x1b[31m") for word in words))

    assert answer.status == 2 and answer.err.count("\n") == 1
    assert "\\x1b[31m" in answer.err and "\x1b" not in answer.err

"""Command lines drawn from the parsers themselves: each ends with 0, or in one line with 2."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import random
from collections.abc import Callable
from pathlib import Path

import torch

from hadamrnn import cli
from hadamrnn.run import train
from hadamrnn.training.config import resolve_config
from tests.fuzz.worker import run_limited

HOSTILE = (
    *("", "0", "-1", "1", "3", "1.5", "1000000000", "1000000000000", "1e30", "1e300", "-1e300", "nan", "inf"),
    *("none", "x", "a=b", "seed=[", "seed=-1", "delay=abc", "delay=1.5", "delay=1000000000000"),
    *("train_size=1000000000000", "a=[", "2020-13-45", "0x_", "\udc80", "é", "/dev/null", "/", ".", "--"),
    *("ternary", "9" * 5000, "A" * 5000),
)
# Options whose large values are legitimate and only make a command run longer.
LENGTHS = ("epochs", "steps", "trials", "minutes", "finetune_steps", "budget", "samples", "repeats", "rounds")
LONG = {"bench", "demo", "search", "reproduce", "--finetune"}  # run long if nothing is wrong with them


def fuzz_commands(folder: Path, count: int, seed: int = 0) -> tuple[dict[str, int], list[str]]:
    """Run `count` command lines; return their outcomes, and what went wrong."""
    torch.set_num_threads(1)
    run = folder / "run"
    train(resolve_config("digits", overrides={"epochs": 1, "hidden_size": 8, "threads": 1}), run)
    draw = random.Random(seed)
    lines = [draw_line(draw, run) for _ in range(count)]
    outcomes = run_limited([_case(line, folder / f"line-{number}") for number, line in enumerate(lines)])
    tally = {"succeeded": 0, "refused": 0, "long": 0, "wrong": 0}
    wrong = []
    for line, outcome in zip(lines, outcomes, strict=True):
        if LONG & set(line) and outcome.startswith("hangs"):
            outcome = "long"
        tally[outcome if outcome in tally else "wrong"] += 1
        if outcome not in tally:
            wrong.append(f"{[word[:40] for word in line]}: {outcome}")
    return tally, wrong


def draw_line(draw: random.Random, run: Path) -> list[str]:
    """Return the words of a command: its positionals and a few options, hostile or sensible."""
    command = draw.choice(cli.COMMANDS)
    words = [command]
    actions = [each for each in _parser(command)._actions if not isinstance(each, argparse._HelpAction)]
    positionals = [each for each in actions if not each.option_strings]
    options = [each for each in actions if each.option_strings]
    for each in positionals:
        words += _values(draw, each, run) if each.nargs != "?" or draw.random() < 0.9 else []
    for each in [*draw.sample(options, min(len(options), draw.randrange(4)))]:
        words += [draw.choice(each.option_strings), *_values(draw, each, run)]
    if command == "train":
        words += ["--epochs", "1", "--out", "out", "--quiet"]
    return words


def _values(draw: random.Random, action: argparse.Action, run: Path) -> list[str]:
    if action.nargs == 0 or isinstance(action, argparse.BooleanOptionalAction):
        return []
    if action.choices and draw.random() < 0.7:
        return [str(draw.choice(list(action.choices)))]
    if not action.option_strings and draw.random() < 0.85:
        return ["digits" if action.dest == "task" else str(run)]
    return [draw.choice(("0", "-1", "1", "x", "") if action.dest in LENGTHS else HOSTILE)]


def _parser(command: str) -> argparse.ArgumentParser:
    for action in cli.build_parser()._actions:
        if isinstance(action, argparse._SubParsersAction):
            found: argparse.ArgumentParser = action.choices[command]
            return found
    raise AssertionError(command)


def _case(line: list[str], folder: Path) -> Callable[[], str]:
    """Run one command line in a new folder, in this process."""

    def case() -> str:
        folder.mkdir()
        os.chdir(folder)
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                status = cli.main(line)
            except SystemExit as stop:
                status = int(str(stop.code or 0))
        if status == 0:
            return "succeeded"
        if status == 2 and len(err.getvalue().splitlines()) == 1:
            return "refused"
        return f"ends with {status} and: {err.getvalue()[-300:]}"

    return case

"""Real processes: killed at random moments, starved of disk, and several at once under torchrun."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from hadamrnn.cli import main
from hadamrnn.errors import InputError
from hadamrnn.training.processes import join_processes

pytestmark = pytest.mark.slow

KILLS = 5
COPY = (
    *("train", "copy", "--preset", "best", "--steps", "400", "--evaluate-every", "50"),
    *("--hidden-size", "16", "--learning-rate", "0.01", "--sign-freeze-epoch", "2", "--threads", "1"),
    *("--task-option", "delay=10", "--task-option", "sentence_length=2", "--task-option", "train_size=6400"),
    *("--task-option", "validation_size=100", "--task-option", "test_size=10", "--quiet"),
)
DIGITS = (
    *(
        "train",
        "digits",
        "--preset",
        "quick",
        "--hidden-size",
        "8",
        "--steps",
        "50",
        "--evaluate-every",
        "25",
    ),
    *("--weight-bits", "none", "--sign-freeze-epoch", "0", "--dtype", "float64", "--threads", "1", "--quiet"),
)


def start(*arguments: str) -> multiprocessing.process.BaseProcess:
    """Run `hadamrnn ARGUMENTS` in a new process, forked from one that has imported torch."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["hadamrnn.run", "hadamrnn.cli"])
    process = context.Process(target=main, args=(list(arguments),))
    process.start()
    return process


def steps(run: Path) -> list[int]:
    return [json.loads(line)["step"] for line in (run / "metrics.jsonl").read_text().splitlines()]


def test_a_run_killed_at_random_moments_ends_with_the_same_bytes(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    start(*COPY, "--out", str(tmp_path / "warm"), "--steps", "1").join()
    began = time.monotonic()
    process = start(*COPY, "--out", str(whole))
    process.join()
    longest = 0.6 * (time.monotonic() - began)
    assert process.exitcode == 0

    deaths = 0
    while deaths < 2:  # a run may end before it is killed if the machine has become faster: then kill sooner
        killed = tmp_path / f"killed{longest}"
        deaths = kill_and_resume(killed, longest)
        assert (killed / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
        assert steps(killed) == steps(whole) == list(range(50, 401, 50))
        assert [path.name for path in killed.glob(".*")] == [".lock"]  # no half-written file
        longest /= 2


def kill_and_resume(folder: Path, longest: float) -> int:
    """Kill a run after random times up to `longest`, resume it until it ends, and count the deaths."""
    moments = random.Random(0)
    often = ("--quiet", "--checkpoint-seconds", "0.01")  # so that kills also hit half-written checkpoints
    deaths = 0
    while True:
        begun = (folder / "config.yaml").exists()
        arguments = ("train", "--resume", str(folder)) if begun else (*COPY, "--out", str(folder))
        process = start(*arguments, *often)
        if deaths < KILLS:
            process.join(moments.uniform(longest / 6, longest))
            process.kill()
        process.join()
        if process.exitcode == 0:
            return deaths
        assert process.exitcode == -9
        deaths += 1


def test_a_disk_that_fills_up_takes_one_line_and_the_run_goes_on_later(tmp_path: Path) -> None:
    """The kernel enforces the limit: no file of the process may grow past it."""
    run = tmp_path / "run"
    command = [sys.executable, "-m", "hadamrnn", *COPY, "--out", str(run), "--checkpoint-seconds", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        while not (run / "resume.safetensors").exists():
            assert process.poll() is None
            time.sleep(0.01)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (1000, 1000))
        _, errors = process.communicate()

    assert process.returncode == 2
    assert errors.count("\n") == 1 and "cannot be written (File too large)" in errors
    assert "is intact" in errors and f"hadamrnn train --resume {run}" in errors
    assert main(["train", "--resume", str(run), "--quiet"]) == 0
    assert steps(run) == list(range(50, 401, 50))


def test_two_processes_are_one_with_twice_the_batch(tmp_path: Path) -> None:
    two, one = tmp_path / "two", tmp_path / "one"
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    arguments = ["-m", "hadamrnn", *DIGITS, "--batch-size", "16", "--out", str(two)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*torchrun, *arguments], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("best validation") == 1  # only one process prints
    assert main([*DIGITS, "--batch-size", "32", "--out", str(one)]) == 0

    shared, alone = (load_file(run / "resume.safetensors") for run in (two, one))
    assert shared.keys() == alone.keys()
    for name in alone:
        torch.testing.assert_close(shared[name], alone[name], rtol=0, atol=1e-9)
    assert alone["model/readout.weight"].dtype == torch.float64
    assert steps(two) == [25, 50]


def test_a_count_of_processes_that_is_no_number_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "many")
    with pytest.raises(InputError, match=r"WORLD_SIZE .* 'many'"):
        join_processes("float32")

"""Memory that a command frees stays with its process, and idle threads leave the cores to others."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import TextIO

import pytest

from hadamrnn.cli import let_waiting_threads_sleep

PROGRAM = """
import resource, sys
import numpy as np
from hadamrnn.cli import keep_freed_memory

if sys.argv[1] == "keep":
    keep_freed_memory()

def step():
    return [np.ones(3 << 17) for _ in range(10)]  # 3 MB each

for _ in range(3):
    step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    step()
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / 5)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_a_step_that_repeats_itself_asks_the_system_for_no_pages() -> None:
    def page_faults(choice: str) -> float:
        command = [sys.executable, "-c", PROGRAM, choice]
        return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    assert page_faults("keep") < 100 < page_faults("leave")


@pytest.mark.parametrize(
    ("said", "spins"), [({}, "20000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "active"}, None)]
)
def test_waiting_threads_sleep_unless_the_user_says_otherwise(
    said: dict[str, str], spins: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "environ", dict(said))

    let_waiting_threads_sleep()

    assert os.environ.get("GOMP_SPINCOUNT") == spins
    assert os.environ.get("OMP_WAIT_POLICY") == said.get("OMP_WAIT_POLICY")


def test_a_command_says_so_before_it_loads_torch() -> None:
    program = """
import os, sys
os.environ.pop("GOMP_SPINCOUNT", None)
os.environ.pop("OMP_WAIT_POLICY", None)
from hadamrnn import cli
seen = []
class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            seen.append(os.environ.get("GOMP_SPINCOUNT"))
sys.meta_path.insert(0, Watch())
cli.main(["doctor"])
print(seen)
"""
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    assert said.splitlines()[-1] == "['20000']"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("words", [("models",), ("cost", "--help")])
def test_a_full_disk_is_one_line_and_exit_status_2(words: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        answer = run_buffered(*words, stdout=full)

    assert answer.returncode == 2
    assert answer.stderr.endswith("No space left on device\n") and answer.stderr.count("\n") == 1


@pytest.mark.parametrize("words", [("models",), ("cost", "--help")])
def test_a_reader_that_has_seen_enough_is_no_error(words: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as pipe:
        answer = run_buffered(*words, stdout=pipe)

    assert (answer.returncode, answer.stderr) == (0, "")


def run_buffered(*words: str, stdout: TextIO) -> subprocess.CompletedProcess[str]:
    """Run a command whose output is written when it ends, as is usual for a file or a pipe."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-m", "hadamrnn", *words]
    return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, env=environment)

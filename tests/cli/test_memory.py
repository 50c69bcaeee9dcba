"""What a command frees stays with its process."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
import numpy as np
from hadamrnn.cli.memory import keep_freed_memory

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

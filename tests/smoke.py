"""Smoke test of an installed package: train, quantize, export and compile C, away from the repository.

Run it with the Python that the package is installed into: `python tests/smoke.py`. It needs the package and
its dependencies only. The kernels are tried at every instruction set that the processor has.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

INSTRUCTION_SETS = ("baseline", "avx2", "avx512")
LIBRARY_COMMANDS = ("train", "eval", "quantize", "export", "predict", "cost", "models", "doctor")
FOREIGN_COMMANDS = ("reproduce", "report", "bench")  # from other packages of the repository


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    """Return the standard output of a command that must succeed."""
    words = [str(part) for part in command]
    result = subprocess.run(
        words, capture_output=True, text=True, cwd=cwd, env={**os.environ, **environment}, check=False
    )
    if result.returncode:
        raise SystemExit(f"{' '.join(words)} failed:\n{result.stdout}{result.stderr}")
    return result.stdout


def hadamrnn(folder: Path, *words: str, **environment: str) -> str:
    """Return the output of a command of the installed package; nothing beside the script is imported."""
    return run(sys.executable, "-I", "-m", "hadamrnn", *words, cwd=folder, **environment)


def available_sets(folder: Path) -> list[str]:
    """Return the instruction sets that the installed kernels offer on this processor."""
    found = []
    for name in INSTRUCTION_SETS:
        words = [sys.executable, "-I", "-m", "hadamrnn", "doctor", "--json"]
        result = subprocess.run(
            words,
            capture_output=True,
            text=True,
            cwd=folder,
            env={**os.environ, "HADAMRNN_ISA": name},
            check=False,
        )
        if result.returncode == 0 and json.loads(result.stdout)["instruction_set"] == name:
            found.append(name)
    return found


def smoke(folder: Path) -> dict[str, Any]:
    """Return the results of the package in the empty `folder`; exit with the output of a failed command."""
    facts = json.loads(hadamrnn(folder, "doctor", "--json"))
    commands = hadamrnn(folder, "--help")
    missing = [name for name in LIBRARY_COMMANDS if name not in commands]
    foreign = [name for name in FOREIGN_COMMANDS if name in commands]
    if missing or foreign:
        raise SystemExit(f"hadamrnn --help lacks {missing} and lists {foreign}.")
    hadamrnn(folder, "train", "digits", "--epochs", "2", "--hidden-size", "16", "--quiet", "--out", "run")
    hadamrnn(folder, "quantize", "run", "--json")
    hadamrnn(folder, "export", "run", "--to", "c", "--name", "digits", "--out", "c")
    compiled = bool(shutil.which("cc") and shutil.which("make"))
    if compiled:
        run("make", "-C", folder / "c", "test", cwd=folder)
    sets = available_sets(folder) if facts["backend"] == "native" else []
    evaluate = ("eval", "run", "--integer", "--json")
    figures = {name: hadamrnn(folder, *evaluate, HADAMRNN_ISA=name) for name in sets}
    if len(set(figures.values())) > 1:
        raise SystemExit(f"The instruction sets disagree: {figures}")
    return {
        "version": facts["hadamrnn"],
        "backend": facts["backend"],
        "instruction_sets": sets,
        "c": compiled,
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        print(json.dumps(smoke(Path(name))))

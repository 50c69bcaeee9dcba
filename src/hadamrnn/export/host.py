"""The exported C on this machine: compile it, feed it sequences, read the classes it prints."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hadamrnn.errors import InputError
from hadamrnn.export.c import render, source_files
from hadamrnn.fixedpoint.model import IntegerModel

COMPILER = "cc"
NAME = "net"
TIMEOUT = 600  # seconds


def has_compiler() -> bool:
    return shutil.which(COMPILER) is not None


def classify_on_host(model: IntegerModel, inputs: ArrayLike, *, packed: bool = True) -> NDArray[np.int64]:
    """Return the class that the compiled C finds for each sequence; needs a C compiler.

    Args:
        inputs: raw codes `(batch, time, input_size)` for dense models, `(batch, time)` ids for the others.
    """
    sequences: NDArray[Any] = np.asarray(inputs)
    if sequences.dtype.kind not in "iu" or sequences.ndim != (3 if model.input_kind == "dense" else 2):
        raise InputError(
            f"Sequences must be integer codes (batch, time, ...), got {sequences.dtype} of {sequences.shape}."
        )
    if not has_compiler():
        raise InputError(f"Running C needs a C compiler, and there is no {COMPILER}. Install gcc or clang.")
    with tempfile.TemporaryDirectory(prefix="hadamrnn-") as scratch:
        folder = Path(scratch)
        for file, text in source_files(model, NAME, packed=packed).items():
            (folder / file).write_text(text)
        (folder / "host.c").write_text(render("host.c.j2", name=NAME, model=model))
        _run([COMPILER, "-std=c99", "-O2", f"{NAME}.c", "host.c", "-o", "host"], folder)
        numbers = " ".join(map(str, sequences.reshape(-1).tolist()))
        printed = _run([str(folder / "host"), str(sequences.shape[1])], folder, numbers)
    return np.array(printed.split(), np.int64)


def _run(command: list[str], folder: Path, text: str = "") -> str:
    result = subprocess.run(
        command, cwd=folder, input=text, capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    if result.returncode:
        raise InputError(f"{Path(command[0]).name} failed: {result.stderr.strip()[:300] or 'no message'}.")
    return result.stdout

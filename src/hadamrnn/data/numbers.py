"""Text tables of numbers, as UCI distributes its sensor recordings."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hadamrnn.errors import InputError


def read_numbers(path: Path, delimiter: str | None = None) -> NDArray[np.float32]:
    """Return the table `(lines, numbers per line)`; the default delimiter is white space."""
    if not path.is_file():
        raise InputError(f"{path} is missing. Unpack the published archive again.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # an empty file: its shape tells the caller
            return np.loadtxt(path, np.float32, delimiter=delimiter, ndmin=2)
    except ValueError as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise InputError(f"{path} must be a table of numbers: {reason}.") from error

"""What a live page plays: test sequences of a task as an integer network reads them."""

from __future__ import annotations

import torch

from hadamrnn.data import Splits
from hadamrnn.errors import InputError
from hadamrnn.export.page import DrawingPad, Stored, stored_rows
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.quantization.network import input_codes


def stored_sequences(model: IntegerModel, splits: Splits) -> Stored:
    """Return test sequences, evenly spaced over the test set, as many as a page holds."""
    rows = torch.from_numpy(stored_rows(model, len(splits.test), splits.seq_length))
    x, y, lengths = splits.test.batch(rows)
    if y is None:
        raise InputError(f"A page needs labels, and those of {splits.task}'s test set are private.")
    return Stored(input_codes(model, x)[0], y.numpy(), None if lengths is None else lengths.numpy())


def drawing_pad(model: IntegerModel, splits: Splits) -> DrawingPad | None:
    """Return a pad for a task that reads images, None for the others."""
    image, levels = splits.image, splits.levels
    if image is None or levels is None:
        return None
    pixels = torch.arange(levels + 1).reshape(-1, 1, 1) / levels
    codes = input_codes(model, pixels)[0].reshape(-1)
    return DrawingPad(image.side, codes, image.box, image.pen, image.by_mass, image.order)

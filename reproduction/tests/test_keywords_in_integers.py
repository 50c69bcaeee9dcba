"""The integer front end costs no accuracy: keywords are recognised as well as with a float64 front end."""

from __future__ import annotations

import os

import numpy as np
import pytest

from hadamrnn.data.files import fetch
from hadamrnn.fixedpoint import Engine, encode_raw
from hadamrnn.front_end.description import CODES_PER_OCTAVE
from hadamrnn.front_end.reference import compute_bands
from hadamrnn.models import find
from hadamrnn_paper.data.keywords import FILES, FRONT_END, expand
from tests.front_end.test_bits import float_bands

LARGEST_LOSS = 0.003  # share of the clips


@pytest.mark.slow
@pytest.mark.skipif("HADAMRNN_DATA" not in os.environ, reason="HADAMRNN_DATA names the folder of real data")
@pytest.mark.parametrize("name", ["keywords-5kb", "keywords-16kb"])
def test_the_integer_front_end_loses_at_most_03_points_of_keywords(name: str) -> None:
    with np.load(fetch(FILES["sound"], None)) as arrays:
        clips, labels = expand(arrays["x_test"]), arrays["y_test"]
    model = find(name).load()
    bands = {
        "integers": np.stack([compute_bands(FRONT_END, clip) for clip in clips]),
        "float64": np.stack([np.rint(CODES_PER_OCTAVE * float_bands(FRONT_END, clip)) for clip in clips]),
    }
    right = {}
    for kind, codes in bands.items():
        inputs, _ = encode_raw(model, codes.astype(np.int32))
        right[kind] = float(np.mean(Engine(model).run(inputs).logits.argmax(1) == labels))

    assert right["integers"] >= right["float64"] - LARGEST_LOSS, right

"""Frama-C's Eva on the runtime: no overflow and no access out of bounds, for all states, inputs and weights.

Eva bounds every value of every run at once. `make prove` installs it (Debian: frama-c-base) and runs these.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hadamrnn.errors import InputError
from hadamrnn.fixedpoint.integers import signed_range
from hadamrnn.fixedpoint.layer import weight_range
from hadamrnn.fixedpoint.model import IntegerModel
from tests.export.programs import write_sources
from tests.export.proof import proof_program, symbolic_weights
from tests.family_models import family_model

SMALL: dict[str, Any] = {
    "input_size": 2,
    "output_size": 2,
    "num_blocks": 1,
    "recurrence": "linear",
    "activation_bits": 12,
}
KINDS: dict[str, dict[str, Any]] = {
    "one layer": {
        "activation_bits": 16,
        "layer_sizes": (8,),
        "readouts": ("last",),
        "leak": (),
        "input_kind": "dense",
    },
    "relu": {"layer_sizes": (8,), "recurrence": "relu", "leak": (), "input_kind": "dense"},
    "order 12": {"layer_sizes": (12,), "leak": (2,), "input_kind": "dense", "readouts": ("last",)},
    "one hot": {"layer_sizes": (4,), "input_kind": "one_hot", "leak": ()},
    "embedded": {"layer_sizes": (4,), "input_kind": "embedded", "vocabulary_size": 5, "leak": (1,)},
    "leaky pools": {
        "layer_sizes": (8,),
        "leak": (1,),
        "readouts": ("mean", "positive", "max", "last"),
        "thresholds": 2,
        "every_output": False,
    },
    "pools that never forget": {
        "layer_sizes": (8,),
        "leak": (),
        "readouts": ("mean", "max"),
        "thresholds": 0,
    },
    "stack": {
        "layer_sizes": (8, 8),
        "normalize": True,
        "skip": True,
        "stride": 1,
        "input_kind": "dense",
        "input_size": 8,
        "leak": (1,),
    },
    "stack with a stride": {
        "layer_sizes": (4, 4, 4),
        "normalize": True,
        "stride": 2,
        "skip": False,
        "leak": (),
        "input_kind": "dense",
        "readouts": ("mean",),
    },
}


pytestmark = pytest.mark.prove
# Eva finds no alarm in the runtime, but cannot show alone that sums over steps remain bounded.
SUMS_NOT_BOUNDED = ("leaky pools", "stack with a stride")


def prove(folder: Path) -> str:
    """Return what Eva could not prove, one alarm per line."""
    if shutil.which("frama-c") is None and not os.environ.get("HADAMRNN_PROVE"):
        pytest.skip("no frama-c installed: make prove installs it")
    libc = subprocess.run(["frama-c", "-print-share-path"], capture_output=True, text=True, check=True).stdout
    command = [
        *("frama-c", "-machdep", "gcc_x86_32", f"-cpp-extra-args=-std=c99 -I{libc.strip()}/libc", "-eva"),
        *(
            "-eva-precision",
            "2",
            "-eva-min-loop-unroll",
            "40",
            "-eva-auto-loop-unroll",
            "300",
            "-warn-signed-overflow",
            str(folder / "proof.c"),
        ),
    ]
    said = subprocess.run(command, cwd=folder, capture_output=True, text=True).stdout
    found = [line for line in said.splitlines() if "[eva:alarm]" in line or "NON TERMINATING" in line]
    assert "ANALYSIS SUMMARY" in said, said[-2000:]
    assert bool(found) != ("\n  0 alarms generated" in said), said[-2000:]
    return "\n".join(found)


def extreme(model: IntegerModel) -> IntegerModel:
    """Return the network with all data at the ends of their ranges; raise if a sum could overflow then."""
    low, _ = signed_range(model.activation_bits)
    weight = weight_range(model.weight_bits)[0]

    def filled(array: Any, value: int) -> Any:
        return None if array is None else np.full_like(array, value)

    layers = [
        replace(
            layer,
            input_weight_int=filled(layer.input_weight_int, weight),
            input_bias_int=filled(layer.input_bias_int, low),
            gain_int=filled(layer.gain_int, low),
            offset_int=filled(layer.offset_int, low),
        )
        for layer in model.layers
    ]
    return replace(
        model,
        layers=tuple(layers),
        output_weight_int=filled(model.output_weight_int, weight),
        output_bias_int=filled(model.output_bias_int, low),
        thresholds_int=filled(model.thresholds_int, low),
    )


def write_proof(folder: Path, kind: str) -> None:
    """Write a program for all networks of the size of a drawn one."""
    rng = np.random.default_rng(11)
    while True:
        model = family_model(rng, weight_bits=4, **{**SMALL, **KINDS[kind]})
        try:
            extreme(model)
        except InputError:  # some data of these sizes and shifts could overflow: draw again
            continue
        break
    write_sources(folder, model, "net")
    weights = folder / "net_weights.h"
    weights.write_text(symbolic_weights(weights.read_text()))
    (folder / "proof.c").write_text(proof_program(model))


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_is_defined_for_every_state_and_every_input(kind: str, tmp_path: Path) -> None:
    write_proof(tmp_path, kind)
    alarms = prove(tmp_path).splitlines()

    if kind in SUMS_NOT_BOUNDED:
        alarms = [alarm for alarm in alarms if "proof.c" not in alarm]
    assert alarms == []


@pytest.mark.parametrize(
    ("kind", "sound", "broken"),
    [
        ("stack", r"i < own\.units; i\+\+", "i <= own.units; i++"),  # writes a row too many
        ("stack", r"a -= \(a \+", "a -= 16384 * (a +"),  # a sum beyond 32 bits
        (
            "relu",
            r"a = hadamrnn_clip\(a, at->activation_bits, &at->clipped\);",
            "a++;",
        ),  # beyond its bits
    ],
)
def test_the_proof_fails_where_the_code_is_wrong(kind: str, sound: str, broken: str, tmp_path: Path) -> None:
    write_proof(tmp_path, kind)
    source = tmp_path / "hadamrnn.h"
    changed, count = re.subn(sound, broken, source.read_text())
    assert count
    source.write_text(changed)

    assert prove(tmp_path)

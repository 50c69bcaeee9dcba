"""Model checkers on the generated C: no overflow and no access out of bounds, for all states and inputs.

CBMC runs where it is installed, and Frama-C's Eva where that is (Debian: frama-c-base). Eva bounds every
value of every run at once; CBMC searches for a run that breaks a rule.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.export.programs import write_sources
from tests.export.proof import proof_program
from tests.family_models import family_model

# What CBMC decides in seconds, with no loop longer than UNWIND - 1, which it proves too. Sums of more
# products, and products of two unknowns as in a mean, keep its solver busy for minutes and hours.
BY_CBMC = ("one layer", "relu", "one hot", "embedded")
UNWIND = 9

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


def prove_by_eva(folder: Path) -> str:
    """Return what Eva could not prove, an alarm a line."""
    libc = subprocess.run(["frama-c", "-print-share-path"], capture_output=True, text=True, check=True).stdout
    command = [
        *("frama-c", "-machdep", "gcc_x86_32", f"-cpp-extra-args=-std=c99 -D__FRAMAC__ -I{libc.strip()}/libc"),
        *(
            "-eva",
            "-eva-precision",
            "2",
            "-eva-auto-loop-unroll",
            "300",
            "-warn-signed-overflow",
            str(folder / "proof.c"),
        ),
    ]
    said = subprocess.run(command, cwd=folder, capture_output=True, text=True).stdout
    assert "No errors or warnings raised during the analysis" in said, said[-2000:]
    found = [line for line in said.splitlines() if "[eva:alarm]" in line or "NON TERMINATING" in line]
    assert bool(found) != ("\n  0 alarms generated" in said), said[-2000:]
    return "\n".join(found)


def prove_by_cbmc(folder: Path) -> str:
    """Return what CBMC found to break a rule, a line each.

    It reads a step alone: a window makes steps, each of a state that this one covers.
    """
    checks = ("bounds", "pointer", "signed-overflow", "undefined-shift", "div-by-zero")
    flags = ["--unwind", str(UNWIND), "--unwinding-assertions", *(f"--{check}-check" for check in checks)]
    command = ["cbmc", "proof.c", "--function", "prove_step", *flags]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert result.returncode in (0, 10), result.stdout[-2000:] + result.stderr[-2000:]
    return "".join(f"{line}\n" for line in result.stdout.splitlines() if line.endswith("FAILURE"))


PROVERS: dict[str, Callable[[Path], str]] = {"cbmc": prove_by_cbmc, "frama-c": prove_by_eva}


@pytest.fixture(params=PROVERS)
def prove(request: pytest.FixtureRequest, kind: str) -> Callable[[Path], str]:
    """Return a prover of networks of this kind, where it is installed."""
    if shutil.which(request.param) is None:
        pytest.skip(f"no {request.param} installed")
    if request.param == "cbmc" and kind not in BY_CBMC:
        pytest.skip(f"{kind}: left to frama-c")
    return PROVERS[request.param]


def write_proof(folder: Path, kind: str) -> Path:
    model = family_model(np.random.default_rng(11), **{**SMALL, **KINDS[kind]})
    write_sources(folder, model, "net")
    program = folder / "proof.c"
    program.write_text(proof_program(model))
    return program


@pytest.mark.edge
@pytest.mark.parametrize("kind", KINDS)
def test_a_step_is_defined_for_every_state_and_every_input(
    prove: Callable[[Path], str], kind: str, tmp_path: Path
) -> None:
    write_proof(tmp_path, kind)

    assert prove(tmp_path) == ""


@pytest.mark.edge
@pytest.mark.parametrize(
    ("kind", "sound", "broken"),
    [
        ("stack", r"i < layer->units; i\+\+", "i <= layer->units; i++"),  # writes a row too many
        ("stack", r"int32_t kept = y", "int32_t kept = 16384 * y"),
        ("relu", r"next = \(next < 0\) \? \(-high - 1\) : high;", "next++;"),  # a state beyond its bits
    ],
)
def test_the_proof_fails_where_the_code_is_wrong(
    prove: Callable[[Path], str], kind: str, sound: str, broken: str, tmp_path: Path
) -> None:
    write_proof(tmp_path, kind)
    source = tmp_path / "hadamrnn.h"
    changed, count = re.subn(sound, broken, source.read_text())
    assert count
    source.write_text(changed)

    assert prove(tmp_path)

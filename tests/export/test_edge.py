"""C equals the reference engine on Cortex-M, RV32 and AVR instruction sets, within its budgets there.

Tests skip if a cross-compiler or an emulator is missing; under `make test-edge` (HADAMRNN_EDGE=1) they
fail.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from hadamrnn.errors import InputError
from hadamrnn.export.c import SHARED_RUNTIME
from hadamrnn.export.targets import TARGETS, compile_object, link, measure, run, section_sizes
from hadamrnn.fixedpoint.drawn import draw_model
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.fixedpoint.plan import make_plan
from hadamrnn.models import find
from hadamrnn.network import Network
from hadamrnn.runtime import runtime_file
from hadamrnn_benchmarks.edge import NETWORKS
from tests.edge_targets import installed
from tests.export.programs import STRICT, write_program, write_sources
from tests.export.random_models import random_model
from tests.family_models import family_model

pytestmark = pytest.mark.edge
KILOBYTE = 1024
ARM = ["cortex-m0", "cortex-m3", "cortex-m4"]
# weight_bits, input_size, hidden_size, recurrence, activation_bits: the choices that shape the code.
MIXES = tuple(product((4, 7), (1, 9), (128, 1024), ("linear", "relu"), (12, 16)))


def paper_model(hidden_size: int, **fixed: object) -> IntegerModel:
    """Return a network of the paper's kind: one block, one channel, 4-bit weights, 12-bit states."""
    shape = {
        "hidden_size": hidden_size,
        "block_size": hidden_size,
        "input_size": 1,
        "output_size": 10,
        "input_kind": "dense",
        "weight_bits": 4,
        "activation_bits": 12,
        "input_bits": 9,
        "recurrence": "linear",
        "hidden_shift": 4,
        "reads": True,
        "biased": True,
    }
    return random_model(np.random.default_rng(hidden_size), **{**shape, **fixed})


SHARED = "-DHADAMRNN_USE_SHARED"
BATCHES, BATCH = 4, 25  # a hundred networks on every target


@pytest.mark.parametrize(
    ("name", "flags", "batch"),
    [
        *((t.name, ("-O2",), batch) for t in TARGETS if t.name != "atmega328p" for batch in range(BATCHES)),
        ("cortex-m0", ("-Os",), 0),
        *((t.name, ("-O2", SHARED), batch) for t in TARGETS if t.name != "atmega328p" for batch in (0, 1)),
    ],
)
def test_c_is_the_engine_on_the_target(name: str, flags: tuple[str, ...], batch: int, tmp_path: Path) -> None:
    target = installed(name)
    rng = np.random.default_rng(42 + batch)
    models = [random_model(rng) for _ in range(5)]
    models += [family_model(rng, extreme=i % 4 == 0) for i in range(BATCH - 5)]
    main = write_program(tmp_path, models, packed=[i % 3 > 0 for i in range(BATCH)], sequences=1, time=6)

    sources = [main]
    if SHARED in flags:
        for file in SHARED_RUNTIME:
            (tmp_path / file).write_text(runtime_file(file))
        sources.append(tmp_path / "hadamrnn_shared.c")

    objects = [compile_object(target, source, (*flags, *STRICT)) for source in sources]
    program = link(target, objects, tmp_path / "all.elf")

    assert f"{BATCH} models, 0 bad" in run(target, program)


@pytest.mark.parametrize("hidden_size", [128, 512])
@pytest.mark.parametrize("name", [target.name for target in TARGETS])
def test_the_paper_networks_are_bit_exact_and_small(name: str, hidden_size: int) -> None:
    measured = measure(paper_model(hidden_size), installed(name))

    assert measured.differences == 0
    assert measured.ram <= 4 * hidden_size + 128
    if name in ARM:
        assert measured.code <= 2 * KILOBYTE
        assert measured.flash <= 6 * KILOBYTE


@pytest.mark.parametrize("name", ARM)
@pytest.mark.parametrize("mix", MIXES, ids=lambda mix: "-".join(map(str, mix)))
def test_the_code_of_every_mix_of_options_is_small(
    mix: tuple[object, ...], name: str, tmp_path: Path
) -> None:
    weight_bits, input_size, hidden_size, recurrence, activation_bits = mix
    target = installed(name)
    model = random_model(
        np.random.default_rng(0),
        weight_bits=weight_bits,
        input_size=input_size,
        hidden_size=hidden_size,
        block_size=hidden_size,
        recurrence=recurrence,
        activation_bits=activation_bits,
        output_size=10,
        input_kind="dense",
        input_bits=8,
        hidden_shift=4,
        reads=True,
        biased=True,
        raw=True,
    )
    write_sources(tmp_path, model, "net")

    code, _, _ = section_sizes(target, compile_object(target, tmp_path / "net.c"))

    assert code <= 2 * KILOBYTE


@pytest.mark.parametrize(("hidden_size", "most"), [(128, 5_000), (512, 19_000)])
def test_a_step_on_the_cortex_m4_keeps_its_budget(hidden_size: int, most: int) -> None:
    """The networks round their inputs and saturate often."""
    assert measure(paper_model(hidden_size), installed("cortex-m4")).step <= most


def test_a_step_of_permuted_mnist_keeps_its_budget_on_the_cortex_m4() -> None:
    model = draw_model(NETWORKS["pMNIST 512"], "pMNIST 512")

    measured = measure(model, installed("cortex-m4"))

    assert measured.step <= 16_400
    assert measured.flash <= 5_900


@pytest.mark.parametrize(("name", "specialised"), [("pMNIST 512", 16_400), ("Google-12, 3 x 128", 56_000)])
def test_the_shared_build_takes_at_most_a_quarter_more_on_the_cortex_m4(name: str, specialised: int) -> None:
    target, model = installed("cortex-m4"), draw_model(NETWORKS[name], name)
    alone, shared = measure(model, target), measure(model, target, shared=True)

    assert shared.differences == 0
    assert alone.step <= specialised
    assert shared.step <= 1.25 * alone.step


def test_the_copy_network_fits_an_atmega328p() -> None:
    model = paper_model(128, input_kind="one_hot", input_size=10, output_size=9)

    measured = measure(model, installed("atmega328p"))

    assert measured.differences == 0
    assert measured.ram + measured.stack <= 2 * KILOBYTE
    assert measured.flash <= 32 * KILOBYTE


def small_model(seed: int) -> IntegerModel:
    """Return a network whose state leaves room for a stack in 2 kB."""
    rng = np.random.default_rng(seed)
    while True:
        model = random_model(rng, block_size=8) if seed % 5 == 0 else family_model(rng, extreme=seed % 4 == 0)
        plan = make_plan(model)
        if plan.state_bytes + plan.work_bytes <= KILOBYTE:
            return model


@pytest.mark.parametrize("seed", range(BATCHES * BATCH))
def test_small_random_models_are_bit_exact_on_avr(seed: int) -> None:
    assert measure(small_model(seed), installed("atmega328p")).differences == 0


def test_a_network_whose_stack_would_meet_its_state_does_not_fit() -> None:
    with pytest.raises(InputError, match="2048 bytes of RAM"):
        measure(draw_model(Network(1, 960, 2, num_blocks=15, activation_bits=12)), installed("atmega328p"))


def test_constants_that_an_avr_keeps_in_ram_count_there() -> None:
    """Beside 282 bytes of them the stack of the self-test would overwrite the state, with other logits."""
    with pytest.raises(InputError, match="too large for its 2048 bytes"):
        measure(find("keywords-5kb").load(), installed("atmega328p"))

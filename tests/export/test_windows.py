"""Windows in C equal `SlidingWindow` bit for bit, from raw codes to the class, for any window and hop."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hadamrnn.export.c import wrapped
from hadamrnn.export.targets import NAME
from hadamrnn.fixedpoint import Engine, IntegerModel, SlidingWindow
from hadamrnn.fixedpoint.encoding import encode_raw
from hadamrnn.kernels.library import load_library
from tests.export.programs import SANITIZED, compile_and_run, write_sources
from tests.export.random_models import random_model
from tests.family_models import family_codes, family_model, leaky_model, noisy

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler installed")
COMPILERS = [
    pytest.param(name, marks=pytest.mark.skipif(shutil.which(name) is None, reason=f"no {name} installed"))
    for name in ("gcc", "clang")
]
STEPS = 24
# Prints the step, the class and the logits of every window that is ready.
STREAM = """
static const {type} {name}_stream[] = {{
{values}
}};
static void {name}_windows(void)
{{
    static {name}_window window;
    static {name}_slot slots[{slots}];
    if ({name}_window_init(&window, {given}, {size}, {hop}) != 0u) {{
        puts("refused");
    }}
    for (unsigned t = 0; t < {steps}; t++) {{
        if ({name}_window_push(&window, {input}) == HADAMRNN_READY) {{
            printf("%u %u", t + 1, (unsigned){name}_window_class(&window));
            for (unsigned k = 0; k < {prefix}_OUTPUT_SIZE; k++) {{
                printf(" %ld", (long)window.logits[k]);
            }}
            puts("");
        }}
    }}
    puts("end");
    (void)slots;
}}
"""


def write_streams(folder: Path, cases: list[tuple[IntegerModel, Any, int, int]]) -> Path:
    """Write a program that pushes each case's inputs through its windows; return the main."""
    parts, calls = ["#include <stdio.h>\n"], []
    for i, (model, stream, size, hop) in enumerate(cases):
        name, dense = f"m{i}", model.input_kind == "dense"
        write_sources(folder, model, name)
        code = STREAM.format(
            name=name,
            prefix=name.upper(),
            type="int32_t" if dense else "uint32_t",
            values="\n".join(wrapped(stream)),
            slots=max(size // hop - 1, 1),
            given="NULL" if size == hop else "slots",
            size=size,
            hop=hop,
            steps=len(stream),
            input=f"{name}_stream + t * {model.input_size}u" if dense else f"{name}_stream[t]",
        )
        parts.append(f'#include "{name}.c"\n#include "{name}_window.c"\n{code}')
        calls.append(f"    {name}_windows();\n")
    main = folder / "windows.c"
    main.write_text("".join(parts) + f"int main(void)\n{{\n{''.join(calls)}    return 0;\n}}\n")
    return main


def expected_lines(model: IntegerModel, stream: NDArray[Any], size: int, hop: int) -> list[str]:
    sliding, lines = SlidingWindow(Engine(model), size, hop), []
    for t, raw in enumerate(stream, start=1):
        logits = sliding.push(encode_raw(model, raw)[0] if model.input_kind == "dense" else raw)
        if logits is not None:
            label = int(logits.argmax()) if len(logits) > 1 else int(logits[0] > 0)
            lines.append(" ".join(map(str, [t, label, *logits.tolist()])))
    return [*lines, "end"]


def drawn_case(rng: np.random.Generator, number: int) -> tuple[IntegerModel, NDArray[Any], int, int]:
    """Return a network in which all, some or no blocks leak, its inputs, and a window."""
    leak = ((), (1, 0), (2,), (3, 1))[number % 4]
    model = family_model(rng, leak=leak) if number % 5 else random_model(rng)
    hop = int(rng.integers(1, 5))
    return model, family_codes(rng, model, 1, STEPS)[0], hop * int(rng.integers(1, 5)), hop


@pytest.mark.parametrize("compiler", COMPILERS)
def test_windows_in_c_are_those_of_python(compiler: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    cases = [drawn_case(rng, number) for number in range(60)]

    printed = compile_and_run(compiler, write_streams(tmp_path, cases), SANITIZED).splitlines()

    assert printed == [line for case in cases for line in expected_lines(*case)]


@needs_cc
def test_windows_of_many_layers_in_c_are_those_of_python(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    models = [family_model(rng, layer_sizes=(4,) * layers, num_blocks=1, stride=1) for layers in (4, 5, 6)]
    cases = [(model, family_codes(rng, model, 1, STEPS)[0], 6, 3) for model in models]

    printed = compile_and_run("cc", write_streams(tmp_path, cases), SANITIZED).splitlines()

    assert printed == [line for case in cases for line in expected_lines(*case)]


REFUSED = """
#include <stdio.h>
#include "net.c"
#include "net_window.c"
int main(void)
{
    static net_window window;
    static net_slot slots[4];
    static const uint16_t cases[][2] = {{0, 0}, {4, 0}, {0, 4}, {4, 3}, {3, 4}, {NET_LONGEST + 1, 1}};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const unsigned status = net_window_init(&window, slots, cases[i][0], cases[i][1]);
        printf("%u%u ", status, (unsigned)net_window_push(&window, 0));
    }
    printf("%u ", (unsigned)net_window_init(&window, NULL, 4, 2));
    printf("%u ", (unsigned)net_window_init(&window, slots, 2, 1));
    printf("%u ", (unsigned)net_window_push(&window, NET_VOCABULARY_SIZE));
    printf("%u ", (unsigned)net_window_push(&window, 0));
    printf("%u ", (unsigned)net_window_push(&window, UINT32_MAX));
    printf("%u\\n", (unsigned)net_window_push(&window, 0));
    return 0;
}
"""


@needs_cc
@pytest.mark.parametrize("leak", [(), (1,)])
def test_a_window_that_cannot_be_is_refused_and_an_unknown_id_does_not_count(
    leak: tuple[int, ...], tmp_path: Path
) -> None:
    model = family_model(
        np.random.default_rng(4), leak=leak, readouts=("mean",), input_kind="one_hot", input_size=3
    )
    write_sources(tmp_path, model, NAME)
    main = tmp_path / "main.c"
    main.write_text(REFUSED)

    assert compile_and_run("cc", main, SANITIZED) == "44 44 44 44 44 44 4 0 1 0 1 3\n"


UNREADY = """
#include <stdio.h>
#include "net.c"
#include "net_window.c"
int main(void)
{
    static net_window window;
    static net_slot slots[1];
    const int32_t fits[NET_INPUT_SIZE] = {0};
    const int32_t clipped[NET_INPUT_SIZE] = {INT32_MAX, INT32_MIN};
    (void)net_window_init(&window, slots, 4, 2);
    for (int t = 0; t < 4; t++) {
        const unsigned status = net_window_push(&window, (t == 1) ? clipped : fits);
        const int has_none = net_window_class(&window) == HADAMRNN_NO_CLASS;
        printf("%u:%d:%lu ", status, has_none, (unsigned long)window.place.clipped);
    }
    puts("");
    return 0;
}
"""


@needs_cc
@pytest.mark.parametrize("leak", [(), (1,)])
def test_a_window_has_no_class_before_it_is_whole_and_counts_clipped_readings(
    leak: tuple[int, ...], tmp_path: Path
) -> None:
    model = family_model(
        np.random.default_rng(4), leak=leak, readouts=("mean",), input_kind="dense", input_size=2
    )
    write_sources(tmp_path, model, NAME)
    main = tmp_path / "main.c"
    main.write_text(UNREADY)

    assert compile_and_run("cc", main, SANITIZED) == "0:1:0 0:1:2 0:1:2 3:0:2 \n"


ENDLESS = """
#include <stdio.h>
#include "net.h"
int main(void)
{
    static net_state state;
    int16_t x[NET_INPUT_SIZE];
    net_init(&state);
    for (unsigned long t = 1; fread(x, sizeof x, 1, stdin) == 1; t++) {
        (void)net_step(&state, x);
        if (t % 100000 == 0) {
            int32_t logits[NET_OUTPUT_SIZE];
            net_logits(&state, logits);
            printf("%ld %ld %ld %lu\\n", (long)logits[0], (long)logits[1], (long)logits[2],
                   (unsigned long)state.counters.saturations);
        }
    }
    return 0;
}
"""


@pytest.mark.edge  # takes half a minute
@needs_cc
@pytest.mark.skipif(load_library() is None, reason="ten million steps need the native library")
def test_ten_million_noisy_steps_in_c_are_those_of_python_and_saturate_nothing(tmp_path: Path) -> None:
    model, stream = leaky_model(), noisy(10_000_000)
    every = replace(model, network=replace(model.network, every_output=True))
    write_sources(tmp_path, model, NAME)
    (tmp_path / "main.c").write_text(ENDLESS)
    subprocess.run(["cc", "-O2", "net.c", "main.c", "-o", "endless"], cwd=tmp_path, check=True)

    command = [tmp_path / "endless"]
    printed = subprocess.run(command, input=stream.tobytes(), capture_output=True, check=True).stdout.decode()
    result = Engine(every).run(stream, threads=1)

    found = np.array([line.split() for line in printed.splitlines()], np.int64)
    assert np.array_equal(found[:, :3], result.logits[0, 99_999::100_000])
    assert found[-1, 3] == result.saturations == 0


@needs_cc
def test_the_longest_window_fits_and_a_longer_one_is_refused(tmp_path: Path) -> None:
    model = family_model(np.random.default_rng(0), readouts=("mean",))
    longest = model.longest
    assert longest is not None
    write_sources(tmp_path, model, "net")
    main = tmp_path / "main.c"
    main.write_text(
        '#include <stdio.h>\n#include "net.c"\n#include "net_window.c"\n'
        "int main(void)\n{\n    static net_window window; static net_slot slots[1];\n"
        f"    for (uint16_t size = {longest - 1}u; size <= {longest + 1}u; size++) {{\n"
        '        printf("%u\\n", (unsigned)net_window_init(&window, slots, size, size));\n'
        "    }\n    return 0;\n}\n"
    )

    refused = [int(line) != 0 for line in compile_and_run("cc", main, SANITIZED).splitlines()]
    assert refused == [False, False, True]


@needs_cc
def test_sums_that_are_full_take_no_further_step(tmp_path: Path) -> None:
    model = family_model(
        np.random.default_rng(0), readouts=("mean",), input_kind="dense", vocabulary_size=None
    )
    assert model.longest and model.input_kind == "dense"
    write_sources(tmp_path, model, "net")
    main = tmp_path / "main.c"
    main.write_text(
        '#include <stdio.h>\n#include "net.c"\n'
        "int main(void)\n{\n    static net_state state; static const int16_t x[NET_INPUT_SIZE] = {0};\n"
        "    net_init(&state); state.counters.inputs = NET_LONGEST - 1u;\n"
        '    for (int t = 0; t < 3; t++) { printf("%u ", net_step(&state, x) == HADAMRNN_FULL); }\n'
        '    printf("%u", state.counters.inputs == NET_LONGEST);\n    return 0;\n}\n'
    )

    assert compile_and_run("cc", main, SANITIZED) == "0 1 1 1"

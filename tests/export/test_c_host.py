"""C equals the reference engine bit for bit: logits of every step, the last state, classes, saturations."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hadamrnn.errors import InputError
from hadamrnn.export import draw_golden, export_c, make_golden
from hadamrnn.export.c import selftest_files, source_files
from hadamrnn.export.metadata import class_symbols
from hadamrnn.fixedpoint.drawn import draw_integers
from hadamrnn.fixedpoint.engine import Engine
from hadamrnn.fixedpoint.file import VERSION
from hadamrnn.fixedpoint.integers import signed_range
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.hadamard.orders import hadamard_matrix
from hadamrnn.models import shipped
from hadamrnn.network import Network
from tests.export.programs import (
    SANITIZED,
    SANITIZED_QUICKLY,
    compile_and_run,
    write_program,
    write_sources,
)
from tests.export.random_models import LARGE_FACTORS, POWERS, random_model
from tests.family_models import family_model
from tests.integer_models import with_layer

COMPILERS = [
    pytest.param(name, marks=pytest.mark.skipif(shutil.which(name) is None, reason=f"no {name} installed"))
    for name in ("gcc", "clang")
]
needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler installed")
BATCHES, BATCH = 20, 50  # a thousand models


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(BATCHES))
def test_c_is_the_engine_on_a_thousand_networks_of_the_family(batch: int, tmp_path: Path) -> None:
    compilers = [name for name in ("gcc", "clang") if shutil.which(name)]
    if not compilers:
        pytest.skip("no gcc and no clang installed")
    rng = np.random.default_rng(1000 + batch)
    models = [family_model(rng, extreme=bool(rng.random() < 0.2)) for _ in range(BATCH - BATCH // 5)]
    models += [random_model(rng) for _ in range(BATCH // 5)]  # larger blocks, raw codes
    main = write_program(tmp_path, models, packed=[bool(rng.integers(2)) for _ in models])

    for compiler in compilers:
        output = compile_and_run(compiler, main, SANITIZED_QUICKLY[compiler])
        assert output == f"{BATCH} models, 0 bad\n"


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("crime", ["n + 2147483647", "1 << (n + 31)", "array[n + 2]", "heap[n + 2]"])
def test_the_sanitizers_stop_what_c_forbids(compiler: str, crime: str, tmp_path: Path) -> None:
    main = tmp_path / "crime.c"
    main.write_text(
        "#include <stdlib.h>\nint main(int n, char **arguments)\n{\n"
        "    static int array[3];\n    int *heap = calloc(3, sizeof *heap);\n    (void)arguments;\n"
        f"    volatile int result = {crime};\n    (void)result, (void)array;\n"
        "    free(heap);\n    return 0;\n}\n"
    )
    innocent = tmp_path / "innocent.c"
    innocent.write_text(main.read_text().replace(crime, "n + array[n] + heap[n]"))

    with pytest.raises(AssertionError):
        compile_and_run(compiler, main, SANITIZED_QUICKLY[compiler])
    assert compile_and_run(compiler, innocent, SANITIZED_QUICKLY[compiler]) == ""


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("flags", [("-O2",), ("-O3", "-DHADAMRNN_NARROW_PRODUCT")])
def test_optimized_c_is_the_engine_without_a_warning(
    compiler: str, flags: tuple[str, ...], tmp_path: Path
) -> None:
    rng = np.random.default_rng(7)
    models = [random_model(rng, block_size=block) for block in (*POWERS[2:], *LARGE_FACTORS[:4])]
    main = write_program(tmp_path, models, packed=[True] * len(models))

    assert compile_and_run(compiler, main, flags).endswith("0 bad\n")


@pytest.mark.parametrize("compiler", COMPILERS)
def test_every_network_that_ships_answers_in_c_as_in_python(compiler: str, tmp_path: Path) -> None:
    found = [model.load() for model in shipped()]
    main = write_program(tmp_path, found, packed=[True] * len(found), time=130)

    assert compile_and_run(compiler, main, SANITIZED_QUICKLY[compiler]) == f"{len(found)} models, 0 bad\n"


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("activation_bits", [12, 15, 16])
def test_large_blocks_are_exact_at_the_edge_of_their_bits(
    compiler: str, activation_bits: int, tmp_path: Path
) -> None:
    rng = np.random.default_rng(activation_bits)
    model = random_model(
        rng,
        hidden_size=512,
        block_size=512,
        activation_bits=activation_bits,
        input_bits=9,
        weight_bits=4,
        hidden_shift=6,
        input_kind="dense",
        input_size=1,
    )
    main = write_program(tmp_path, [model], packed=[True], time=20)

    assert compile_and_run(compiler, main, SANITIZED) == "1 models, 0 bad\n"


@needs_cc
def test_every_pass_is_exact_when_all_states_are_at_their_bounds(tmp_path: Path) -> None:
    """A bias along a row of H drives the first state to its bounds, and the transform to its largest sums."""
    rng = np.random.default_rng(23)
    models = []
    for bits in range(6, 17):
        for row in (0, 1, 37):
            model = random_model(
                rng,
                block_size=64,
                hidden_size=64,
                activation_bits=bits,
                weight_bits=2,
                input_bits=2,
                input_kind="dense",
                hidden_shift=4,
                reads=False,
                biased=True,
                recurrence="linear",
            )
            pattern = hadamard_matrix(64)[row]
            low, high = signed_range(bits)
            shift = model.layers[0].state_shift + 4  # far above the range of activation_bits after rounding
            bias = np.where(pattern * rng.choice([-1, 1]) < 0, low, high).astype(np.int16)
            models.append(with_layer(model, input_bias_int=bias, input_bias_shift=shift))
    main = write_program(tmp_path, models, packed=[True] * len(models), time=4)

    assert compile_and_run("cc", main, SANITIZED) == f"{len(models)} models, 0 bad\n"


@needs_cc
def test_a_bias_of_zeros_may_have_any_shift(tmp_path: Path) -> None:
    """2^31 is not an int32, so it cannot be a constant in C."""
    drawn = random_model(np.random.default_rng(3), block_size=8, biased=True)
    zeros = np.zeros(drawn.hidden_size, np.int16)
    model = with_layer(drawn, input_bias_int=zeros, input_bias_shift=31)
    main = write_program(tmp_path, [model], packed=[True])

    assert compile_and_run("cc", main, SANITIZED) == "1 models, 0 bad\n"


@pytest.mark.parametrize("compiler", COMPILERS)
def test_blocks_of_every_construction_are_exact(compiler: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(17)
    orders = (12, 28, 36, 52, 92, 116, 144, 184)  # Paley over fields and extensions, Williamson, products
    models = [random_model(rng, block_size=order, hidden_size=order, activation_bits=8) for order in orders]
    main = write_program(tmp_path, models, packed=[True] * len(models), time=3)

    assert compile_and_run(compiler, main, SANITIZED).endswith("0 bad\n")


@needs_cc
def test_the_folder_survives_a_stranger(tmp_path: Path) -> None:
    model = random_model(np.random.default_rng(3), block_size=16, input_kind="dense")
    folder = export_c(model, tmp_path / "made", "gesture")
    moved = shutil.copytree(folder, tmp_path / "elsewhere")
    shutil.rmtree(folder)

    result = subprocess.run(["make", "test"], cwd=moved, capture_output=True, text=True)

    assert result.returncode == 0, result.stdout + result.stderr
    assert "gesture: passed, 0 differences" in result.stdout


@needs_cc
def test_the_self_test_can_fail(tmp_path: Path) -> None:
    model = random_model(np.random.default_rng(5), input_kind="dense", reads=True)
    folder = export_c(model, tmp_path / "net", "net")
    golden = folder / "test" / "net_golden.h"
    text = golden.read_text()
    head, tail = text.split("net_golden_classes[", 1)
    golden.write_text(head + "net_golden_classes[" + tail.replace("    ", "    1", 1))

    result = subprocess.run(["make", "test"], cwd=folder, capture_output=True, text=True)

    assert result.returncode != 0
    assert "FAILED" in result.stdout


def test_golden_vectors_are_what_a_batch_run_gives() -> None:
    model = random_model(np.random.default_rng(11), every_output=True)
    golden = draw_golden(model, sequences=3, time=5)

    result = Engine(model).run(golden.codes)

    assert np.array_equal(result.logits, golden.logits)
    assert result.saturations == golden.saturations.sum()
    assert golden.source == "random codes"
    assert make_golden(model, golden.inputs).source == "given codes"


def test_golden_vectors_check_the_encoding_of_small_large_and_extreme_raw_codes() -> None:
    model = random_model(np.random.default_rng(11), input_kind="dense", input_size=9)
    largest = np.abs(draw_golden(model).raw.astype(np.int64)).max(axis=1)

    bits = np.array([4, 10, 16, 31, 31, 31])
    assert (largest >= 2.0 ** (bits - 1)).all() and (largest <= 2.0**bits).all()


def test_c_holds_no_float_no_heap_no_division_and_no_static_variable() -> None:
    rng = np.random.default_rng(13)
    for block in (64, 12, 40):
        source = source_files(random_model(rng, block_size=block), "net")["net.c"]
        code = "".join(part.split("*/", 1)[-1] for part in source.split("/*"))
        for word in ("float", "double", "malloc", "free(", " / ", " % "):
            assert word not in code, word
        includes = {line for line in code.splitlines() if line.startswith("#include <")}
        assert includes <= {"#include <string.h>", "#include <avr/pgmspace.h>", "#include <arm_acle.h>"}
        assert not re.findall(r"#define \w+\(", code)  # functions instead, which have types
        assert all(macro == macro.upper() for macro in re.findall(r"#define (\w+)", code))


EXTREME = """
static uint32_t {name}_extremes(void)
{{
    static {name}_state state;
    uint32_t seed = 1, sum = 0;
    {name}_init(&state);
    for (int t = 0; t < 40; t++) {{
{step}
        for (unsigned i = 0; i < {prefix}_HIDDEN_SIZE; i++) {{
            sum = 31u * sum + (uint32_t)state.narrow[i];
        }}
    }}
    return sum;
}}
"""
DENSE_STEP = """        int16_t x[{prefix}_INPUT_SIZE];
        for (unsigned j = 0; j < {prefix}_INPUT_SIZE; j++) {{
            seed = 1664525u * seed + 1013904223u;
            x[j] = (int16_t)((t < 20) ? 32767 : ((seed >> 31) ? -32767 - 1 : 32767));
        }}
        {name}_step(&state, x);"""


@needs_cc
def test_dense_codes_of_any_size_saturate_without_overflow(tmp_path: Path) -> None:
    rng = np.random.default_rng(31)
    wide = {"input_kind": "dense", "input_size": 45, "input_bits": 4, "reads": True}
    models = [random_model(rng, **wide) for _ in range(12)]
    models += [random_model(rng, input_kind="dense", reads=True) for _ in range(24)]
    parts, calls, expected = ["#include <stdio.h>\n"], [], []
    for i, model in enumerate(models):
        name = f"m{i}"
        write_sources(tmp_path, model, name)
        step = DENSE_STEP.format(name=name, prefix=name.upper())
        body = EXTREME.format(name=name, prefix=name.upper(), step=step)
        parts.append(f'#include "{name}.c"\n{body}')
        calls.append(f'    printf("%lu\\n", (unsigned long){name}_extremes());\n')
        expected.append(_extremes(model))
    main = tmp_path / "extremes.c"
    main.write_text("".join(parts) + "int main(void)\n{\n" + "".join(calls) + "    return 0;\n}\n")

    assert [int(line) for line in compile_and_run("cc", main, SANITIZED).split()] == expected


def _extremes(model: IntegerModel) -> int:
    """Return the checksum of EXTREME by the engine."""
    engine, seed, total = Engine(model), 1, 0
    state = engine.init()
    for t in range(40):
        codes = []
        for _ in range(model.input_size):
            seed = (1664525 * seed + 1013904223) % 2**32
            codes.append(32767 if t < 20 or seed < 2**31 else -32768)
        engine.step(state, np.array(codes))
        for value in state.h[:, 0].tolist():
            total = (31 * total + value) % 2**32
    return total


@needs_cc
@pytest.mark.parametrize("kind", ["one_hot", "embedded"])
def test_an_id_outside_the_vocabulary_leaves_the_state_alone_and_says_so(kind: str, tmp_path: Path) -> None:
    model = random_model(np.random.default_rng(8), input_kind=kind, reads=True)
    write_sources(tmp_path, model, "net")
    main = tmp_path / "main.c"
    main.write_text(
        '#include <stdio.h>\n#include "net.c"\nint main(void)\n{\n'
        "    static net_state state, before;\n    int bad = 0;\n    net_init(&state);\n"
        "    bad += net_step(&state, 0) != 0;\n    before = state;\n"
        "    bad += net_step(&state, NET_VOCABULARY_SIZE) != 1;\n"
        "    bad += net_step(&state, UINT32_MAX) != 1;\n"
        "    bad += memcmp(&state, &before, sizeof state) != 0;\n"
        '    printf("%d\\n", bad);\n    return 0;\n}\n'
    )

    assert compile_and_run("cc", main, SANITIZED) == "0\n"


@needs_cc
def test_models_whose_names_differ_in_case_alone_share_a_program(tmp_path: Path) -> None:
    rng = np.random.default_rng(9)
    names = ("net", "Net", "nEt")
    for name in names:
        write_sources(tmp_path, random_model(rng, block_size=8, input_kind="dense"), name)
    main = tmp_path / "main.c"
    main.write_text(
        "".join(f'#include "{name}.c"\n' for name in names)
        + "#include <stdio.h>\nint main(void)\n{\n"
        + "".join(f"    static {name}_state s{i}; {name}_init(&s{i});\n" for i, name in enumerate(names))
        + '    puts("built");\n    return 0;\n}\n'
    )

    assert compile_and_run("cc", main, ("-O1",)) == "built\n"


@needs_cc
def test_the_default_name_builds_without_products_of_64_bits(tmp_path: Path) -> None:
    model = random_model(np.random.default_rng(10), block_size=32, input_kind="dense", reads=True)
    folder = export_c(model, tmp_path / "out")

    assert "passed" in compile_and_run(
        "cc",
        folder / "test" / "test_net.c",
        ("-O1", "-DHADAMRNN_NARROW_PRODUCT", f"-I{folder}", str(folder / "net.c")),
    )


def test_two_networks_of_one_architecture_differ_in_their_data_alone() -> None:
    network = Network(2, 32, 3, leak=(1,), readouts=("mean", "max"), activation_bits=12)
    first, second = (
        source_files(draw_integers(network, np.random.default_rng(seed)), "net") for seed in (1, 2)
    )

    assert {file for file in first if first[file] != second[file]} == {"net.h", "net_weights.h"}
    lines = zip(first["net.h"].splitlines(), second["net.h"].splitlines(), strict=True)
    changed = [before for before, after in lines if before != after]
    assert [line.split()[1] for line in changed] == ["NET_MODEL_CHECKSUM"]


@needs_cc
def test_the_constants_go_where_the_firmware_wants_them(tmp_path: Path) -> None:
    write_sources(tmp_path, random_model(np.random.default_rng(12), block_size=16, reads=True), "net")
    flash = '-DHADAMRNN_FLASH=__attribute__((section(".weights")))'

    subprocess.run(["cc", "-std=c11", "-O2", flash, "-c", "net.c"], cwd=tmp_path, check=True)

    assert (
        ".weights"
        in subprocess.run(
            ["objdump", "-h", "net.o"], cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout
    )


@needs_cc
def test_a_state_that_outgrew_its_plan_does_not_compile(tmp_path: Path) -> None:
    write_sources(tmp_path, random_model(np.random.default_rng(12), block_size=16), "net")
    header = tmp_path / "net.h"
    header.write_text(re.sub(r"(NET_STATE_BYTES) \d+u", r"\1 8u", header.read_text()))

    built = subprocess.run(
        ["cc", "-std=c11", "-c", "net.c"], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert built.returncode != 0 and "more memory than planned" in built.stderr


@pytest.mark.parametrize("name", ["hadamrnn", "HadamRNN"])
def test_the_name_of_the_runtime_is_refused(name: str, tmp_path: Path) -> None:
    model = random_model(np.random.default_rng(10), block_size=8)

    with pytest.raises(InputError, match="is called hadamrnn"):
        export_c(model, tmp_path / "out", name)


@needs_cc
def test_the_header_names_classes_versions_and_the_calibrated_length(tmp_path: Path) -> None:
    model = random_model(np.random.default_rng(11), block_size=8, input_kind="dense", output_size=3)
    names = '["sitting", "up \\"stairs\\"", "*/ \\\\"]'
    model = replace(model, metadata={"class_names": names, "calibrated_length": 128})
    write_sources(tmp_path, model, "net")
    main = tmp_path / "main.c"
    main.write_text(
        '#include <stdio.h>\n#include "net.c"\nint main(void)\n{\n'
        "    static const char *const names[NET_CLASSES] = NET_CLASS_NAMES;\n"
        '    printf("%s %d %d\\n", names[NET_CLASS_SITTING], NET_CALIBRATED_LENGTH, NET_FORMAT_VERSION);\n'
        "    return NET_MODEL_CHECKSUM == 0u || sizeof NET_LIBRARY_VERSION < 2;\n}\n"
    )

    assert compile_and_run("cc", main, ("-O1",)) == f"sitting 128 {VERSION}\n"
    assert class_symbols(replace(model, metadata={"class_names": '["a b", "c", "d"]'}))[0] == (
        "A_B",
        '"a b"',
    )


@needs_cc
@pytest.mark.parametrize(
    ("names", "symbols", "printed"),
    [
        (["Class", "names"], ["CLASS", "NAMES_1"], None),  # NET_CLASS_NAMES is the macro of both
        (["what???\\x", '???"(/*'], ["WHAT_X", "1"], None),
        (["*/ int x;", "//\\"], ["INT_X", "1"], None),
        (["[" * 300, "]"], ["0", "1"], None),
        (["sitzen", "läuft schnell"], ["SITZEN", "LAUFT_SCHNELL"], None),
        (["走る", "歩く"], ["0", "1"], None),
        (["é1", "e1"], ["E1_0", "E1_1"], None),
        (["1", "歩"], ["1", "1_1"], None),
        (["", "run, fast"], ["0", "RUN_FAST"], None),
        (
            ["\x1b[31mred\n", "a\x00b\u202e"],
            ["X1B_31MRED_N", "A_X00B_U202E"],
            ["\\x1b[31mred\\n", "a\\x00b\\u202e"],
        ),
        (["same", "same"], ["SAME_0", "SAME_1"], None),
    ],
)
def test_class_names_of_any_text_reach_c(
    names: list[str], symbols: list[str], printed: list[str] | None, tmp_path: Path
) -> None:
    model = random_model(np.random.default_rng(11), block_size=8, input_kind="dense", output_size=2)
    model = replace(model, metadata={"class_names": json.dumps(names)})
    files = {**source_files(model, "net"), **selftest_files(model, "net", draw_golden(model))}
    for file, text in files.items():
        (tmp_path / file).write_text(text, encoding="ascii")
    main = tmp_path / "main.c"
    main.write_text(
        '#include <stdio.h>\n#define HADAMRNN_NO_MAIN\n#include "net.c"\n#include "test_net.c"\n'
        "int main(void)\n{\n    static net_state state;\n"
        "    static const char *const names[NET_CLASSES] = NET_CLASS_NAMES;\n"
        f"    puts(names[NET_CLASS_{symbols[0]}]);\n    puts(names[NET_CLASS_{symbols[1]}]);\n"
        "    return net_test(&state) != 0u;\n}\n"
    )

    assert compile_and_run("cc", main, ("-O1", "-Wtrigraphs")).split("\n") == [*(printed or names), ""]


@pytest.mark.parametrize("names", [["a", "A_0", "a"], ["A_2", "é", "a", "a"], ["0", "", "0_1", "1"]])
def test_symbols_of_classes_are_unique(names: list[str]) -> None:
    model = random_model(np.random.default_rng(11), output_size=len(names))
    symbols = [s for s, _ in class_symbols(replace(model, metadata={"class_names": json.dumps(names)}))]

    assert len(set(symbols)) == len(names)


def test_class_names_that_are_no_list_are_none() -> None:
    model = random_model(np.random.default_rng(11), output_size=2)
    for text in ("[" * 3900, "null", '{"a": 1}', '["one"]'):
        assert class_symbols(replace(model, metadata={"class_names": text})) == []

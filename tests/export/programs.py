"""Many exported models in one program, so that tests can compile a thousand."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from hadamrnn.export.c import selftest_files, source_files
from hadamrnn.export.golden import Golden, draw_golden
from hadamrnn.fixedpoint.model import IntegerModel

STRICT = ("-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Wpedantic", "-Werror")
SANITIZED = ("-O0", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
# The same checks as traps and calls: gcc, which takes most of the time, compiles them twice as fast.
SANITIZED_QUICKLY = {
    "gcc": (
        *SANITIZED,
        *("-fsanitize-undefined-trap-on-error", "--param", "asan-instrumentation-with-call-threshold=0"),
    ),
    "clang": SANITIZED,
}


def write_sources(folder: Path, model: IntegerModel, name: str) -> None:
    """Write the C of one model to a folder."""
    for file, text in source_files(model, name).items():
        (folder / file).write_text(text)


def write_program(
    folder: Path,
    models: Sequence[IntegerModel],
    *,
    packed: Sequence[bool],
    sequences: int = 2,
    time: int = 6,
    golden: Golden | None = None,
) -> Path:
    """Write the exports of `models` and a main that runs all their self-tests; return the main.

    Each replays `golden`, or its own random sequences.
    """
    includes, calls = [], []
    for i, (model, small) in enumerate(zip(models, packed, strict=True)):
        name = f"m{i}"
        vectors = golden or draw_golden(model, sequences=sequences, time=time, seed=i)
        files = {**source_files(model, name, packed=small), **selftest_files(model, name, vectors)}
        for file, text in files.items():
            (folder / file).write_text(text)
        includes.append(f'#include "{name}.c"\n#include "test_{name}.c"\n')
        calls.append(f"    {{ static {name}_state s; bad += report({i}, {name}_test(&s)); }}\n")
    main = folder / "all.c"
    main.write_text(
        f"#include <stdio.h>\n#define HADAMRNN_NO_MAIN\n{''.join(includes)}"
        "static int report(int model, uint32_t differences)\n{\n"
        '    if (differences) printf("m%d: %lu differences\\n", model, (unsigned long)differences);\n'
        "    return differences != 0;\n}\n"
        f"int main(void)\n{{\n    int bad = 0;\n{''.join(calls)}"
        f'    printf("{len(models)} models, %d bad\\n", bad);\n    return bad != 0;\n}}\n'
    )
    return main


def compile_and_run(compiler: str, main: Path, flags: Sequence[str]) -> str:
    """Compile strictly and run; return the output. If either fails, the test fails."""
    program = main.with_suffix(f".{compiler}")
    built = subprocess.run(
        [compiler, *STRICT, *flags, str(main), "-o", str(program)], capture_output=True, text=True
    )
    assert built.returncode == 0, built.stderr[:3000]
    result = subprocess.run([str(program)], capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, (result.stdout + result.stderr)[-3000:]
    return result.stdout

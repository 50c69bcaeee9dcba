"""An Arduino library of an integer model, which PlatformIO takes as well.

library.properties, library.json    what the two package managers read
src/                                NAME.h, NAME.c, NAME_weights.h, NAME_window.h, NAME_window.c
examples/NAME/NAME.ino              the self-test over Serial, then a class for every window of readings
"""

from __future__ import annotations

from pathlib import Path

from hadamrnn.export.c import render, selftest_files, source_files
from hadamrnn.export.folder import check_name, fresh_folder
from hadamrnn.export.golden import Golden, draw_golden
from hadamrnn.export.libraries import manager_files
from hadamrnn.export.metadata import calibrated_length, class_symbols, summarise
from hadamrnn.export.plan import make_plan
from hadamrnn.fixedpoint.model import IntegerModel


def export_arduino(
    model: IntegerModel,
    out: Path | str,
    name: str = "hadamrnn",
    *,
    packed: bool = True,
    golden: Golden | None = None,
    force: bool = False,
) -> Path:
    """Write the library to the new folder `out`; return it. Arguments as those of `export_c`."""
    check_name(name)
    files = arduino_files(model, name, packed=packed, golden=golden)
    return fresh_folder(Path(out), files, force=force)


def arduino_files(
    model: IntegerModel, name: str, *, packed: bool = True, golden: Golden | None = None
) -> dict[str, str]:
    """Return the files of the library, path -> text."""
    golden = golden or draw_golden(model, sequences=2, time=8)
    summary = summarise(model)
    shared = {"name": name, "model": model, "summary": summary, "golden": golden}
    sources = source_files(model, name, packed=packed, summary=summary)
    tests = selftest_files(model, name, golden)
    return {
        **{f"src/{file}": text for file, text in sources.items()},
        **manager_files(name, summary),
        "README.md": render("README.md.j2", **shared, plan=make_plan(model), packed=packed, arduino=True),
        f"examples/{name}/{name}.ino": render(
            "sketch.ino.j2",
            **shared,
            calibrated_length=calibrated_length(model),
            classes=class_symbols(model),
        ),
        f"examples/{name}/test_{name}.h": tests[f"test_{name}.c"],
        f"examples/{name}/{name}_golden.h": tests[f"{name}_golden.h"],
    }

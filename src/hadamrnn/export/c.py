"""Write an integer model as C99: `export_c` writes a folder that builds and tests itself.

    hadamrnn.h        the program, the same for every network, with its parts hadamrnn_model.h (the kind
                      of data), hadamrnn_device.h (code only for devices), hadamrnn_units.h and
                      hadamrnn_window.h; start reading there
    NAME.h            the summary, the sizes, the functions
    NAME.c            the functions of hadamrnn.h, specialised for this network
    NAME_weights.h    the network as data, constants in flash
    NAME_window.h,    sliding windows over an endless stream: raw codes in, a class out every hop
    NAME_window.c
    NAME_detector.*   for an anomaly detector: raw codes in, alarms out; needs hadamrnn_detector.h
    NAME_decision.h   the rule by which windows raise an event, if `hadamrnn tune` was run
    shared/           hadamrnn_shared.*, compiled once for any number of networks, and this network as a
                      blob, NAME.bin, or as an array, NAME_blob.h
    test/             a main that replays golden vectors of the reference engine, bit for bit
    Makefile, README.md, and the files for several build systems (`metadata.py`)

`export_arduino` writes an Arduino library, which PlatformIO takes as well:

    library.properties, library.json    for the two package managers
    src/                                hadamrnn*.h, NAME.h, NAME.c, NAME_weights.h, NAME_window.*
    examples/NAME/NAME.ino              the self-test over Serial, then a class for every window of readings

`fixedpoint/blob.py` lays out the data according to `plan.py`; the templates in `runtime/` print it.
"""

from __future__ import annotations

import hashlib
import zlib
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from numpy.typing import NDArray

from hadamrnn.errors import InputError
from hadamrnn.export.detector import RUNTIME as DETECTOR
from hadamrnn.export.detector import detector_selftest, detector_sources
from hadamrnn.export.folder import check_name, fresh_folder, macro_prefix
from hadamrnn.export.golden import Golden, draw_golden
from hadamrnn.export.metadata import (
    class_symbols,
    component_files,
    manager_files,
    plain,
    summarise,
    version_numbers,
)
from hadamrnn.export.reservoir import RESERVOIR_RUNTIME, ReservoirData, ReservoirPlan, plan_reservoir
from hadamrnn.fixedpoint.alarms import decision_of, detection_of
from hadamrnn.fixedpoint.blob import ModelData, Place
from hadamrnn.fixedpoint.encoding import input_meaning, value_format
from hadamrnn.fixedpoint.file import VERSION, to_bytes
from hadamrnn.fixedpoint.integers import signed_range
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.fixedpoint.plan import Plan, make_plan
from hadamrnn.front_end import FrontEnd, front_end_bytes, front_end_numbers
from hadamrnn.packages import package_version
from hadamrnn.reservoir import file as reservoir_file
from hadamrnn.reservoir.model import IntegerReservoir
from hadamrnn.runtime import runtime_file

AnyModel = IntegerModel | IntegerReservoir
RUNTIME = ("hadamrnn.h", "hadamrnn_model.h", "hadamrnn_device.h", "hadamrnn_units.h", "hadamrnn_window.h")
SHARED_RUNTIME = ("hadamrnn_shared.c", "hadamrnn_shared.h", "hadamrnn_blob.h")
FRONT_END = "hadamrnn_front_end.h"
_LINE = 100  # characters per line of weights


def export_c(
    model: AnyModel,
    out: Path | str,
    name: str = "net",
    *,
    packed: bool = True,
    golden: Golden | None = None,
    force: bool = False,
) -> Path:
    """Write the C of `model` to the new folder `out`; return it.

    Args:
        name: prefix of every file and every symbol, a C identifier.
        packed: store each code of U and V in weight_bits; otherwise in one byte, for speed.
        golden: vectors for the self-test to replay; None for random ones.
        force: replace the files of an earlier export in `out`.
    """
    check_c_name(name)
    summary, version = summarise(model), version_numbers(package_version())
    detects = detection_of(model) is not None
    tests = selftest_files(model, name, golden or draw_golden(model))
    files: dict[str, str | bytes] = {
        **source_files(model, name, packed=packed),
        **_shared_folder(model, name, packed=packed),
        **{f"test/{file}": text for file, text in tests.items()},
        **manager_files(name, summary),
        **component_files(name, summary),
        "CMakeLists.txt": render("CMakeLists.txt.j2", name=name, three_numbers=version, detects=detects),
        "zephyr/CMakeLists.txt": render("zephyr.cmake.j2", name=name, detects=detects),
        "Makefile": render("Makefile.j2", name=name, detects=detects),
        "README.md": _readme(model, name, packed=packed, arduino=False),
    }
    return fresh_folder(Path(out), files, force=force)


def check_c_name(name: str) -> None:
    """Refuse a name that cannot prefix C symbols or is used by the runtime."""
    check_name(name)
    if name.lower() == "hadamrnn":
        raise InputError(
            f"The runtime of exported C is called hadamrnn, got the name {name!r}. Choose another."
        )


def source_files(model: AnyModel, name: str, *, packed: bool = True) -> dict[str, str]:
    """Return the files that firmware needs, by name: the runtime, the network, and windows over it."""
    is_reservoir, dense = isinstance(model, IntegerReservoir), model.input_kind == "dense"
    data = constants(model, packed=packed)
    meaning, prefix = input_meaning(model), macro_prefix(name)
    shared = {
        "name": name,
        "model": model,
        "data": data,
        "plan": data.plan,
        "summary": summarise(model),
        "guard": include_guard(name),
        "reservoir": is_reservoir,
        "dense": dense,
        "input": f"const int16_t x[{prefix}_INPUT_SIZE]" if dense else "uint32_t id",
        "window_input": f"const int32_t raw[{prefix}_INPUT_SIZE]" if dense else "uint32_t id",
        "input_range": signed_range(model.input_bits),
        "input_meaning": meaning[0].upper() + meaning[1:],
        "classes": class_symbols(model),
        "format_version": reservoir_file.VERSION if is_reservoir else VERSION,
        "checksum": hashlib.sha256(_file_bytes(model)).hexdigest()[:8],
        "calibrated_length": model.calibrated_length,
        "values": value_format(model),
    }
    return {
        **{file: runtime_file(file) for file in RUNTIME},
        **({RESERVOIR_RUNTIME: runtime_file(RESERVOIR_RUNTIME)} if is_reservoir else {}),
        f"{name}.h": render("model.h.j2", **shared),
        f"{name}.c": render("model.c.j2", **shared),
        f"{name}_weights.h": render("weights.h.j2", **shared),
        f"{name}_window.h": render("window.h.j2", **shared),
        f"{name}_window.c": render("window.c.j2", **shared),
        **_signal_files(model, shared),
        **_detector_files(model, shared),
        **_decision_files(model, shared),
    }


def constants(model: AnyModel, *, packed: bool = True) -> ModelData | ReservoirData:
    """Return the variables of the templates for a network of either kind."""
    return ReservoirData(model) if isinstance(model, IntegerReservoir) else ModelData(model, packed=packed)


def memory_plan(model: AnyModel) -> Plan | ReservoirPlan:
    """Return the memory of a stream of a network of either kind."""
    return plan_reservoir(model) if isinstance(model, IntegerReservoir) else make_plan(model)


def _file_bytes(model: AnyModel) -> bytes:
    return reservoir_file.to_bytes(model) if isinstance(model, IntegerReservoir) else to_bytes(model)


def _shared_folder(model: AnyModel, name: str, *, packed: bool) -> dict[str, str | bytes]:
    """Return the shared build; a reservoir has none."""
    if isinstance(model, IntegerReservoir):
        return {}
    return {f"shared/{file}": text for file, text in shared_files(model, name, packed=packed).items()}


def _signal_files(model: AnyModel, shared: dict[str, Any]) -> dict[str, str]:
    """Return the files of the front end and its tables, if the network has one."""
    front_end, name = model.network.front_end, shared["name"]
    if front_end is None:
        return {}
    tables, _ = front_end_bytes(front_end)
    given = {**shared, "front_end": front_end, "tables": tables, "fields": front_end_struct(front_end)}
    return {
        FRONT_END: runtime_file(FRONT_END),
        f"{name}_signal.h": render("signal.h.j2", **given),
        f"{name}_signal.c": render("signal.c.j2", **given),
    }


def _detector_files(model: AnyModel, shared: dict[str, Any]) -> dict[str, str]:
    files = detector_sources(model, shared, render)
    return {DETECTOR: runtime_file(DETECTOR), **files} if files else {}


def _decision_files(model: AnyModel, shared: dict[str, Any]) -> dict[str, str]:
    """Return the files of the decision, if the model has one."""
    decision, name = decision_of(model), shared["name"]
    if decision is None:
        return {}
    return {f"{name}_decision.h": render("decision.h.j2", **shared, decision=decision)}


def shared_files(model: IntegerModel, name: str, *, packed: bool = True) -> dict[str, str | bytes]:
    """Return the files of the shared runtime, except hadamrnn.h, and the blob of `model`, by name."""
    data = ModelData(model, packed=packed)
    return {
        **{file: runtime_file(file) for file in SHARED_RUNTIME},
        f"{name}.bin": data.blob,
        f"{name}_blob.h": render("blob.h.j2", name=name, blob=data.blob, plan=data.plan, model=model),
    }


def selftest_files(model: AnyModel, name: str, golden: Golden) -> dict[str, str]:
    """Return the files of the self-test and its vectors, by name."""
    classes, plan = class_symbols(model), memory_plan(model)
    shared: dict[str, Any] = {
        "name": name,
        "model": model,
        "golden": golden,
        "classes": classes,
        "plan": plan,
    }
    return {
        f"{name}_golden.h": render("golden.h.j2", **shared),
        f"test_{name}.c": render("test.c.j2", **shared),
        **detector_selftest(model, name, render),
    }


def _readme(model: AnyModel, name: str, *, packed: bool, arduino: bool) -> str:
    shared = {"model": model, "summary": summarise(model), "plan": memory_plan(model)}
    template = "README.reservoir.md.j2" if isinstance(model, IntegerReservoir) else "README.md.j2"
    return render(template, name=name, **shared, packed=packed, arduino=arduino)


def wrapped(values: NDArray[Any] | bytes) -> list[str]:
    """Return comma-separated numbers in lines of at most `_LINE` characters."""
    lines, line = [], ""
    for value in values if isinstance(values, bytes) else values.reshape(-1).tolist():
        # C has no constant -2^31, because 2^31 does not fit an int before the minus is applied.
        text = "(-2147483647 - 1)," if value == -(1 << 31) else f"{value},"
        if len(line) + len(text) + 1 > _LINE:
            lines.append(line)
            line = ""
        line = f"{line} {text}" if line else text
    return [*lines, line.removesuffix(",")]


def c_value(value: Any, name: str) -> str:
    """Format a field's value as C; a `Place` is an address in the array `NAME_data`."""
    if isinstance(value, tuple):
        return "{" + ", ".join(c_value(item, name) for item in value) + "}"
    if isinstance(value, Place):
        return f"&{name}_data[{value}]"
    return "NULL" if value is None else str(value)


def include_guard(name: str) -> str:
    """Return the prefix of a model's include guards, distinct even for names that differ only in case."""
    return f"{macro_prefix(name)}_{zlib.crc32(name.encode()):08X}"


def render(template: str, **variables: Any) -> str:
    """Render a template of `runtime/`."""
    names = {"NAME": macro_prefix(variables["name"]), "version": package_version()}
    functions = {"include_guard": include_guard, "wrapped": wrapped, "plain": plain, "c_value": c_value}
    return _environment().get_template(template).render(**names, **functions, **variables)


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("hadamrnn.export", "runtime"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )


def export_arduino(
    model: AnyModel,
    out: Path | str,
    name: str = "net",
    *,
    packed: bool = True,
    golden: Golden | None = None,
    force: bool = False,
) -> Path:
    """Write an Arduino library to the new folder `out`; return it. Arguments are those of `export_c`."""
    check_c_name(name)
    sources = source_files(model, name, packed=packed)
    tests = selftest_files(model, name, golden or draw_golden(model, sequences=2, time=8))
    files = {
        **{f"src/{file}": text for file, text in sources.items()},
        **manager_files(name, summarise(model)),
        "README.md": _readme(model, name, packed=packed, arduino=True),
        f"examples/{name}/{name}.ino": render(
            "sketch.ino.j2",
            name=name,
            model=model,
            calibrated_length=model.calibrated_length,
            classes=class_symbols(model),
        ),
        f"examples/{name}/test_{name}.h": tests[f"test_{name}.c"],
        f"examples/{name}/{name}_golden.h": tests[f"{name}_golden.h"],
    }
    return fresh_folder(Path(out), files, force=force)


def front_end_struct(front_end: FrontEnd) -> dict[str, str]:
    """Return the fields of `hadamrnn_front_end` as C by name; their tables are in `FRONT_END_DATA`."""
    _, starts = front_end_bytes(front_end)
    numbers = {name: f"{value}u" for name, value in front_end_numbers(front_end).items()}
    return numbers | {name: f"&FRONT_END_DATA[{start}]" for name, start in starts.items()}

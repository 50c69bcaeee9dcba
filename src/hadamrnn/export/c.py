"""C99 of an integer model: `export_c` writes a folder that builds and tests itself.

    NAME.h            the summary, the sizes, the functions
    NAME.c            the step and the read-out; start reading there
    NAME_weights.h    the weights, constants in flash
    NAME_window.h,    sliding windows over an endless stream: raw codes in, a class out every hop
    NAME_window.c
    test/             a main that replays golden vectors of the reference engine, bit for bit
    Makefile, README.md, and what makes the folder a library of several build systems (`metadata.py`)

`export_arduino` writes an Arduino library, which PlatformIO takes as well:

    library.properties, library.json    what the two package managers read
    src/                                NAME.h, NAME.c, NAME_weights.h, NAME_window.h, NAME_window.c
    examples/NAME/NAME.ino              the self-test over Serial, then a class for every window of readings

`plan.py` decides how the step computes, `layer_code.py` has the expressions of a layer; the templates in
`runtime/` print both.
"""

from __future__ import annotations

import hashlib
import zlib
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from numpy.typing import NDArray

from hadamrnn.export.folder import check_name, fresh_folder, macro_prefix
from hadamrnn.export.golden import Golden, draw_golden
from hadamrnn.export.layer_code import (
    CArray,
    Codes,
    LayerCode,
    padded_rows,
    read_value,
    times_power,
)
from hadamrnn.export.metadata import (
    class_symbols,
    component_files,
    manager_files,
    plain,
    summarise,
    version_numbers,
)
from hadamrnn.export.plan import Plan, has_input, make_plan, saturated_codes
from hadamrnn.fixedpoint.encoding import input_meaning
from hadamrnn.fixedpoint.file import VERSION, to_bytes
from hadamrnn.fixedpoint.integers import pack, signed_range
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.hadamard.orders import WILLIAMSON_NEGATIVE
from hadamrnn.network import COUNTED
from hadamrnn.version import package_version

_LINE = 100  # characters of a line of weights
# Functions that read a constant of flash: name, type, what AVR calls it.
_READERS = (
    ("byte", "uint8_t", "byte"),
    ("small", "int8_t", "byte"),
    ("word", "int16_t", "word"),
    ("long", "int32_t", "dword"),
)


def export_c(
    model: IntegerModel,
    out: Path | str,
    name: str = "hadamrnn",
    *,
    packed: bool = True,
    golden: Golden | None = None,
    force: bool = False,
) -> Path:
    """Write the C of `model` to the new folder `out`; return it.

    Args:
        name: prefix of every file and every symbol, a C identifier.
        packed: codes of U and V at weight_bits; else a byte each, for speed.
        golden: what the self-test replays; drawn at random when None.
        force: replace what a folder of that name holds of an earlier export.
    """
    check_name(name)
    summary, version = summarise(model), version_numbers(package_version())
    tests = selftest_files(model, name, golden or draw_golden(model))
    files = {
        **source_files(model, name, packed=packed),
        **{f"test/{file}": text for file, text in tests.items()},
        **manager_files(name, summary),
        **component_files(name, summary),
        "CMakeLists.txt": render("CMakeLists.txt.j2", name=name, three_numbers=version),
        "zephyr/CMakeLists.txt": render("zephyr.cmake.j2", name=name),
        "Makefile": render("Makefile.j2", name=name),
        "README.md": _readme(model, name, packed=packed, arduino=False),
    }
    return fresh_folder(Path(out), files, force=force)


def source_files(model: IntegerModel, name: str, *, packed: bool = True) -> dict[str, str]:
    """Return what a firmware needs, name -> text: the network, and windows over it."""
    plan, codes = make_plan(model), Codes(model.weight_storage_bits, packed)
    layers = tuple(LayerCode(model, index, planned, codes, name) for index, planned in enumerate(plan.layers))
    arrays = weight_arrays(model, plan, layers)
    total = sum(array.bytes for array in arrays)
    shared = {
        "name": name,
        "model": model,
        "plan": plan,
        "layers": layers,
        "packed": packed,
        "summary": summarise(model),
        **_terms(model, name, layers),
    }
    return {
        f"{name}.h": render("model.h.j2", **shared),
        f"{name}.c": render("model.c.j2", **shared),
        f"{name}_weights.h": render("weights.h.j2", **shared, arrays=arrays, total=total),
        f"{name}_window.h": render("window.h.j2", **shared),
        f"{name}_window.c": render("window.c.j2", **shared),
    }


def selftest_files(model: IntegerModel, name: str, golden: Golden) -> dict[str, str]:
    """Return the self-test and its vectors, name -> text."""
    shared: dict[str, Any] = {"name": name, "model": model, "golden": golden, "classes": class_symbols(model)}
    return {
        f"{name}_golden.h": render("golden.h.j2", **shared),
        f"test_{name}.c": render("test.c.j2", **shared),
    }


def _readme(model: IntegerModel, name: str, *, packed: bool, arduino: bool) -> str:
    shared = {"model": model, "summary": summarise(model), "plan": make_plan(model)}
    return render("README.md.j2", name=name, **shared, packed=packed, arduino=arduino)


def weight_arrays(model: IntegerModel, plan: Plan, layers: tuple[LayerCode, ...]) -> list[CArray]:
    """Return the constants of `model`; a zero U or bias is left out."""
    arrays = [array for layer in layers for array in layer.arrays()]
    arrays += _readout_arrays(model, layers[-1])
    if model.embedding_int is not None and has_input(model.layers[0]):
        table = model.embedding_int.reshape(-1)
        arrays.append(CArray("embedding", layers[0].code_type, "x of every id, row after row", table))
    if model.raw_offset is not None and model.raw_multiplier is not None and model.raw_shift is not None:
        arrays.append(CArray("raw_offset", "int32_t", "x = (raw - offset)", model.raw_offset))
        arrays.append(CArray("raw_multiplier", "int32_t", "* multiplier", model.raw_multiplier))
        arrays.append(CArray("raw_shift", "uint8_t", "/ 2^shift", model.raw_shift))
    if model.raw_knee is not None:
        arrays.append(CArray("raw_knee", "uint8_t", "2^knee, where raw is compressed", model.raw_knee))
    for factor in plan.factors:
        comment = f"what generates the Hadamard matrix of order {factor.order}, a bit each"
        signs = pack(np.array(factor.signs), 1)
        arrays.append(CArray(f"factor{factor.order}_signs", "uint8_t", comment, signs))
    return arrays


def _readout_arrays(model: IntegerModel, top: LayerCode) -> list[CArray]:
    """V, b_o, thresholds and the shifts of features, the units of each read-out in groups of eight."""

    def by_groups(array: NDArray[Any], fill: int = 0) -> NDArray[Any]:
        blocks = array.reshape(*array.shape[:-1], -1, model.hidden_size)
        padded = padded_rows(blocks, top.plan.rows)
        padded[..., model.hidden_size :] = fill
        return padded

    arrays = [top.codes.array("output_weight", "V, row after row", by_groups(model.output_weight_int))]
    if np.any(model.output_bias_int):
        arrays.append(CArray("output_bias", top.bias_type, "b_o", model.output_bias_int))
    if model.thresholds_int is not None:
        rows = by_groups(model.thresholds_int)
        arrays.append(CArray("thresholds", top.bias_type, "theta, row after row", rows))
    if model.feature_shift is not None:
        shifts = by_groups(model.feature_shift, fill=1)
        arrays.append(CArray("feature_shift", "uint8_t", "of what V sees", shifts))
    return arrays


def _terms(model: IntegerModel, name: str, layers: tuple[LayerCode, ...]) -> dict[str, Any]:
    """Return what the templates of NAME.h and NAME.c fill in beyond the model itself."""
    top, lowest, network = layers[-1], layers[0], model.network
    meaning = input_meaning(model)
    rows = max(network.thresholds, 1)
    groups = [top.plan.groups * (rows if kind in COUNTED else 1) for kind in network.readouts]
    multipliers = model.feature_multiplier or (0,) * len(network.readouts)
    copied = saturated_codes(model)
    alone = lowest.reads and lowest.one_column and model.input_kind == "dense" and model.input_bits < 16
    output_bias = read_value(top.name, top.bias_type, f"{top.name}_output_bias + k")
    return {
        "guard": f"{macro_prefix(name)}_{zlib.crc32(name.encode()):08X}",
        "input_range": signed_range(model.input_bits),
        "raw_meaning": meaning[0].upper() + meaning[1:],
        "classes": class_symbols(model),
        "format_version": VERSION,
        "checksum": hashlib.sha256(to_bytes(model)).hexdigest()[:8],
        "calibrated_length": model.calibrated_length,
        "kinds": network.readouts,
        "forgets": network.forgets,
        "bits": model.weight_storage_bits,
        "top": top,
        "readers": _READERS,
        "code": lambda pointer, i: top.codes.read(top.name, pointer, i),
        "read_value": read_value,
        "times_power": times_power,
        "saturated_codes": copied,
        "saturates": copied > 0 or alone,
        "blocks": list(zip(network.readouts, multipliers, groups, strict=True)),
        "feature_groups": sum(groups),
        "threshold_rows": rows,
        "feature_top": signed_range(model.feature_bits or 2)[1],
        "output_bias_term": f"{output_bias}{times_power(model.output_bias_shift)}"
        if np.any(model.output_bias_int)
        else "0",
        "negative_mask": sum(mask << 4 * r for r, mask in enumerate(WILLIAMSON_NEGATIVE)),
    }


def wrapped(values: NDArray[Any]) -> list[str]:
    """Return comma separated numbers in lines of at most `_LINE` characters."""
    lines, line = [], ""
    for value in values.reshape(-1).tolist():
        # -2^31 is no C constant: 2^31 does not fit an int before its minus is applied.
        text = "(-2147483647 - 1)," if value == -(1 << 31) else f"{value},"
        if len(line) + len(text) + 1 > _LINE:
            lines.append(line)
            line = ""
        line = f"{line} {text}" if line else text
    return [*lines, line.removesuffix(",")]


def render(template: str, **variables: Any) -> str:
    """Return the template of `runtime/` filled in."""
    names = {"NAME": macro_prefix(variables["name"]), "version": package_version()}
    functions = {"wrapped": wrapped, "plain": plain}
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

"""C99 of an integer model: `export_c` writes a folder that builds and tests itself.

    NAME.h            the summary, the sizes, the four functions
    NAME.c            the step and the read-out; start reading there
    NAME_weights.h    the weights, constants in flash
    test_NAME.c       a main that replays NAME_golden.h, made by the reference engine, bit for bit
    Makefile, README.md

`plan.py` decides how the step computes; the templates in `runtime/` print it.
"""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from numpy.typing import NDArray

from hadamrnn.export.folder import check_name, fresh_folder, macro_prefix
from hadamrnn.export.golden import Golden, draw_golden
from hadamrnn.export.metadata import Summary, calibrated_length, class_symbols, plain, summarise
from hadamrnn.export.plan import GROUP, Plan, has_input, make_plan
from hadamrnn.fixedpoint.encoding import input_meaning
from hadamrnn.fixedpoint.file import VERSION, to_bytes
from hadamrnn.fixedpoint.integers import signed_range
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.fixedpoint.packing import pack, pack_signs
from hadamrnn.hadamard.factors import WILLIAMSON_NEGATIVE
from hadamrnn.version import package_version

_LINE = 100  # characters of a line of weights


@dataclass(frozen=True)
class CArray:
    """One constant array of the weights file."""

    name: str
    type: str
    comment: str
    values: NDArray[Any]

    @property
    def count(self) -> int:
        return int(self.values.size)

    @property
    def bytes(self) -> int:
        return self.count * int(self.type.removeprefix("u").removeprefix("int").removesuffix("_t")) // 8

    @property
    def lines(self) -> list[str]:
        return wrapped(self.values)


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
    files = c_files(model, name, packed=packed, golden=golden)
    return fresh_folder(Path(out), files, force=force)


def c_files(
    model: IntegerModel, name: str, *, packed: bool = True, golden: Golden | None = None
) -> dict[str, str]:
    """Return the files of the folder, name -> text."""
    golden = golden or draw_golden(model)
    summary = summarise(model)
    shared: dict[str, Any] = {"name": name, "model": model, "summary": summary, "golden": golden}
    return {
        **source_files(model, name, packed=packed, summary=summary),
        f"{name}_golden.h": render("golden.h.j2", **shared),
        f"test_{name}.c": render("test.c.j2", **shared),
        "Makefile": render("Makefile.j2", **shared),
        "README.md": render("README.md.j2", **shared, plan=make_plan(model), packed=packed, arduino=False),
    }


def source_files(
    model: IntegerModel, name: str, *, packed: bool = True, summary: Summary | None = None
) -> dict[str, str]:
    """Return the three files that a firmware needs, name -> text."""
    plan = make_plan(model)
    arrays = weight_arrays(model, plan, packed=packed)
    total = sum(array.bytes for array in arrays)
    shared = {
        "name": name,
        "model": model,
        "plan": plan,
        "packed": packed,
        "summary": summary or summarise(model),
    }
    return {
        f"{name}.h": render("model.h.j2", **shared, **_h_terms(model, name)),
        f"{name}.c": render("model.c.j2", **shared, **_c_terms(model, plan, name, packed)),
        f"{name}_weights.h": render("weights.h.j2", **shared, arrays=arrays, total=total),
    }


def _h_terms(model: IntegerModel, name: str) -> dict[str, Any]:
    """Return what the template of NAME.h fills in beyond the model itself."""
    meaning = input_meaning(model)
    return {
        "guard": f"{macro_prefix(name)}_{zlib.crc32(name.encode()):08X}_H",
        "input_range": signed_range(model.input_bits),
        "raw_meaning": meaning[0].upper() + meaning[1:],
        "classes": class_symbols(model),
        "format_version": VERSION,
        "checksum": hashlib.sha256(to_bytes(model)).hexdigest()[:8],
        "calibrated_length": calibrated_length(model),
    }


def weight_arrays(model: IntegerModel, plan: Plan, *, packed: bool) -> list[CArray]:
    """Return the constants of `model`, rows in groups of eight; a zero U or bias is left out."""
    bits = model.weight_storage_bits
    how = f"{bits} bits each" if packed and bits < 8 else "a byte each"

    def rows(array: NDArray[Any]) -> NDArray[Any]:
        """Fill up the last axis, the rows of the state, with zeros to whole groups."""
        return np.pad(array, [*[(0, 0)] * (array.ndim - 1), (0, plan.rows - model.hidden_size)])

    def codes(name: str, comment: str, array: NDArray[Any]) -> CArray:
        small = packed and bits < 8
        values = pack(array, bits) if small else array.reshape(-1)
        return CArray(name, "uint8_t" if small else "int8_t", f"{comment}, {how}", values)

    arrays = [CArray("signs", "uint8_t", "u, a bit each, 1 for -1", pack_signs(rows(model.only_layer.signs)))]
    if model.only_layer.column_signs is not None:
        columns = pack_signs(rows(model.only_layer.column_signs))
        arrays.append(CArray("column_signs", "uint8_t", "v, a bit each, 1 for -1", columns))
    if has_input(model):
        arrays.append(_input_codes(model, rows(model.only_layer.input_weight_int.T), codes))
    if model.only_layer.input_bias_int is not None:
        arrays.append(CArray("input_bias", state_type(model), "b_i", rows(model.only_layer.input_bias_int)))
    arrays.append(codes("output_weight", "V, row after row", rows(model.output_weight_int)))
    if np.any(model.output_bias_int):
        arrays.append(CArray("output_bias", state_type(model), "b_o", model.output_bias_int))
    if model.embedding_int is not None:
        table = model.embedding_int.reshape(-1)
        arrays.append(CArray("embedding", code_type(model), "x of every id, row after row", table))
    if model.raw_offset is not None and model.raw_multiplier is not None and model.raw_shift is not None:
        arrays.append(CArray("raw_offset", "int32_t", "x = (raw - offset)", model.raw_offset))
        arrays.append(CArray("raw_multiplier", "int32_t", "* multiplier", model.raw_multiplier))
        arrays.append(CArray("raw_shift", "uint8_t", "/ 2^shift", model.raw_shift))
    for factor in plan.factors:
        comment = f"what generates the Hadamard matrix of order {factor.order}, a bit each"
        signs = pack_signs(np.array(factor.signs))
        arrays.append(CArray(f"factor{factor.order}_signs", "uint8_t", comment, signs))
    return arrays


def _input_codes(model: IntegerModel, columns: NDArray[Any], codes: Any) -> CArray:
    """U by columns `(input_size, rows)` where a step reads one column, else by groups of eight rows."""
    if model.input_kind == "one_hot" or model.input_size == 1:
        array: CArray = codes("input_weight", "U, column after column", columns)
        return array
    groups = columns.reshape(model.input_size, -1, GROUP).swapaxes(0, 1)
    grouped: CArray = codes("input_weight", "U, (group of 8 rows, column, row)", groups)
    return grouped


def state_type(model: IntegerModel) -> str:
    return "int8_t" if model.activation_bits <= 8 else "int16_t"


def code_type(model: IntegerModel) -> str:
    return "int8_t" if model.input_bits <= 8 else "int16_t"


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


def _c_terms(model: IntegerModel, plan: Plan, name: str, packed: bool) -> dict[str, Any]:
    """Return the expressions of one model that the template of NAME.c fills in."""
    prefix, bits = macro_prefix(name), model.weight_storage_bits
    small = packed and bits < 8
    pair_passes = [p for p in plan.state if plan.cell_bits == 16 and p.radix <= 4 and p.stride % 2 == 0]
    single = model.input_kind == "one_hot" or (model.input_kind == "dense" and model.input_size == 1)
    right = max(-model.only_layer.input_shift, 0)
    drive = f"((drive + INT32_C({1 << right >> 1})) >> {right})" if right else "drive"
    embedded = model.input_kind == "embedded"
    saturates = model.input_kind == "dense" and model.input_bits < 16 and has_input(model)

    def code(pointer: str, i: int) -> str:
        """Return code i of the group of eight at `pointer`."""
        if not small:
            return f"{prefix}_IN_BYTE({pointer} + {i})"
        byte, bit = divmod(bits * i, 8)
        where = f"{pointer} + {byte}" if byte else pointer
        if bit + bits <= 8:
            return f"{prefix}_IN_BYTE({where}, {8 - bit - bits})"
        return f"{prefix}_IN_TWO({where}, {16 - bit - bits})"

    def read(kind: str, pointer: str) -> str:
        return f"(int8_t){prefix}_BYTE({pointer})" if kind == "int8_t" else f"{prefix}_WORD({pointer})"

    code_text = "x[0]" if single else "x[j]"
    code_text = f"{name}_saturated({code_text})" if saturates else code_text
    biases, output_biases = model.network.input_bias, np.any(model.output_bias_int)
    bias = f"(int32_t){read(state_type(model), 'bias')}{times_power(model.only_layer.input_bias_shift)}"
    output_bias = f"(int32_t){read(state_type(model), f'{name}_output_bias + k')}"
    return {
        "bits": bits,
        "code": code,
        "times_power": times_power,
        "pair_passes": pair_passes,
        "pair_radices": sorted({p.radix for p in pair_passes}),
        "state_radices": sorted({p.radix for p in plan.state if p.radix <= 4 and p not in pair_passes}),
        "work_radices": sorted({p.radix for p in plan.work[1:]}),
        "with_input": has_input(model),
        "with_bias": biases,
        "bias_type": state_type(model),
        "weight_type": "uint8_t" if small else "int8_t",
        "drive": "factor" if single else "sum",
        "drive_term": drive,
        "bias_term": f" + {bias}" if biases else "",
        "output_bias_term": output_bias + times_power(model.output_bias_shift) if output_biases else "0",
        "embedding_type": code_type(model),
        "saturates": saturates,
        "code_read": read(code_type(model), "x + j") if embedded else code_text,
        "negative_mask": sum(mask << 4 * r for r, mask in enumerate(WILLIAMSON_NEGATIVE)),
        "high": signed_range(model.activation_bits)[1],
    }


def times_power(shift: int) -> str:
    """Return ` * 2^shift`, a product since C leaves a left shift of negative numbers undefined."""
    return f" * INT32_C({1 << shift})" if shift > 0 else ""


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

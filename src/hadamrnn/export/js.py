"""Write an integer model as JavaScript: `export_js` writes a folder with one self-contained ES module.

    NAME.js, NAME.d.ts    the runtime followed by the network as data; its types
    test.js, golden.json  a self-test that replays golden vectors, bit for bit: node test.js
    package.json, README.md

The runtime is `runtime/network.js`, the same for every network and for the live pages. Start reading there.
"""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hadamrnn.architecture import stored_bits
from hadamrnn.export.c import render
from hadamrnn.export.detector import detector_js, golden_levels
from hadamrnn.export.folder import MARKER, check_name, fresh_folder
from hadamrnn.export.golden import Golden, draw_golden
from hadamrnn.export.metadata import Summary, summarise
from hadamrnn.export.reservoir import js_reservoir_arrays, js_reservoir_groups
from hadamrnn.fixedpoint.alarms import decision_of
from hadamrnn.fixedpoint.base import IntegerBase
from hadamrnn.fixedpoint.encoding import value_format, value_scaling
from hadamrnn.fixedpoint.integers import pack
from hadamrnn.fixedpoint.layer import IntegerLayer
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.front_end import FrontEnd, table_fields
from hadamrnn.hadamard.orders import factor_matrix, order_factors
from hadamrnn.packages import package_version
from hadamrnn.reservoir.model import IntegerReservoir

RUNTIME = Path(__file__).parent / "runtime"


def export_js(
    model: IntegerModel | IntegerReservoir,
    out: Path | str,
    name: str = "net",
    *,
    golden: Golden | None = None,
    force: bool = False,
) -> Path:
    """Write `model` as JavaScript to the new folder `out`; return it. Arguments are those of `export_c`."""
    check_name(name)
    summary, levels = summarise(model), golden_levels(model)
    package = {
        "name": name.lower(),
        "version": "1.0.0",
        "description": summary.title,
        "type": "module",
        "exports": {".": {"types": f"./{name}.d.ts", "default": f"./{name}.js"}},
        "scripts": {"test": "node test.js"},
        "private": True,
    }
    files = {
        f"{name}.js": js_module(model, summary),
        f"{name}.d.ts": runtime_text("network.d.ts") + (runtime_text("detector.d.ts") if levels else ""),
        "test.js": runtime_text("selftest.js").replace("MODULE", f"{name}.js"),
        "golden.json": _golden_text(golden or draw_golden(model), levels),
        "package.json": json.dumps(package, indent=2) + "\n",
        "README.md": render("README.js.md.j2", name=name, model=model, summary=summary),
    }
    return fresh_folder(Path(out), files, force=force)


def js_module(model: IntegerModel | IntegerReservoir, summary: Summary) -> str:
    """Return the text of the ES module: the runtime, then the network."""
    lines = "\n".join(f" * {line}" for line in (summary.title, *summary.lines))
    head = f"/* {MARKER} {package_version()}:\n{lines}\n */\n".replace("</", "< /")  # no </script> in a page
    is_reservoir = isinstance(model, IntegerReservoir)
    data = json.dumps(js_fields(model), separators=(",", ":")).replace("<", "\\u003c")
    runtime = runtime_text("network.js") + ("\n" + runtime_text("reservoir.js") if is_reservoir else "")
    kind = "Reservoir" if is_reservoir else "Network"
    tail = f"\nexport const network = new {kind}({data});\nexport default network;\n"
    extras = _js_front_end(model) + detector_js(model, runtime_text) + _js_decision(model)
    return head + runtime + tail + extras


def _js_front_end(model: IntegerModel | IntegerReservoir) -> str:
    """Return the front end as JavaScript, if the network has one."""
    if model.network.front_end is None:
        return ""
    fields = json.dumps(front_end_js(model.network.front_end), separators=(",", ":"))
    return f"\n{runtime_text('front_end.js')}\nexport const frontEnd = new FrontEnd({fields});\n"


def _js_decision(model: IntegerModel | IntegerReservoir) -> str:
    """Return the decision as JavaScript, if the model has one."""
    decision = decision_of(model)
    if decision is None:
        return ""
    fields = json.dumps(asdict(decision), separators=(",", ":"))
    return f"\n{runtime_text('decision.js')}\nexport const decider = () => new Decider({fields});\n"


def runtime_text(file: str) -> str:
    return (RUNTIME / file).read_text(encoding="utf-8")


def _common(model: IntegerModel | IntegerReservoir) -> dict[str, Any]:
    """Return the fields for inputs and outputs, which all kinds of network share."""
    dense = model.input_kind == "dense"
    offset, scale = value_scaling(model) if dense else (None, None)
    return {
        "inputKind": model.input_kind,
        "inputSize": model.input_size,
        "inputBits": model.input_bits,
        "outputSize": model.output_size,
        "vocabularySize": model.vocabulary_size,
        "everyOutput": model.every_output,
        "classNames": model.class_names,
        "calibratedLength": model.calibrated_length,
        "rawUnit": model.raw_unit if dense else None,
        "offset": offset,
        "scale": scale,
        "logitScale": model.logit_scale,
        "longest": model.longest,
        "outputBiasShift": model.output_bias_shift,
        "raw": _raw(model),
        "values": _values(model),
    }


def js_fields(model: IntegerModel | IntegerReservoir) -> dict[str, Any]:
    """Return the argument of `networkOf` in the JavaScript runtime."""
    return js_reservoir(model) if isinstance(model, IntegerReservoir) else js_model(model)


def js_reservoir(model: IntegerReservoir) -> dict[str, Any]:
    """Return the argument of `new Reservoir` in the JavaScript runtime."""
    none = dict.fromkeys(("featureShift", "embedding"))
    layers = {"layers": [], "matrices": {}, "thresholds": [0, 2, ""]}
    arrays = {name: packed(array, bits) for name, (array, bits) in js_reservoir_arrays(model).items()}
    sizes = {"weightBits": model.network.weight_bits, "groups": js_reservoir_groups(model)}
    return {**_common(model), **none, **layers, **arrays, **sizes}


def js_model(model: IntegerModel) -> dict[str, Any]:
    """Return the argument of `new Network` in the JavaScript runtime: numbers, and packed codes in base64."""
    network = model.network
    factors = {factor for layer in model.layers for factor in order_factors(layer.block_size)}
    return {
        **_common(model),
        "weightBits": model.weight_storage_bits,
        "stateBits": model.activation_bits,
        "recurrence": network.recurrence,
        "stride": network.stride,
        "readouts": network.readouts,
        "layers": [_layer(layer) for layer in model.layers],
        "matrices": {str(order): packed(factor_matrix(order), 1) for order in sorted(factors - {2})},
        "thresholds": packed(model.thresholds_int, model.activation_bits),
        "featureBits": model.feature_bits,
        "featureMultiplier": model.feature_multiplier,
        "featureShift": None if model.feature_shift is None else model.feature_shift.tolist(),
        "outputWeight": packed(model.output_weight_int, model.weight_storage_bits),
        "outputBias": packed(model.output_bias_int, model.activation_bits),
        "embedding": packed(model.embedding_int, model.input_bits),
    }


def _values(model: IntegerBase) -> dict[str, Any] | None:
    """Return the fields that turn a regressor's logits into values; None for other models."""
    values = value_format(model)
    if values is None:
        return None
    return {
        "fracBits": values.frac_bits,
        "multiplier": values.multiplier.tolist(),
        "shift": values.shift.tolist(),
        "offset": values.offset.tolist(),
    }


def _layer(layer: IntegerLayer) -> dict[str, Any]:
    return {
        "units": layer.hidden_size,
        "seen": layer.input_size,
        "blockSize": layer.block_size,
        "factors": order_factors(layer.block_size),
        "leak": layer.leak or None,
        "stateShift": layer.state_shift,
        "inputShift": layer.input_shift,
        "biasShift": layer.input_bias_shift,
        "multiplier": layer.round_multiplier,
        "roundShift": layer.round_shift,
        "signs": packed(layer.signs, 1),
        "weight": packed(layer.input_weight_int, stored_bits(layer.weight_bits)),
        "bias": packed(layer.input_bias_int, layer.activation_bits),
        "gain": packed(layer.gain_int, layer.activation_bits),
        "offset": packed(layer.offset_int, layer.activation_bits),
        "gainShift": layer.gain_shift,
        "offsetShift": layer.offset_shift,
        "skipShift": layer.skip_shift,
        "outputBits": layer.output_bits,
    }


def packed(codes: NDArray[Any] | None, bits: int) -> tuple[int, int, str] | None:
    """Return codes as [count, bits, base64], where codes of one bit are signs; None stays None."""
    if codes is None:
        return None
    return int(codes.size), bits, base64.b64encode(pack(codes, bits).tobytes()).decode()


def deflated(codes: NDArray[Any]) -> str:
    """Return int32 codes deflated in base64. All lowest bytes come first, because high bytes repeat."""
    planes = codes.astype("<i4").reshape(-1, 1).view(np.uint8).T
    return base64.b64encode(zlib.compress(planes.tobytes(), 9)).decode()


def _raw(model: IntegerBase) -> dict[str, list[int] | None] | None:
    if model.raw_offset is None or model.raw_multiplier is None or model.raw_shift is None:
        return None
    return {
        "offset": model.raw_offset.tolist(),
        "multiplier": model.raw_multiplier.tolist(),
        "shift": model.raw_shift.tolist(),
        "knee": None if model.raw_knee is None else model.raw_knee.tolist(),
    }


def _golden_text(golden: Golden, levels: dict[str, Any]) -> str:
    names = ("inputs", "logits", "classes", "raw", "encoded")
    arrays = {name: getattr(golden, name).tolist() for name in names}
    return json.dumps({**arrays, "every": golden.every, "source": golden.source, **levels}) + "\n"


def front_end_js(front_end: FrontEnd) -> dict[str, Any]:
    """Return the argument of `new FrontEnd` in the JavaScript runtime."""
    return {
        "frame": front_end.frame,
        "hop": front_end.hop,
        "fftSize": front_end.fft_size,
        "bands": front_end.bands,
        "isMel": front_end.is_mel,
        "noiseShift": front_end.noise_shift,
        **{name: table.tolist() for name, table in table_fields(front_end).items()},
    }

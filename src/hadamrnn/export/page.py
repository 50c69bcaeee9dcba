"""Write pages that run an integer model: `live_network` adds one to any page, `export_page` writes a page.

A network with a sound front end can read the microphone (`listening_data`). The page is self-contained: it

includes the runtime of `export --to js`, the network and stored sequences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import log
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hadamrnn.errors import InputError
from hadamrnn.export.folder import check_name, fresh_folder
from hadamrnn.export.js import deflated, front_end_js, js_fields, runtime_text
from hadamrnn.export.metadata import summarise
from hadamrnn.export.reservoir import group_line
from hadamrnn.fixedpoint.alarms import NEVER, Decision, decision_of
from hadamrnn.fixedpoint.cost import fast_step_cost, network_size
from hadamrnn.fixedpoint.encoding import value_format
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.pages.document import Document, Live, LivePart, to_html
from hadamrnn.reservoir.cost import reservoir_size, reservoir_step_cost
from hadamrnn.reservoir.model import IntegerReservoir
from hadamrnn.settings import check_int

MAX_SEQUENCES = 300
MAX_CODES_BYTES = 120_000  # most bytes of stored sequences; base64 adds a third


@dataclass(frozen=True, eq=False)
class Stored:
    """The sequences that a page plays and evaluates.

    Args:
        codes: `(n, time, input_size)` codes or `(n, time)` ids, as the engine takes them.
        raw: whether `codes` are raw readings, which the page encodes as a device does.
        labels: `(n,)`, or `(n, time)` if every output is used.
        lengths: `(n,)` numbers of valid steps; None if all are valid.
    """

    codes: NDArray[Any]
    labels: NDArray[Any]
    lengths: NDArray[Any] | None = None
    raw: bool = False


def drawing_pad(
    side: int,
    codes: NDArray[Any],
    box: float,
    radius: float,
    by_mass: bool = False,
    order: NDArray[Any] | None = None,
) -> dict[str, Any]:
    """Return the data of a square image that is read one pixel per step.

    Args:
        side: width and height in pixels.
        codes: input codes for the pixel levels 0, 1, ..., `len(codes) - 1`.
        box: height of a drawing after scaling, in pixels.
        radius: radius of the pen in pixels.
        by_mass: whether to centre a drawing by its centre of mass instead of its bounding box.
        order: the pixel that each step reads; None for row by row.
    """
    return {
        "side": side,
        "top": len(codes) - 1,
        "codes": codes.tolist(),
        "box": box,
        "radius": radius,
        "byMass": by_mass,
        "order": None if order is None else order.tolist(),
    }


def stored_rows(model: IntegerModel | IntegerReservoir, total: int, time: int) -> NDArray[np.int64]:
    """Return the indices of test sequences for a page: evenly spaced, as many of `total` as fit."""
    bits = model.input_size * model.input_bits
    if model.input_kind != "dense":
        bits = model.vocabulary_size.bit_length() + 1  # ids are stored with a sign bit, which stays 0
    fitting = 8 * MAX_CODES_BYTES // (time * bits)
    count = max(1, min(MAX_SEQUENCES, fitting, total))
    return np.linspace(0, total - 1, count).astype(np.int64)


def live_network(
    model: IntegerModel | IntegerReservoir,
    name: str,
    title: str,
    stored: Stored,
    *,
    paragraphs: tuple[str, ...] = (),
    classes: Sequence[str] = (),
    pad: Mapping[str, Any] | None = None,
    word: Mapping[str, Any] | None = None,
    sensor: Mapping[str, Any] | None = None,
    clips: Sequence[Clip] = (),
    together: str = "",
    figures: tuple[tuple[str, str], ...] = (),
) -> Live:
    """Return a network as data for a page.

    Args:
        classes: names of the classes; by default the model's names, or else numbers.
        pad, word, sensor: sources of input that replace the stored sequences; `drawing_pad` makes a pad.
        word: the copy task as a typed word, two symbols per letter: an `example` to start with, the
            number of `symbols` (each 1 to `base`), the steps of the `delay`, the id of the `marker`.
        sensor: a phone's motion sensors, with nine channels as in UCI HAR: the limits `still` and `slow` of
            the clipped copies (see `with_fine`), and the readings per second, `rate`.
        clips: recordings that a network with a sound front end plays, besides the microphone.
        together: networks of a page with the same name here read the same drawing, side by side.
        figures: labels and values to show in addition to the model's own.
    """
    dense = model.input_kind == "dense"
    names = [*classes] or model.class_names or [str(k) for k in range(max(model.output_size, 2))]
    data = {
        "model": js_fields(model),
        "layers": _layers(model),
        "classes": names,
        "stored": {
            "deflated": deflated(stored.codes),
            "raw": stored.raw,
            "steps": stored.codes.shape[1],
            "width": model.input_size if dense else 1,
            "lengths": None if stored.lengths is None else stored.lengths.tolist(),
            "labels": stored.labels.tolist(),
        },
        "pad": pad,
        "word": word,
        "sensor": sensor,
        "listening": listening_data(model, names, stored.codes.shape[1], clips),
        "together": together,
        "figures": [*_figures(model), *figures],
    }
    return Live(name, title, data, paragraphs)


def _layers(model: IntegerModel | IntegerReservoir) -> list[tuple[str, int]]:
    """Return the name and number of units of each layer, or of each group of a reservoir."""
    if isinstance(model, IntegerReservoir):
        return [(group_line(group), group.units) for group in model.network.groups]
    return [(str(index), layer.hidden_size) for index, layer in enumerate(model.layers, 1)]


def _figures(model: IntegerModel | IntegerReservoir) -> list[tuple[str, str]]:
    """Return the size of the weights and the additions of the recurrence, with their labels."""
    if isinstance(model, IntegerReservoir):
        size, cost = reservoir_size(model.features).bytes, reservoir_step_cost(model.features)
    else:
        size, cost = network_size(model.network).bytes, fast_step_cost(model.network)
    return [
        ("weights", f"{size:,} bytes"),
        ("additions to update the memory", f"{cost.recurrent.additions:,} per step"),
    ]


def export_page(
    model: IntegerModel | IntegerReservoir,
    out: Path | str,
    name: str,
    stored: Stored,
    *,
    title: str = "",
    pad: Mapping[str, Any] | None = None,
    force: bool = False,
) -> Path:
    """Write NAME.html with the live network to the new folder `out`; return the folder."""
    check_name(name)
    if stored.labels.dtype.kind not in "iub" or value_format(model) is not None:
        raise InputError(
            "A page shows classes, and this task's targets are real numbers. Export to js and plot them."
        )
    steps = stored.codes.shape[1] if stored.lengths is None else int(stored.lengths.max())
    check_int("The steps of a stored sequence", steps, 1, model.longest or steps)
    title = title or name
    live = live_network(model, name, f"{title}, read step by step", stored, paragraphs=(ABOUT,), pad=pad)
    document = Document(title, (f"{summarise(model).title[2:].capitalize()}.",), live=live_part(live))
    return fresh_folder(Path(out), {f"{name}.html": to_html(document)}, force=force)


ABOUT = (
    "The network runs in this page, with the same integers as the exported C. It reads one step at a time "
    "and shows the answer that it would give if the sequence ended there. Flip its signs or round its "
    "weights to fewer bits, and see how many answers stay right."
)


RUNTIME = ("network.js", "reservoir.js", "front_end.js", "decision.js")


def live_part(*networks: Live) -> LivePart:
    return LivePart(networks, "".join(map(runtime_text, RUNTIME)))


# The default decision for a model without one. Windows have ten hops. A class raises an event if it wins
# three of four windows by at least the margin that gives one of two classes this probability. The next event
# can come one window later.
HOPS, NEEDED, VOTES, SURE = 10, 3, 4, 0.7
IDLE = frozenset({"silence", "unknown", "noise", "background", "other"})  # classes that raise no event


@dataclass(frozen=True, eq=False)
class Clip:
    """A recording that a page plays: int16 samples `(time,)` at the front end's rate, and its class."""

    samples: NDArray[np.int16]
    label: int


def listening_data(
    model: IntegerModel | IntegerReservoir, classes: Sequence[str], steps: int, clips: Sequence[Clip]
) -> dict[str, Any] | None:
    """Return the data for `live/listening.js`; None for a network without a sound front end.

    Args:
        steps: length of the training sequences; the window has this length, rounded up to whole hops.
    """
    front_end = model.network.front_end
    if front_end is None or not front_end.is_mel or front_end.unit != 1:
        return None
    return {
        "frontEnd": front_end_js(front_end),
        "rate": front_end.rate,
        "decision": asdict(decision_of(model) or _usual_decision(model, classes, steps)),
        "clips": [_clip(clip, classes) for clip in clips],
    }


def _usual_decision(model: IntegerModel | IntegerReservoir, classes: Sequence[str], steps: int) -> Decision:
    """Return the default decision for a model without one."""
    hop = max(round(steps / HOPS), 1)
    size = -(-steps // hop) * hop
    size = size if size <= (model.longest or size) else size - hop
    least = min(round(log(SURE / (1 - SURE)) / model.logit_scale), NEVER - 1)
    thresholds = tuple(NEVER if name.strip("_").lower() in IDLE else least for name in classes)
    return Decision(
        thresholds=thresholds, needed=NEEDED, votes=VOTES, refractory=size // hop, window=size, hop=hop
    )


def _clip(clip: Clip, classes: Sequence[str]) -> dict[str, Any]:
    """Store samples as indices into their distinct levels, of which 8-bit sound has at most 256."""
    levels, index = np.unique(clip.samples, return_inverse=True)
    return {
        "name": classes[clip.label],
        "label": clip.label,
        "levels": levels.tolist(),
        "deflated": deflated(index.reshape(-1)),
    }

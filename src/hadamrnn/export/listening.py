"""Data of a page that listens: the front end, its decision, and recordings as a fallback."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hadamrnn.export.front_end import front_end_js
from hadamrnn.export.js import deflated
from hadamrnn.fixedpoint.decision import NEVER, Decision, decision_of
from hadamrnn.fixedpoint.model import IntegerModel

# The decision of a model that keeps none: windows with ten hops. An event is a class that leads in three of
# four windows as one of two classes with this share would; no other event follows for a window.
HOPS, NEEDED, VOTES, SURE = 10, 3, 4, 0.7
IDLE = frozenset({"silence", "unknown", "noise", "background", "other"})  # classes that are no word


@dataclass(frozen=True, eq=False)
class Clip:
    """A recording that a page plays: int16 samples `(time,)` at the front end's rate, and its class."""

    samples: NDArray[np.int16]
    label: int


def hears_sound(model: IntegerModel) -> bool:
    """Return whether the network reads the 16-bit samples of a microphone."""
    front_end = model.network.front_end
    return front_end is not None and front_end.is_mel and front_end.unit == 1


def listening_data(
    model: IntegerModel, classes: Sequence[str], steps: int, clips: Sequence[Clip]
) -> dict[str, Any] | None:
    """Return the data of `live/listening.js`, None for a network that reads no sound.

    Args:
        steps: of a sequence that the network was made for; the window has as many, rounded up to whole hops.
    """
    front_end = model.network.front_end
    if front_end is None or not hears_sound(model):
        return None
    return {
        "frontEnd": front_end_js(front_end),
        "rate": front_end.rate,
        "decision": asdict(decision_of(model) or _usual_decision(model, classes, steps)),
        "clips": [_clip(clip, classes) for clip in clips],
    }


def _usual_decision(model: IntegerModel, classes: Sequence[str], steps: int) -> Decision:
    """Return what raises events if a model keeps no decision of its own."""
    hop = max(round(steps / HOPS), 1)
    size = -(-steps // hop) * hop
    size = size if size <= (model.longest or size) else size - hop
    least = min(round(log(SURE / (1 - SURE)) / model.logit_scale), NEVER - 1)
    thresholds = tuple(NEVER if name.strip("_").lower() in IDLE else least for name in classes)
    return Decision(
        thresholds=thresholds, needed=NEEDED, votes=VOTES, refractory=size // hop, window=size, hop=hop
    )


def _clip(clip: Clip, classes: Sequence[str]) -> dict[str, Any]:
    """Return samples as indices of the levels that occur: 8-bit sound has 256 of them."""
    levels, index = np.unique(clip.samples, return_inverse=True)
    return {
        "name": classes[clip.label],
        "label": clip.label,
        "levels": levels.tolist(),
        "deflated": deflated(index.reshape(-1)),
    }

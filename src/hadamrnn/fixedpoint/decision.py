"""Decisions: when the logits of a stream of windows raise an event, in integers.

    margin = least(largest logit - second largest, 2^31 - 2)        |logit| where there is one alone
    vote   = class of the largest logit if margin >= its threshold, else none
    event  = vote if k of the last n votes are for it, and no event was raised within the refractory windows

An event clears the votes. A class whose threshold is `NEVER` raises nothing: it is the background. `Decider`
is the definition, which exported C and JavaScript equal; a model keeps its `Decision` as metadata.
"""

from __future__ import annotations

import json
from collections import deque
from dataclasses import asdict, dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from hadamrnn.errors import damaged
from hadamrnn.fixedpoint.base import IntegerBase
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.settings import check_int, from_json

NEVER = (1 << 31) - 1
MOST_VOTES, MOST_WINDOWS = 32, 0xFFFF
ENTRY = "decision"  # name of the metadata entry


@dataclass(frozen=True, kw_only=True)
class Decision:
    """When windows raise an event.

    Args:
        thresholds: the least margin of a vote for each class; `NEVER` for classes that raise nothing.
        needed, votes: k of n.
        refractory: windows after an event that raise none.
        window, hop: steps of the windows that this was chosen for.
    """

    thresholds: tuple[int, ...]
    needed: int
    votes: int
    refractory: int
    window: int
    hop: int

    def __post_init__(self) -> None:
        for threshold in self.thresholds:
            check_int("Every one of thresholds", threshold, 0, NEVER)
        check_int("votes", self.votes, 1, MOST_VOTES)
        check_int("needed", self.needed, 1, self.votes)
        check_int("refractory", self.refractory, 0, MOST_WINDOWS)
        check_int("hop", self.hop, 1, MOST_WINDOWS)
        check_int("window", self.window, self.hop, MOST_WINDOWS)


def margin(logits: ArrayLike) -> tuple[int, int]:
    """Return the class of the largest logit (the first of several) and its lead over the second.

    >>> margin([3, 9, 7]), margin([-4])
    ((1, 2), (0, 4))
    """
    values = np.asarray(logits, np.int64)
    if len(values) == 1:
        return int(values[0] > 0), min(abs(int(values[0])), NEVER - 1)
    label = int(values.argmax())
    return label, min(int(values[label] - np.delete(values, label).max()), NEVER - 1)


class Decider:
    """The state of a stream: feed it the logits of every window.

    >>> decision = Decision(thresholds=(NEVER, 5), needed=2, votes=3, refractory=1, window=8, hop=4)
    >>> decider = Decider(decision)
    >>> [decider.decide(logits) for logits in ([0, 9], [0, 1], [0, 9], [0, 9], [0, 9], [0, 9])]
    [None, None, 1, None, 1, None]
    """

    def __init__(self, decision: Decision) -> None:
        self.decision = decision
        self._votes: deque[int | None] = deque(maxlen=decision.votes)
        self._wait = 0

    def decide(self, logits: ArrayLike) -> int | None:
        """Return the class of the event that this window raises, or None."""
        return self.vote(*margin(logits))

    def vote(self, label: int, lead: int) -> int | None:
        """Return the event that a window of this class and margin raises, or None."""
        vote = label if lead >= self.decision.thresholds[label] else None
        self._votes.append(vote)
        if self._wait:
            self._wait -= 1
            return None
        if vote is None or self._votes.count(vote) < self.decision.needed:
            return None
        self._votes.clear()
        self._wait = self.decision.refractory
        return vote


def decision_of(model: IntegerBase) -> Decision | None:
    """Return the decision that a model keeps; None if it has none."""
    text = model.metadata.get(ENTRY)
    if text is None:
        return None
    try:
        decision = from_json(Decision, json.loads(str(text)), "The decision of this model")
    except (ValueError, RecursionError) as error:
        raise damaged("The decision of this model", f"{error}") from error
    if len(decision.thresholds) != max(model.output_size, 2):
        raise damaged("The decision of this model", "it needs a threshold for every class.")
    return decision


def with_decision(model: IntegerModel, decision: Decision) -> IntegerModel:
    """Return the model with a decision among its metadata."""
    text = json.dumps(asdict(decision), separators=(",", ":"))
    return replace(model, metadata={**model.metadata, ENTRY: text})

"""Events follow the definition, and C and JavaScript raise the same events at the same windows."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from hadamrnn.errors import InputError
from hadamrnn.export import export_js
from hadamrnn.export.c import source_files, wrapped
from hadamrnn.fixedpoint import IntegerModel
from hadamrnn.fixedpoint.alarms import ENTRY, NEVER, Decider, Decision, decision_of, margin, with_decision
from tests.export.programs import SANITIZED, compile_and_run, write_sources
from tests.export.random_models import random_model

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler installed")
LOW, HIGH = -(2**31), 2**31 - 1


def decided_model(seed: int, outputs: int) -> tuple[IntegerModel, Decision, NDArray[np.int64]]:
    """Return a model with a decision, and logits that cross its thresholds, the ends of their range too."""
    rng = np.random.default_rng(seed)
    model = random_model(rng, block_size=8, output_size=outputs)
    votes = int(rng.integers(1, 7))
    decision = Decision(
        thresholds=(NEVER, *rng.integers(0, 30, max(outputs, 2) - 1).tolist()),
        needed=int(rng.integers(1, votes + 1)),
        votes=votes,
        refractory=int(rng.integers(0, 5)),
        window=8,
        hop=4,
    )
    logits = rng.integers(-20, 20, (300, outputs))
    logits[::17] = rng.choice([LOW, -1, 0, 1, HIGH], (len(logits[::17]), outputs))
    return with_decision(model, decision), decision, logits


def events(decision: Decision, logits: NDArray[np.int64]) -> list[tuple[int, int]]:
    decider = Decider(decision)
    return [(margin(row)[1], -1 if (event := decider.decide(row)) is None else event) for row in logits]


@pytest.mark.parametrize("outputs", [1, 2, 5])
def test_an_event_needs_k_of_n_votes_and_silences_the_next(outputs: int) -> None:
    for seed in range(10):
        _, decision, logits = decided_model(seed, outputs)
        raised = [(t, event) for t, (_, event) in enumerate(events(decision, logits)) if event >= 0]
        for t, event in raised:
            last = [margin(row) for row in logits[max(t + 1 - decision.votes, 0) : t + 1]]
            voted = [label for label, lead in last if lead >= decision.thresholds[label]]
            assert voted.count(event) >= decision.needed and event != 0
        assert all(b - a > decision.refractory for (a, _), (b, _) in itertools.pairwise(raised))


@needs_cc
def test_c_raises_the_events_of_the_definition(tmp_path: Path) -> None:
    parts, calls, expected = ["#include <stdio.h>\n"], [], []
    for seed in range(9):
        model, decision, logits = decided_model(seed, (1, 2, 5)[seed % 3])
        name, width = f"m{seed}", logits.shape[1]
        write_sources(tmp_path, model, name)
        parts.append(
            f'#include "{name}.c"\n#include "{name}_decision.h"\n'
            f"static const int32_t {name}_logits_in[] = {{ {' '.join(wrapped(logits))} }};\n"
        )
        calls.append(
            f"    {{ {name}_decider d; {name}_decider_init(&d);\n"
            f"      for (int t = 0; t < {len(logits)}; t++) {{\n"
            f"        const int32_t *l = {name}_logits_in + t * {width};\n"
            f"        const uint16_t e = {name}_decide(&d, l);\n"
            f'        printf("%ld %ld\\n", (long){name}_margin(l), e == HADAMRNN_NO_CLASS ? -1L : (long)e);\n'
            "      } }\n"
        )
        expected += [list(pair) for pair in events(decision, logits)]
    main = tmp_path / "main.c"
    main.write_text("".join(parts) + "int main(void)\n{\n" + "".join(calls) + "    return 0;\n}\n")

    printed = compile_and_run("cc", main, SANITIZED).splitlines()
    assert [list(map(int, line.split())) for line in printed] == expected


@pytest.mark.skipif(shutil.which("node") is None, reason="no node installed")
def test_javascript_raises_the_events_of_the_definition(tmp_path: Path) -> None:
    for seed, outputs in enumerate((1, 2, 5)):
        model, decision, logits = decided_model(seed, outputs)
        folder = export_js(model, tmp_path / str(seed), "net")
        script = (
            'import { decider, Decider } from "./net.js";\nconst d = decider();\n'
            f"const rows = {json.dumps(logits.tolist())};\n"
            "const found = rows.map((r) => [Decider.margin(r), d.decide(Int32Array.from(r))]);\n"
            "console.log(JSON.stringify(found));\n"
        )
        (folder / "events.mjs").write_text(script)
        ran = subprocess.run(["node", "events.mjs"], cwd=folder, check=True, capture_output=True, text=True)
        assert json.loads(ran.stdout) == [list(pair) for pair in events(decision, logits)]


def test_a_model_keeps_its_decision_and_one_without_has_no_file_of_it() -> None:
    model, decision, _ = decided_model(0, 3)
    from hadamrnn.fixedpoint.file import from_bytes, to_bytes

    assert decision_of(from_bytes(to_bytes(model))) == decision
    assert "net_decision.h" in source_files(model, "net")
    bare = random_model(np.random.default_rng(0), block_size=8)
    assert decision_of(bare) is None and "net_decision.h" not in source_files(bare, "net")


@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        "[]",
        '{"thresholds": [1, 2, 3]}',
        '{"thresholds":[1],"needed":1,"votes":1,"refractory":0,"window":8,"hop":4}',
    ],
)
def test_a_damaged_decision_is_refused_in_one_line(text: str) -> None:
    model = replace(random_model(np.random.default_rng(0), output_size=3), metadata={ENTRY: text})
    with pytest.raises(InputError, match=r"decision .* damaged") as error:
        decision_of(model)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "wrong",
    [{"votes": 0}, {"votes": 33}, {"needed": 4}, {"thresholds": (-1, 2)}, {"refractory": -1}, {"hop": 9}],
)
def test_decisions_out_of_range_are_refused(wrong: dict[str, object]) -> None:
    given: dict[str, object] = {"thresholds": (NEVER, 2), "needed": 2, "votes": 3, "refractory": 1}
    with pytest.raises(InputError):
        Decision(**{**given, "window": 8, "hop": 4, **wrong})  # type: ignore[arg-type]


def test_of_equal_logits_the_first_class_leads_by_nothing_and_a_lead_stays_below_never() -> None:
    assert margin([0]) == (0, 0) and margin([1]) == (1, 1) and margin([-1]) == (0, 1)
    assert margin([5, 5]) == margin([5, 5, 4]) == (0, 0) and margin([4, 5, 5]) == (1, 0)
    assert margin([LOW]) == (0, NEVER - 1) and margin([LOW, HIGH]) == (1, NEVER - 1)
    silent = Decider(Decision(thresholds=(NEVER, NEVER), needed=1, votes=1, refractory=0, window=1, hop=1))
    assert silent.decide([HIGH]) is None and silent.decide([LOW, HIGH]) is None


def test_votes_before_an_event_do_not_count_for_the_next_and_those_while_waiting_do() -> None:
    decision = Decision(thresholds=(NEVER, 5), needed=2, votes=3, refractory=0, window=8, hop=4)

    def raised(refractory: int, leads: list[int]) -> list[int]:
        decider = Decider(replace(decision, refractory=refractory))
        return [step for step, lead in enumerate(leads) if decider.vote(1, lead) is not None]

    assert raised(0, [5, 5, 5, 5]) == [1, 3]
    assert raised(0, [5, 4, 5, 4, 4, 5]) == [2]
    assert raised(2, [5, 5, 5, 5, 5]) == [1, 4]
    assert raised(1, [5, 5, 5, 5]) == [1, 3]
    assert raised(1, [5, 5, 4, 5, 5]) == [1, 4]

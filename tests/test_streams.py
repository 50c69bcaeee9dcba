"""Recordings as streams: events match incidents, and C raises them at the same samples."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from hadamrnn.data.options import RecordingOptions
from hadamrnn.errors import InputError
from hadamrnn.export.c import wrapped
from hadamrnn.fixedpoint.alarms import NEVER, Decision, decision_of
from hadamrnn.fixedpoint.encoding import encode_raw
from hadamrnn.fixedpoint.engine import Engine, SlidingWindow
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.quantization.results import Saturation
from hadamrnn.run import Run
from hadamrnn.streams import (
    Report,
    Stream,
    _threshold,
    check_tunable,
    choose,
    choose_background,
    compare,
    joint_saturation,
    raise_events,
    read_streams,
    rows_per_second,
    try_decisions,
    window_logits,
    window_steps,
)
from tests.conftest import Command
from tests.export.programs import SANITIZED, compile_and_run, write_sources
from tests.export.random_models import random_model


def write_days(folder: Path, files: int, seed: int) -> Path:
    """Write recordings of noise with occasional tones, at ten rows per second."""
    rng = np.random.default_rng(seed)
    folder.mkdir()
    for number in range(files):
        rows = ["sensor,label"]
        for _ in range(8):
            quiet, loud = int(rng.integers(60, 120)), int(rng.integers(40, 80))
            tone = 3 * np.sin(np.arange(loud) * 1.1 + rng.uniform(0, 6))
            rows += [f"{value:.3f},quiet" for value in rng.normal(0, 1, quiet)]
            rows += [f"{value:.3f},tone" for value in tone + rng.normal(0, 1, loud)]
        (folder / f"{seed}_{number}.csv").write_text("\n".join(rows))
    return folder


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a quantized run, and recordings to tune and to measure on."""
    from hadamrnn.cli import main

    folder = tmp_path_factory.mktemp("streams")
    data = write_days(folder / "train", 4, 0)
    small = (
        "--hidden-size",
        "16",
        "--epochs",
        "3",
        "--threads",
        "1",
        "--quiet",
        "--window",
        "32",
        "--hop",
        "8",
    )
    assert main(["train", str(data), "--out", str(folder / "run"), *small]) == 0
    assert main(["quantize", str(folder / "run")]) == 0
    write_days(folder / "tune", 3, 1)
    write_days(folder / "held", 3, 2)
    return folder


def test_tune_keeps_its_rate_and_eval_streams_other_recordings(place: Path, command: Command) -> None:
    run = place / "run"
    refused = command("eval", run, place / "held", "--stream", "--rate", 10)
    assert refused.status == 2 and "has no decision yet. Choose one with: hadamrnn tune" in refused.err
    needs_rate = command("tune", run, place / "tune", "--false-alarms-per-hour", 30)
    assert needs_rate.status == 2 and "give --rate" in needs_rate.err

    given = ("--false-alarms-per-hour", 60, "--rate", 10, "--background", "quiet", "--json")
    tuned = json.loads(command("tune", run, place / "tune", *given).out)
    assert tuned["false_alarms_per_hour"] <= 60 and tuned["detected"] > tuned["incidents"] / 2
    assert tuned["thresholds"][0] == NEVER

    page = place / "alarms.html"
    how = ("--stream", "--rate", 10, "--page", page, "--json")
    found = json.loads(command("eval", run, place / "held", *how).out)
    assert found["background"] == ["quiet"] and found["incidents"] == 24
    assert found["detected"] + found["missed"] == 24 and found["detected"] > 12
    assert {event["class"] for event in found["events"]} == {"tone"}
    assert page.read_text().count("<svg") == 3
    plain = command("eval", run, place / "held", "--stream").out
    assert f"detected      {found['detected']} of 24 incidents" in plain
    decision = decision_of(Run.open(run).integer)
    assert decision is not None and decision.rate == 10
    another = command("eval", run, place / "held", "--stream", "--rate", 20)
    assert another.status == 2 and "10 rows per second of the tuning, got 20" in another.err


def test_tune_says_what_its_recordings_clip_and_whether_they_are_those_of_the_training(
    place: Path, command: Command, tmp_path: Path
) -> None:
    run = shutil.copytree(place / "run", tmp_path / "run")
    table = (place / "tune" / "1_0.csv").read_text().splitlines()
    larger = [f"{1000 * float(row.split(',')[0])},{row.split(',')[1]}" for row in table[1:]]
    (tmp_path / "larger.csv").write_text("\n".join([table[0], *larger]))
    how = ("--false-alarms-per-hour", 3600, "--rate", 10)

    clipped = json.loads(command("tune", run, tmp_path / "larger.csv", *how, "--json").out)
    streamed = json.loads(command("eval", run, tmp_path / "larger.csv", "--stream", "--json").out)
    assert streamed["input_saturations"] == clipped["input_saturations"] > len(larger) / 2
    whole = json.loads(command("tune", run, place / "tune", *how, "--json").out)
    assert whole["input_saturations"] < len(larger) / 10
    notes = [
        "the run's own data" in command("tune", run, recordings, *how).out
        for recordings in (place / "tune", place / "train", place / "train" / "0_1.csv")
    ]
    assert notes == [False, True, True]


def events_in_c(folder: Path, model: IntegerModel, raw: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return the step and the class of every event that exported C raises on raw codes."""
    write_sources(folder, model, "net")
    main = folder / "main.c"
    main.write_text(
        '#include <stdio.h>\n#include "net.c"\n#include "net_window.c"\n#include "net_decision.h"\n'
        f"static const int32_t raw[] = {{ {' '.join(wrapped(raw))} }};\n"
        "int main(void)\n{\n    static net_window window; net_decider decider; uint16_t event;\n"
        "    static net_slot slots[NET_WINDOW_STEPS / NET_HOP_STEPS];\n"
        "    (void)net_window_init(&window, slots, NET_WINDOW_STEPS, NET_HOP_STEPS);\n"
        "    net_decider_init(&decider);\n"
        f"    for (int t = 0; t < {len(raw)}; t++) {{\n"
        "        if (net_window_push(&window, raw + t * (int)NET_INPUT_SIZE) == HADAMRNN_READY) {\n"
        "            event = net_decide(&decider, window.logits);\n"
        '            if (event != HADAMRNN_NO_CLASS) { printf("%d %u\\n", t, (unsigned)event); }\n'
        "        }\n    }\n    return 0;\n}\n"
    )
    lines = (line.split() for line in compile_and_run("cc", main, SANITIZED).splitlines())
    return [(int(step), int(label)) for step, label in lines]


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler installed")
def test_c_fed_the_same_stream_raises_the_same_events_at_the_same_samples(
    place: Path, command: Command, tmp_path: Path
) -> None:
    run = Run.open(place / "run")
    given = ("--false-alarms-per-hour", 200, "--rate", 10, "--background", "quiet")
    assert command("tune", run.path, place / "tune", *given).status == 0
    model = run.integer
    decision = decision_of(model)
    streams, window, hop = read_streams(run, place / "held")
    assert decision is not None and (decision.window, decision.hop) == (window, hop)
    printed = events_in_c(tmp_path, model, streams[0].raw)
    assert printed and printed == raise_events(streams[0], decision)


def test_people_of_one_file_are_streams_of_their_own(place: Path) -> None:
    rows = [row.split(",") for row in (place / "held" / "2_0.csv").read_text().splitlines()[1:]]
    halves = {"a": rows[:301], "b": rows[301:]}
    people = place / "people.csv"
    text = [",".join([*row, name]) for name, half in halves.items() for row in half]
    people.write_text("\n".join(["sensor,label,person", *text]))
    run = Run.open(place / "run")
    run.config = replace(run.config, task_options={**run.config.task_options, "group": "person"})

    streams, window, _ = read_streams(run, people)
    assert [stream.start for stream in streams] == [0, 301]
    for stream, half in zip(streams, halves.values(), strict=True):
        assert stream.labels.tolist() == [label for _, label in half]
        assert stream.values[:, 0].tolist() == [float(value) for value, _ in half]
        assert stream.ends[0] == window - 1  # no window reads another person's rows


def test_recordings_have_the_rate_of_the_training(place: Path) -> None:
    run = Run.open(place / "run")
    assert rows_per_second(run, 10.0) == 10
    run.config = replace(run.config, task_options={**run.config.task_options, "rate": 50.0})
    assert rows_per_second(run, None) == rows_per_second(run, 50.0) == 50
    with pytest.raises(InputError, match=r"50 .* got 10"):
        rows_per_second(run, 10.0)


@pytest.mark.parametrize(("window", "hop"), [(8, 8), (8, 2), (12, 4), (40, 8)])
def test_windows_together_have_the_logits_of_a_sliding_window(window: int, hop: int) -> None:
    model = random_model(
        np.random.default_rng(0), input_kind="dense", input_size=3, output_size=4, every_output=False
    )
    raw = np.random.default_rng(1).integers(-300, 300, (39, 3))
    sliding = SlidingWindow(Engine(model), window, hop)
    pushed = [(step, sliding.push(codes)) for step, codes in enumerate(encode_raw(model, raw)[0])]
    expected = [(step, logits.tolist()) for step, logits in pushed if logits is not None]

    steps, logits, saturation = window_logits(model, raw, window, hop)
    assert list(zip(steps.tolist(), logits.tolist(), strict=True)) == expected
    codes, inputs = encode_raw(model, raw)
    states = [Engine(model).run(codes[None, end + 1 - window : end + 1]).saturations for end in steps]
    assert saturation == Saturation(states=sum(states), inputs=inputs)
    assert joint_saturation([stream_of("..", [(0, 1)]), stream_of("..", [(0, 1)])]) == Saturation(
        states=2, inputs=4
    )


def stream_of(labels: str, events: list[tuple[int, int]]) -> Stream:
    """Return a stream with one label per row, and windows that end at some rows with a class of margin 10."""
    ends, classes = (np.array(each, np.int64) for each in zip(*events, strict=True))
    nothing = np.zeros((len(labels), 1), np.int64)
    names = np.array([{".": "quiet", "a": "a", "b": "b"}[label] for label in labels], object)
    return Stream(
        "made",
        0,
        nothing,
        names,
        nothing,
        1,
        ends,
        classes,
        np.full(len(ends), 10),
        Saturation(states=1, inputs=2),
    )


def test_events_are_matched_with_incidents_of_their_class() -> None:
    names, background = ("quiet", "a", "b"), ["quiet"]
    stream = stream_of("....aaaa....bbbb....", [(2, 1), (6, 1), (7, 1), (9, 1), (13, 1), (19, 2)])
    decision = Decision(thresholds=(NEVER, 0, 0), needed=1, votes=1, refractory=0, window=4, hop=1)
    raised = raise_events(stream, decision)

    report = compare([stream], [raised], names, background, tolerance=4, rate=1.0)
    assert (report.incidents, report.detected, report.false_alarms) == (2, 2, 2)  # at rows 2 and 13
    assert report.latencies == (2.0, 7.0) and report.per_hour == pytest.approx(2 * 3600 / 20)
    strict = compare([stream], [raised], names, background, tolerance=0, rate=1.0)
    assert (strict.detected, strict.false_alarms) == (1, 4)


def test_the_background_is_given_has_a_usual_name_or_is_the_commonest_class() -> None:
    streams = [stream_of("aaaab", [(2, 1)]), stream_of("bb.bb..", [(2, 1)])]
    assert choose_background(streams, ("a", "b", "quiet"), []) == ["b"]
    assert choose_background(streams, ("a", "b", "quiet"), ["a", "quiet"]) == ["a", "quiet"]
    assert choose_background(streams, ("a", "b", "Idle"), []) == ["Idle"]
    with pytest.raises(InputError, match="silence"):
        choose_background(streams, ("a", "b"), ["silence"])


@pytest.mark.parametrize(
    ("labels", "background"), [("aa..", ["a", "quiet"]), ("....", ["quiet"]), ("aabb", ["quiet"])]
)
def test_tuning_needs_background_and_incidents(labels: str, background: list[str]) -> None:
    with pytest.raises(InputError, match=r"Tuning needs rows of background .* alone\. Add others"):
        check_tunable([stream_of(labels, [(2, 1)])], background)
    check_tunable([stream_of("aaaa", [(2, 1)]), stream_of("....", [(2, 1)])], ["quiet"])


def test_no_decision_is_chosen_that_breaks_the_rate() -> None:
    rng = np.random.default_rng(0)
    labels = "".join(rng.permutation(list("a" * 20 + "." * 180)))
    stream = stream_of(labels, [(row, int(rng.integers(0, 3))) for row in range(4, 200, 2)])
    for most in (1000.0, 100.0, 1.0):
        _, report = choose(try_decisions([stream], ("quiet", "a", "b"), ["quiet"], 1.0, 4, 1), most)
        assert report.per_hour <= most


def test_an_event_detects_an_incident_until_the_tolerance_has_passed() -> None:
    names, background = ("quiet", "a", "b"), ["quiet"]

    def detected(row: int, label: int = 1) -> tuple[int, int]:
        stream = stream_of("....aaaa....", [(row, label)])
        report = compare([stream], [[(row, label)]], names, background, tolerance=2, rate=2.0)
        return report.detected, report.false_alarms

    assert [detected(row) for row in (3, 4, 7, 9, 10)] == [(0, 1), (1, 0), (1, 0), (1, 0), (0, 1)]
    assert detected(5, 2) == (0, 1)
    twice = compare(
        [stream_of("aaaa", [(1, 1), (3, 1)])] * 2, [[(1, 1), (3, 1)], []], names, background, 2, rate=2.0
    )
    assert (twice.incidents, twice.detected, twice.false_alarms, twice.latencies) == (2, 1, 0, (0.5,))
    assert twice.hours == 8 / 2 / 3600 and twice.latency == 0.5
    figures = twice.figures()
    assert figures["missed"] == 1 and figures["false_alarms_per_hour"] == 0
    assert "1 of 2" in twice.lines()[0] and "0.50 s" in twice.lines()[0]


def test_the_decision_chosen_detects_most_then_soonest_then_most_quietly() -> None:
    decision = Decision(thresholds=(NEVER, 0), needed=1, votes=1, refractory=0, window=4, hop=1)

    def tried(detected: int, latency: float, alarms: int) -> tuple[Decision, Report]:
        return decision, Report(1.0, 9, detected, alarms, (latency,) * detected)

    ranked = [tried(9, 1.0, 11), tried(8, 1.0, 5), tried(8, 1.0, 6), tried(8, 2.0, 0), tried(7, 0.1, 0)]
    for count in range(1, 5):
        assert choose(ranked[count:][::-1], 10.0) is ranked[count]
    assert choose(ranked, 11.0) is ranked[0]
    with pytest.raises(InputError, match=r"10\.9"):
        choose(ranked[:1], 10.9)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_a_threshold_lets_its_share_of_wrong_windows_pass_and_is_the_least_that_does(share: float) -> None:
    wrong = np.sort(np.random.default_rng(0).integers(0, 20, 50))
    threshold = _threshold(wrong, share)

    assert (wrong >= threshold).mean() <= share
    assert threshold == 0 or (wrong >= threshold - 1).mean() > share
    assert _threshold(np.array([NEVER - 1]), 0.0) == NEVER - 1
    assert _threshold(np.empty(0, np.int64), share) == 0


def test_runs_of_a_stream_are_its_rows_with_one_label() -> None:
    stream = stream_of("..aab.", [(1, 0)])
    assert stream.runs == [("quiet", 0, 2), ("a", 2, 4), ("b", 4, 5), ("quiet", 5, 6)]
    assert stream.incidents(["quiet", "b"]) == [("a", 2, 4)]
    assert stream.title == "made" and replace(stream, start=3).title == "made from row 3"


def test_windows_of_recordings_are_whole_hops_of_steps() -> None:
    def steps(**given: object) -> tuple[int, int, int]:
        return window_steps(RecordingOptions(**given))  # type: ignore[arg-type]

    assert steps(window=10, hop=5) == (10, 5, 1) and steps(window=11, hop=4) == (8, 4, 1)
    assert steps(window=3, hop=5) == (5, 5, 1)
    sound = {"features": "bands", "rate": 6400, "frame": 64, "frame_hop": 32, "bands": 32}
    assert steps(window=64, hop=32, **sound) == (1, 1, 32)
    assert steps(window=96, hop=64, **sound) == (2, 2, 32) and steps(window=320, hop=96, **sound) == (
        9,
        3,
        32,
    )

"""`hadamrnn tune`: choose when a network's windows raise an alarm."""

from __future__ import annotations

from dataclasses import MISSING, asdict, dataclass, replace
from pathlib import Path
from typing import Any

from hadamrnn.cli.arguments import DataOptions, JsonOption, command, positional, set_threads
from hadamrnn.data.options import Rate
from hadamrnn.settings import Positive, option


@dataclass(frozen=True, kw_only=True)
class TuneOptions(DataOptions, JsonOption):
    run_folder: Path = positional("RUN", "folder of a quantized run that was trained on recordings")
    recordings: Path = positional("RECORDINGS", "labelled recordings that the run was not trained on")
    false_alarms_per_hour: Positive = option(MISSING, "limit on false alarms per hour")
    rate: Rate | None = option(None, "rows per second (default: as in training)")
    background: tuple[str, ...] = option(
        (),
        "classes that raise no alarm (default: a usual name such as silence, else the most frequent class)",
    )


@command(
    help="choose when windows raise an alarm",
    description="Choose when classified windows raise an alarm: by how much the best class must lead, how "
    "many of the last windows must agree, and how long no further alarm is raised. The choice detects the "
    "most incidents in RECORDINGS within the limit on false alarms per hour. It is stored in the run's "
    "integer network and exported to C and JavaScript. Measure it on other recordings with: hadamrnn eval "
    "RUN RECORDINGS --stream.",
    examples=(
        "hadamrnn tune runs/people held_out --false-alarms-per-hour 10 --rate 50",
        "hadamrnn tune runs/words noisy --false-alarms-per-hour 1 --background silence,unknown",
    ),
)
def run(args: TuneOptions) -> None:
    from hadamrnn import streams
    from hadamrnn.estimators.detector_folder import refuse_detector
    from hadamrnn.files import INTEGER_FILE, locked
    from hadamrnn.fixedpoint import save
    from hadamrnn.fixedpoint.alarms import with_decision
    from hadamrnn.run import Run

    refuse_detector(args.run_folder, "which raises alarms by itself. Train one with another --margin.")
    set_threads(args.threads)
    opened = Run.open(args.run_folder, args.data_dir)
    integer, names = opened.integer, opened.facts.class_names
    rate = streams.rows_per_second(opened, args.rate)
    found, window, hop = streams.read_streams(opened, args.recordings)
    background = streams.choose_background(found, names, args.background)
    streams.check_tunable(found, background)
    most = args.false_alarms_per_hour
    tried = streams.try_decisions(found, names, background, rate, window, hop)
    decision, report = streams.choose(tried, most)
    decision, saturation = replace(decision, rate=rate), streams.joint_saturation(found)
    with locked(opened.path):
        save(with_decision(integer, decision), opened.path / INTEGER_FILE)
    figures: dict[str, Any] = {
        **asdict(decision),
        "background": background,
        **report.figures(),
    } | saturation.figures()
    lines = [
        f"background    {', '.join(background)}",
        f"decision      {decision.needed} of {decision.votes} windows, then none for {decision.refractory}",
        *report.lines(),
        f"clipped       {saturation}",
        f"written       {opened.path / INTEGER_FILE}",
    ]
    if most * report.hours < 1:
        lines.append(f"note: {report.hours:.2g} hours are too short to see {most:g} false alarms per hour")
    if streams.is_own_data(opened, args.recordings):
        lines.append("note: these recordings are of the run's own data; expect more false alarms on others")
    args.show(figures, *lines)

"""Carry out `train --goal anomaly`, and `eval` and `predict` on a detector. Start at `train_goal`."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hadamrnn.cli.arguments import check_only, check_unused, flag, set_threads
from hadamrnn.errors import InputError
from hadamrnn.files import INTEGER_FILE
from hadamrnn.settings import Positive, Share, option

if TYPE_CHECKING:
    from hadamrnn.cli.eval import EvalOptions
    from hadamrnn.cli.predict import PredictOptions
    from hadamrnn.cli.train import TrainOptions

SETTINGS = ("hidden_size", "leak", "weight_bits", "seed", "threads")  # the settings of a detector
WHERE = "on an anomaly detector"


@dataclass(frozen=True, kw_only=True)
class AlarmOptions:
    """The options that decide when a detector raises an alarm; the default is that of `HadamRNNDetector`."""

    smoothing: int | None = option(
        None, "--goal anomaly: average the distances from the prediction over about 2^N samples (default 3)"
    )
    quantile: Share | None = option(
        None, "--goal anomaly: the threshold is this quantile of normal levels, times --margin (default 0.99)"
    )
    margin: Positive | None = option(
        None, "--goal anomaly: factor of the threshold; a larger one gives fewer alarms (default 1.25)"
    )


ALARM_FIELDS = tuple(each.name for each in fields(AlarmOptions))


def refuse(path: Path, what: str) -> None:
    """Refuse a detector's folder in a command that only accepts runs."""
    from hadamrnn.estimators.detector_folder import is_detector

    if is_detector(path):
        raise InputError(f"{path} holds an anomaly detector, {what}")


def train_goal(options: TrainOptions, settings: dict[str, Any]) -> None:
    """Fit a detector to normal recordings and write it to a folder."""
    where = f"with --goal anomaly, which takes {', '.join(map(flag, SETTINGS))}"
    allowed = ("goal", "task", "out", "columns", "quiet", "json", *ALARM_FIELDS)
    check_only(options, where, *allowed, settings=[name for name in settings if name not in SETTINGS])
    if options.task is None or not Path(options.task).exists():
        raise InputError(
            "--goal anomaly learns from normal recordings: TASK must be a file or a folder of them, "
            f"got {options.task or 'none'}."
        )
    assert options.out is not None
    from hadamrnn.estimators.detector_folder import DetectorFolder, train_detector

    parameters = {name: value for name, value in settings.items() if name not in ("seed", "threads")}
    given_alarms = {name: getattr(options, name) for name in ALARM_FIELDS}
    parameters |= {name: value for name, value in given_alarms.items() if value is not None}
    set_threads(settings.get("threads"))
    seed = settings.get("seed", 0)
    judged = train_detector(options.task, options.out, options.columns, random_state=seed, **parameters)
    model = DetectorFolder.open(options.out).model
    size = (options.out / INTEGER_FILE).stat().st_size
    figures = {
        "run": str(options.out),
        "goal": "anomaly",
        "rows": len(judged.rows),
        "channels": model.input_size,
        "file_bytes": size,
        "alarms": int(judged.alarms.sum()),
    }
    options.show(
        figures,
        f"fitted to {len(judged.rows):,} rows of {model.input_size} channels, {size:,} bytes; alarms on "
        f"{int(judged.alarms.sum())} of these rows",
        f"next: hadamrnn predict {options.out} FILE",
    )


def eval_detector(args: EvalOptions) -> None:
    """Compare a detector's alarms with the labels of recordings, and print the result."""
    from hadamrnn.estimators.detector_folder import DetectorFolder

    check_unused(args, WHERE, "split", "layout", "page", "data_dir")
    if args.file is None:
        raise InputError(
            f"A detector has no test data of its own. Name recordings: hadamrnn eval {args.run_folder} FILE"
        )
    found = DetectorFolder.open(args.run_folder).evaluate(args.file)
    shares = ", ".join(
        f"{name} {'-' if value is None else f'{100 * value:.1f}%'}"
        for name, value in (("false alarms", found.false_alarm_rate), ("missed", found.missed_rate))
    )
    f1 = "-" if found.f1 is None else f"{found.f1:.3f}"
    line = f"{args.file}: F1 {f1}, {shares} ({found.samples:,} rows, {found.anomalies:,} anomalies)"
    args.show({"file": str(args.file), **asdict(found)}, line)


def predict_detector(args: PredictOptions) -> tuple[list[Any], dict[str, list[Any]], Any]:
    """Return the prediction for every row, its position, and its score `(rows, 1)`."""
    from hadamrnn.estimators.detector_folder import DetectorFolder

    check_unused(args, WHERE, "layout")
    judged = DetectorFolder.open(args.run_folder).judge(args.data)
    values = ["anomaly" if alarm else "normal" for alarm in judged.alarms.tolist()]
    places = {"file": judged.files, "row": judged.rows, "score": judged.scores.tolist()}
    return values, places, judged.scores[:, None]

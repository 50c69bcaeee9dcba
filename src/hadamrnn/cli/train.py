"""`hadamrnn train`: train a network, or resume a stopped run."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hadamrnn.cli.arguments import (
    MODEL_HELP,
    MODEL_OPTION_HELP,
    TASK_OPTION_HELP,
    DataFolder,
    JsonOption,
    OwnData,
    check_only,
    check_unused,
    command,
    flag,
    parse_options,
    parse_task,
    repeated,
    set_threads,
    task_argument,
)
from hadamrnn.cli.device import BUDGET_FIELDS, BudgetOptions, is_asked, load_report, task_device
from hadamrnn.errors import InputError
from hadamrnn.files import CONFIG_FILE, INTEGER_FILE
from hadamrnn.interrupts import REPEAT, stopped_by_signals
from hadamrnn.network import Network
from hadamrnn.settings import NotNegative, Positive, Share, option
from hadamrnn.training.config import OPTIONS, TrainingConfig, resolve_config

if TYPE_CHECKING:
    from hadamrnn.data.splits import Splits
    from hadamrnn.run import Run

ALARM_FIELDS = ("smoothing", "quantile", "margin")  # options of a detector; None is its own default
DETECTOR_SETTINGS = ("hidden_size", "leak", "weight_bits", "seed", "threads")


@dataclass(frozen=True, kw_only=True)
class TrainOptions(OwnData, BudgetOptions, DataFolder, JsonOption):
    task: str | None = task_argument(default=None)
    out: Path | None = option(None, "new or empty folder for the run")
    resume: Path | None = option(None, "resume this run, with all of its settings")
    goal: Literal["anomaly"] | None = option(
        None, "anomaly: fit an anomaly detector to recordings that contain only normal rows"
    )
    smoothing: int | None = option(
        None, "--goal anomaly: average the distances from the prediction over about 2^N samples (default 3)"
    )
    quantile: Share | None = option(
        None, "--goal anomaly: the threshold is this quantile of normal levels, times --margin (default 0.99)"
    )
    margin: Positive | None = option(
        None, "--goal anomaly: factor of the threshold; a larger one gives fewer alarms (default 1.25)"
    )
    preset: str | None = option(None, "recipe: quick (default), best, or paper (the paper's own)")
    config: Path | None = option(None, "YAML file of settings, such as RUN/config.yaml")
    task_option: tuple[str, ...] = repeated(TASK_OPTION_HELP)
    model: str | None = option(None, MODEL_HELP)
    model_option: tuple[str, ...] = repeated(MODEL_OPTION_HELP)
    quiet: bool = option(False, "show no progress")
    checkpoint_seconds: NotNegative = option(30.0, "seconds between checkpoints (default 30)")


@command(
    help="train a network, or resume a run",
    description="Train a network. The task's preset gives every setting a value; --config overrides the "
    "preset, and the settings below override both.",
    examples=(
        "hadamrnn train digits --out runs/digits",
        "hadamrnn train pmnist --preset best --hidden-size 512 --weight-bits 4 --out runs/pmnist",
        "hadamrnn train har2 --model fastgrnn --hidden-size 80 --model-option recurrent_rank=20 "
        "--out runs/fast",
        "hadamrnn train data.npz --epochs 50 --out runs/mine",
        "hadamrnn train log.csv --label activity --group person --window 128 --out runs/log",
        "hadamrnn train log.csv --label activity --rate 50 --clock 16 --max-ram 2048 --out runs/small",
        "hadamrnn train normal.csv --goal anomaly --out runs/pump",
        "hadamrnn train --resume runs/pmnist",
        "torchrun --nproc-per-node 2 -m hadamrnn train pmnist --threads 1 --out runs/two",
    ),
    settings=[name for name in OPTIONS if name != "preset"],
    group="settings",
    common=(
        *("out", "resume", "preset", "label", "group", "window", "features", "goal"),
        *("hidden_size", "weight_bits", "epochs", "learning_rate", "seed", "threads"),
    ),
)
def run(options: TrainOptions, settings: dict[str, Any]) -> None:
    path = options.resume or options.out
    if path is None:
        raise InputError(
            "Name the run's folder: --out RUN starts a new run, --resume RUN continues a stopped one."
        )
    if options.resume is not None:
        where = "with --resume, which takes all settings from the run folder"
        allowed = ("resume", "data_dir", "checkpoint_seconds", "quiet", "json")
        check_only(options, where, *allowed, settings=settings)
    if options.goal is not None:
        _train_detector(options, settings)
        return
    check_unused(options, "without --goal anomaly", *ALARM_FIELDS)
    from hadamrnn.run import RunOptions, resume, train
    from hadamrnn.training.folder import check_free
    from hadamrnn.training.loop import choose_watcher

    def advice() -> str:
        begun = (path / CONFIG_FILE).is_file()
        return f"continue with: hadamrnn train --resume {path}" if begun else REPEAT

    with stopped_by_signals(advice) as stop:
        watcher = choose_watcher(options.quiet)
        how = RunOptions(options.data_dir, watcher, options.checkpoint_seconds, stop)
        figures: dict[str, Any] = {}
        if options.resume is not None:
            done = resume(options.resume, how)
        else:
            config = config_of(options, settings)
            if is_asked(options):
                check_free(path)
                splits, figures, lines = _on_device(config, options)
                how = replace(how, splits=splits)
                for line in lines:
                    watcher.remark(line)
            done = train(config, path, how)
        _report(done, options, figures)


def _train_detector(options: TrainOptions, settings: dict[str, Any]) -> None:
    """Fit a detector to normal recordings and write it to a folder."""
    where = f"with --goal anomaly, which takes {', '.join(map(flag, DETECTOR_SETTINGS))}"
    allowed = ("goal", "task", "out", "columns", "quiet", "json", *ALARM_FIELDS)
    check_only(
        options, where, *allowed, settings=[name for name in settings if name not in DETECTOR_SETTINGS]
    )
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


def _on_device(config: TrainingConfig, options: TrainOptions) -> tuple[Splits, dict[str, Any], list[str]]:
    """Return the data, and the load that the network would put on the device, as figures and as lines."""
    from hadamrnn.data.tasks import load_task
    from hadamrnn.training.models import task_network

    splits = load_task(config.task, options.data_dir, **config.task_options)
    network = task_network(config, splits)
    if not isinstance(network, Network):
        check_unused(options, f"on a {network.kind}: its instructions are not known", *BUDGET_FIELDS)
        return splits, {}, []
    device, window, hop = task_device(options, options.rate, splits.task, splits.options, splits.seq_length)
    return splits, *load_report(device, network, window, hop)


def config_of(options: TrainOptions, settings: dict[str, Any]) -> TrainingConfig:
    task, task_options = parse_task(options.task, options.task_option, options)
    overrides = {**settings, **parse_options("--model-option", options.model_option)}
    overrides |= {"task_options": task_options, **({"model": options.model} if options.model else {})}
    return resolve_config(task, preset=options.preset, file=options.config, overrides=overrides)


def _report(done: Run, options: TrainOptions, device: dict[str, Any]) -> None:
    """Print the result; under torchrun only the first process prints."""
    if os.environ.get("WORLD_SIZE", "1") != "1" and os.environ.get("RANK") != "0":
        return
    from hadamrnn.training.evaluate import show_metric

    outcome, metric = done.outcome, done.facts.metric
    assert outcome is not None
    figures = {
        "run": str(done.path),
        "finished": outcome.finished,
        "steps": outcome.step,
        "metric": metric,
        "best_validation": outcome.best_metric,
        "best_step": outcome.best_step,
        "seconds": round(outcome.seconds, 3),
        **device,
    }
    best = "none yet"
    if outcome.best_metric is not None:
        of = " of standardised targets" if done.facts.targets else ""
        best = f"{show_metric(metric, outcome.best_metric)}{of} at step {outcome.best_step}"
    state = "trained" if outcome.finished else "stopped"
    line = f"{state} after {outcome.step} steps, {outcome.seconds:.1f} s; best validation: {best}"
    options.show(figures, line)
    if outcome.finished and not options.json:
        print(f"next: hadamrnn eval {done.path}", file=sys.stderr)

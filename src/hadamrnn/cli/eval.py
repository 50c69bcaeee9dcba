"""`hadamrnn eval`: evaluate a trained model with the metric of its task."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hadamrnn.cli.arguments import (
    LAYOUT_HELP,
    DataOptions,
    JsonOption,
    check_output,
    check_unused,
    command,
    positional,
    set_threads,
)
from hadamrnn.cli.device import BudgetOptions, task_device
from hadamrnn.data.options import Rate
from hadamrnn.errors import InputError
from hadamrnn.network import Network
from hadamrnn.settings import option

if TYPE_CHECKING:
    from hadamrnn.pages.evaluation import Answers, Bar, Examples
    from hadamrnn.quantization.results import Evaluation
    from hadamrnn.run import Run

PREDICTORS = {
    "model": "the network",
    "constant": "the mean of the training targets",
    "last_value": "the target one hop earlier",
}
ERRORS = ("rmse", "mae", "r2")
MEMORY = 1 << 16  # bytes of flash and of RAM that the page compares the network with


@dataclass(frozen=True, kw_only=True)
class EvalOptions(DataOptions, JsonOption):
    run_folder: Path = positional("RUN", "folder that `hadamrnn train` wrote")
    file: Path | None = positional(
        "FILE", "npz file with arrays x and y, or recordings (default: the task's own data)", None
    )
    split: Literal["train", "validation", "test"] = option(
        "test", "part of the task's own data: train, validation or test (default test)"
    )
    layout: Literal["time-first", "channels-first"] | None = option(None, LAYOUT_HELP)
    integer: bool = option(False, "use the integer network that `hadamrnn quantize` wrote")
    stream: bool = option(
        False, "run the recordings in FILE as a device would, with the decision of `hadamrnn tune`"
    )
    rate: Rate | None = option(None, "--stream: rows per second (default: as in training or tuning)")
    background: tuple[str, ...] = option((), "--stream: classes that raise no alarm (default: as tuned)")
    page: Path | None = option(
        None,
        "write an HTML page with the confusion matrix, windows, errors, reliability and cost; for a "
        "regression with errors, predicted and true values; with --stream, with the alarms",
    )


@command(
    help="measure a trained network on test data or your own data",
    description="Print the metric of a run's best model on a part of its own data, or on arrays x and y or "
    "recordings in FILE. For a classifier, also print the confusion matrix and the recall of every class. "
    "For an anomaly detector, print F1, false alarms and missed anomalies on recordings with a column "
    "anomaly.",
    examples=(
        "hadamrnn eval runs/pmnist --split test",
        "hadamrnn eval runs/mine new.npz --integer",
        "hadamrnn eval runs/log new.csv --page errors.html",
        "hadamrnn eval runs/log new.csv --stream --page alarms.html",
    ),
)
def run(args: EvalOptions) -> None:
    from hadamrnn.estimators.detector_folder import is_detector
    from hadamrnn.run import Run

    set_threads(args.threads)
    if is_detector(args.run_folder):
        _eval_detector(args)
        return
    opened = Run.open(args.run_folder, args.data_dir)
    _check(args, opened)
    if args.stream:
        _stream(args, opened)
        return
    how: dict[str, Any] = {"file": args.file, "layout": args.layout, "threads": args.threads}
    found = opened.evaluate(args.split, integer=args.integer, **how)
    if found.value is None:
        raise InputError("A metric needs labels, and this split has none.")
    figures = {"task": opened.config.task, "split": str(args.file or args.split), **_figures(found)}
    if args.page is not None:
        _write_page(args, opened, figures)
        figures["page"] = str(args.page)
    args.show(figures, *_lines(figures))


def _check(args: EvalOptions, opened: Run) -> None:
    """Refuse options that do not fit the run or the other options."""
    task = opened.config.task
    if args.file is not None:
        check_unused(args, "with a FILE", "split", "data_dir")
    else:
        check_unused(args, "without a FILE", "layout")
    if task == "recordings":
        check_unused(args, "on recordings", "layout")
    if task in ("npz", "recordings"):
        check_unused(args, f"on data of your own; for new data: hadamrnn eval {opened.path} FILE", "data_dir")
    if args.stream:
        check_unused(args, "with --stream", "integer", "split", "layout")
        if args.file is None:
            raise InputError("--stream needs recordings: hadamrnn eval RUN RECORDINGS --stream.")
    else:
        check_unused(args, "without --stream", "rate", "background")
    if opened.facts.metric not in ("accuracy", "mse"):
        check_unused(args, "on a run that predicts neither classes nor values", "page")
    check_output("--page", args.page, "<!DOCTYPE html>")


def _eval_detector(args: EvalOptions) -> None:
    """Compare a detector's alarms with the labels of recordings, and print the result."""
    from hadamrnn.estimators.detector_folder import DetectorFolder

    check_unused(args, "on an anomaly detector", "split", "layout", "page", "data_dir")
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


def _stream(args: EvalOptions, opened: Run) -> None:
    """Print the quality of events in long recordings, and draw them with --page."""
    from hadamrnn import streams
    from hadamrnn.fixedpoint.alarms import NEVER, decision_of

    assert args.file is not None
    names, decision = opened.facts.class_names, decision_of(opened.integer)
    if decision is None:
        raise InputError(
            f"{opened.path} has no decision yet. Choose one with: hadamrnn tune {opened.path} RECORDINGS "
            "--false-alarms-per-hour X"
        )
    rate = streams.rows_per_second(opened, args.rate, decision.rate)
    found, window, _ = streams.read_streams(opened, args.file)
    silent = [name for name, least in zip(names, decision.thresholds, strict=True) if least == NEVER]
    background = streams.choose_background(found, names, args.background or silent)
    raised = [streams.raise_events(stream, decision) for stream in found]
    tolerance = window * found[0].rows_per_step
    report = streams.compare(found, raised, names, background, tolerance, rate)
    events = [
        {"file": stream.name, "row": stream.start + row, "class": names[label]}
        for stream, each in zip(found, raised, strict=True)
        for row, label in each
    ]
    saturation = streams.joint_saturation(found)
    figures = {"background": background, **report.figures(), **saturation.figures(), "events": events}
    lines = [f"background    {', '.join(background)}", *report.lines(), f"clipped       {saturation}"]
    if args.page is not None:
        from hadamrnn.files import write_atomically
        from hadamrnn.pages.document import to_html
        from hadamrnn.pages.drawing import stream_page

        drawn = [
            (stream.title, stream.values, stream.incidents(background), [(row, names[k]) for row, k in each])
            for stream, each in zip(found, raised, strict=True)
        ]
        page = stream_page(f"Alarms in {args.file.name}", "; ".join(lines[1:]), drawn, rate, tolerance)
        write_atomically(args.page, to_html(page).encode())
        figures["page"] = str(args.page)
        lines.append(f"page: {args.page}")
    args.show(figures, *lines)


def _figures(found: Evaluation) -> dict[str, Any]:
    """Return an evaluation for --json."""
    figures: dict[str, Any] = {"samples": found.samples, "metric": found.metric, "value": found.value}
    if found.confusion is not None:
        classes = {"recall": found.recall, "absent_classes": found.absent_classes}
        figures |= {**classes, "confusion": found.confusion}
    if found.errors:
        figures["errors"] = {name: asdict(each) for name, each in found.errors.items()}
    if found.saturation is not None:
        figures |= found.saturation.figures()
    return figures | ({"note": found.note} if found.note else {})


def _lines(figures: dict[str, Any]) -> list[str]:
    from hadamrnn.training.evaluate import show_metric

    value = show_metric(figures["metric"], figures["value"])
    remarks = [f"{figures['samples']:,} samples"]
    if "saturations" in figures:
        remarks.append(f"{figures['saturations']} states and {figures['input_saturations']} inputs saturated")
    if figures.get("absent_classes"):
        remarks.append(f"no samples of {', '.join(figures['absent_classes'])}")
    if "note" in figures:
        remarks.append(figures["note"])
    lines = [f"{figures['task']} {figures['split']}: {value} ({'; '.join(remarks)})"]
    if "confusion" in figures:
        width = max(len(str(count)) for row in figures["confusion"] for count in row) + 2
        lines.append("recall   class, and its samples by predicted class, in the order of the classes")
        for (name, recall), row in zip(figures["recall"].items(), figures["confusion"], strict=True):
            share = "      -" if recall is None else f"{100 * recall:6.1f}%"
            lines.append(f"{share}  {name:24.24}" + "".join(f"{count:{width}}" for count in row))
    return [
        *lines,
        *_error_lines(figures.get("errors", {})),
        *([f"page: {figures['page']}"] if "page" in figures else []),
    ]


def _error_lines(errors: dict[str, dict[str, Any]]) -> list[str]:
    """Return the table of a regression's errors, and whether a simple predictor does as well."""
    if not errors:
        return []
    lines = [f"{'RMSE':>11}{'MAE':>11}{'R2':>9}"]
    for name, each in errors.items():
        r2 = "-" if each["r2"] is None else f"{each['r2']:.3f}"
        lines.append(f"{each['rmse']:11.5g}{each['mae']:11.5g}{r2:>9}  {PREDICTORS[name]}")
    for name, each in errors.items():
        if name != "model" and errors["model"]["rmse"] >= each["rmse"]:
            lines.append(f"note: the network is no better than {PREDICTORS[name]}")
    return lines


def _write_page(args: EvalOptions, opened: Run, figures: dict[str, Any]) -> None:
    from hadamrnn.files import write_atomically
    from hadamrnn.pages.document import to_html
    from hadamrnn.pages.evaluation import evaluation_page, value_page

    assert args.page is not None
    title, lead, bars = f"{figures['task']}, {figures['split']}", _lines(figures)[0], _bars(opened)
    if "errors" in figures:
        errors = [
            (PREDICTORS[name], *("-" if each[key] is None else f"{each[key]:.4g}" for key in ERRORS))
            for name, each in figures["errors"].items()
        ]
        page = value_page(title, lead, errors, _answers(args, opened), bars)
    else:
        examples = _examples(args, opened)
        page = evaluation_page(title, lead, figures["recall"], figures["confusion"], examples, bars)
    write_atomically(args.page, to_html(page).encode())


def _answers(args: EvalOptions, opened: Run) -> Answers:
    """Return the samples of a regression with the network's predictions, in the units of the data."""
    from hadamrnn.pages.evaluation import Answers
    from hadamrnn.training.evaluate import predict_logits

    samples = opened.samples(args.split, args.file, args.layout)
    assert samples.y is not None
    pair = samples.y.double(), predict_logits(opened.predictor(args.integer, args.threads), samples).double()
    units = opened.facts.targets
    actual, predicted = (each if units is None else units.values(each) for each in pair)
    return Answers(
        samples.batch(slice(None))[0].numpy(),
        *(each.reshape(len(samples), -1).numpy() for each in (actual, predicted)),
    )


def _examples(args: EvalOptions, opened: Run) -> Examples | None:
    """Return the samples with the network's predictions; None if a sample has several labels."""
    import torch

    from hadamrnn.pages.evaluation import Examples
    from hadamrnn.training.evaluate import predict_logits

    samples = opened.samples(args.split, args.file, args.layout)
    x, labels, _ = samples.batch(slice(None))
    if labels is None or labels.ndim > 1:
        return None
    logits = predict_logits(opened.predictor(args.integer, args.threads), samples).double()
    each = torch.cat([torch.zeros_like(logits), logits], 1) if logits.shape[1] == 1 else logits
    right = samples.same(each.argmax(1), labels)
    return Examples(
        x.numpy(),
        labels.numpy(),
        each.softmax(1).numpy(),
        right.numpy(),
        opened.facts.class_names,
    )


def _bars(opened: Run) -> list[tuple[str, list[Bar]]]:
    """Return bar charts of the parts of the network's size, and of its load on a Cortex-M4."""
    from hadamrnn.fixedpoint.cost import Load, network_size

    network = opened.network
    if not isinstance(network, Network):
        return []
    size = network_size(network)
    parts = {name: getattr(size, name) for name in ("signs", "weights", "biases", "scales")}
    bits = [(name, each / size.bits, f"{each / 8:,.0f} bytes") for name, each in parts.items() if each]
    options = BudgetOptions()
    device, window, hop = task_device(options, None, opened.config.task, opened.config.task_options, 1)
    load = Load.of(network, window, hop)
    share = load.share(device)
    taken = [
        ("flash", load.flash / MEMORY, f"{load.flash:,} bytes"),
        ("RAM", load.ram / MEMORY, f"{load.ram:,} bytes"),
        *([] if share is None else [("clock", share, f"{100 * share:.2g} %")]),
    ]
    return [
        (f"{size.bits / 8:,.0f} bytes of weights", bits),
        (f"Share of {MEMORY >> 10} kB each{'' if share is None else f' and of {device.clock:g} MHz'}", taken),
    ]

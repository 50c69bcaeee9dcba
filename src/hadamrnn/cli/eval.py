"""`hadamrnn eval`: the task's metric of a trained model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hadamrnn.cli.arguments import (
    DataOptions,
    JsonOption,
    check_output,
    check_unused,
    command,
    positional,
    set_threads,
)
from hadamrnn.errors import InputError
from hadamrnn.settings import option

if TYPE_CHECKING:
    from torch import Tensor

    from hadamrnn.data.splits import Metric, Split
    from hadamrnn.nn.model import SequenceModel
    from hadamrnn.quantization.network import IntegerNetwork
    from hadamrnn.training.evaluate import Predictor
    from hadamrnn.training.folder import RunFolder

LAYOUT_HELP = (
    "axes of x in FILE: time-first (n, time, channels) or channels-first (n, channels, time) "
    "(default: as in the training data)"
)


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
    page: Path | None = option(
        None, "write the confusion matrix and the recall of every class to this HTML page"
    )


@command(
    help="measure a trained network on test data or on your own",
    description="Print the metric of a run's best model over a split of its task, or over arrays x and y "
    "or recordings of your own; of a classifier also the confusion matrix and the recall of every class.",
    examples=(
        "hadamrnn eval runs/pmnist --split test",
        "hadamrnn eval runs/mine new.npz --integer",
        "hadamrnn eval runs/log new.csv --page errors.html",
    ),
)
def run(args: EvalOptions) -> None:
    from hadamrnn.quantization.network import IntegerNetwork
    from hadamrnn.training.evaluate import accuracy_of, confusion, evaluate
    from hadamrnn.training.run import load_run

    set_threads(args.threads)
    folder, model = load_run(args.run_folder)
    _check(args, folder)
    name, split, note = _split(args, folder, model)
    if args.page is not None and not split.labelled:
        raise InputError("--page needs labels, and this data has none. Leave it out.")

    network: Predictor = load_integer(folder.path, args.threads) if args.integer else model
    metric: Metric = folder.facts.metric
    figures: dict[str, Any] = {"task": folder.config.task, "split": name, "samples": len(split)}
    if metric == "accuracy" and split.labelled:
        counts = confusion(network, split, len(folder.facts.class_names))
        figures |= {
            "metric": metric,
            "value": accuracy_of(counts, split),
            **_per_class(counts, folder),
        }
    else:
        figures |= {"metric": metric, "value": evaluate(network, split, metric)}
    if isinstance(network, IntegerNetwork):
        figures["saturations"] = network.saturations
        figures["input_saturations"] = network.input_saturations
    if note:
        figures["note"] = note
    if args.page is not None:
        _write_page(args.page, figures)
        figures["page"] = str(args.page)
    args.show(figures, *_lines(figures))


def _check(args: EvalOptions, folder: RunFolder) -> None:
    """Refuse options that do not fit the run or the other options."""
    task = folder.config.task
    if args.file is not None:
        check_unused(args, "with a FILE", "split", "data_dir")
    else:
        check_unused(args, "without a FILE", "layout")
    if task == "recordings":
        check_unused(args, "on recordings", "layout")
    own_data = task in ("npz", "recordings")
    if args.data_dir is not None and (own_data or not args.data_dir.expanduser().is_dir()):
        raise InputError(
            f"--data-dir names the folder of a task's public files, got {args.data_dir} for the task {task}. "
            f"For data of your own: hadamrnn eval {folder.path} FILE"
        )
    if args.page is not None and folder.facts.metric != "accuracy":
        raise InputError(
            "--page shows which classes are mistaken for which; this run is not measured by its accuracy. "
            "Leave it out."
        )
    check_output("--page", args.page, "<!DOCTYPE html>")


def _split(args: EvalOptions, folder: RunFolder, model: SequenceModel) -> tuple[str, Split, str]:
    """Return what to evaluate on: its name, the samples, and a note to stand beside the figure."""
    from hadamrnn.training.inference import read_split
    from hadamrnn.training.run import load_splits

    if args.file is None:
        splits = load_splits(folder, args.data_dir)
        split: Split = getattr(splits, args.split)
        by_group = "" if split.groups is None else "the right group of classes counts"
        return args.split, split, "; ".join(filter(None, [splits.note, by_group]))
    split, _ = read_split(args.file, folder, model, args.layout, labelled=True)
    return str(args.file), split, ""


def _per_class(counts: Tensor, folder: RunFolder) -> dict[str, Any]:
    """Return the confusion matrix, the recall of every class and the classes without samples."""
    totals = counts.sum(1).tolist()
    hits = counts.diagonal().tolist()
    recall = [hit / total if total else None for hit, total in zip(hits, totals, strict=True)]
    recalls = dict(zip(folder.facts.class_names, recall, strict=True))
    return {
        "recall": recalls,
        "absent_classes": [name for name, share in recalls.items() if share is None],
        "confusion": counts.tolist(),
    }


def _lines(figures: dict[str, Any]) -> list[str]:
    from hadamrnn.training.progress import show_metric

    value = show_metric(figures["metric"], figures["value"])
    remarks = [f"{figures['samples']:,} samples"]
    if "saturations" in figures:
        remarks.append(saturated(figures["saturations"], figures["input_saturations"]))
    if figures.get("absent_classes"):
        remarks.append(f"no samples of {', '.join(figures['absent_classes'])}")
    if "note" in figures:
        remarks.append(figures["note"])
    lines = [f"{figures['task']} {figures['split']}: {value} ({'; '.join(remarks)})"]
    if "confusion" in figures:
        width = max(len(str(count)) for row in figures["confusion"] for count in row) + 2
        lines.append("recall   class, and what its samples were taken for, in the order of the classes")
        for (name, recall), row in zip(figures["recall"].items(), figures["confusion"], strict=True):
            share = "      -" if recall is None else f"{100 * recall:6.1f}%"
            lines.append(f"{share}  {name:24.24}" + "".join(f"{count:{width}}" for count in row))
    return [*lines, *([f"page: {figures['page']}"] if "page" in figures else [])]


def saturated(states: int, inputs: int) -> str:
    """Return the line on values that did not fit into the integer network's range."""
    return f"{states} states and {inputs} inputs saturated"


def _write_page(path: Path, figures: dict[str, Any]) -> None:
    from hadamrnn.files import write_atomically
    from hadamrnn.pages.confusion import confusion_page
    from hadamrnn.pages.document import to_html

    lead = _lines(figures)[0]
    page = confusion_page(
        f"What {figures['task']} was taken for", lead, figures["recall"], figures["confusion"]
    )
    write_atomically(path, to_html(page).encode())


def load_integer(folder: Path, threads: int | None) -> IntegerNetwork:
    from hadamrnn.quantization.network import IntegerNetwork
    from hadamrnn.run import load_integer as load_integer_model

    return IntegerNetwork(load_integer_model(folder), threads)

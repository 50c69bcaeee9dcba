"""`hadamrnn glue`: write predictions for GLUE's private test sets, in the format its website expects."""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from pathlib import Path

from hadamrnn.cli.arguments import (
    DataOptions,
    JsonOption,
    check_output,
    command,
    positional,
    set_threads,
)
from hadamrnn.errors import InputError
from hadamrnn.settings import option

TASKS = ("sst2", "qqp")
HEADER = "index\tprediction"


@dataclass(frozen=True, kw_only=True)
class GlueOptions(DataOptions, JsonOption):
    run_folder: Path = positional("RUN", "folder that `hadamrnn train` wrote, of the task sst2 or qqp")
    out: Path = option(MISSING, "file to write, such as SST-2.tsv")
    integer: bool = option(False, "use the integer network that `hadamrnn quantize` wrote")


@command(
    help="write a GLUE submission",
    description="Write a run's predictions for GLUE's test set as index and label, tab separated.",
    examples=("hadamrnn glue runs/sst2 --out SST-2.tsv",),
)
def run(args: GlueOptions) -> None:
    from hadamrnn.files import write_atomically
    from hadamrnn.run import Run
    from hadamrnn.training.evaluate import decide, predict_logits

    check_output("--out", args.out, HEADER)
    set_threads(args.threads)
    opened = Run.open(args.run_folder, args.data_dir)
    if opened.config.task not in TASKS:
        raise InputError(
            f"GLUE's tasks are {' and '.join(TASKS)}; this run's task is {opened.config.task}. "
            "Use hadamrnn predict."
        )
    network = opened.predictor(args.integer, args.threads)
    labels = decide(predict_logits(network, opened.splits.test)).tolist()
    rows = [HEADER, *(f"{index}\t{label}" for index, label in enumerate(labels))]
    write_atomically(args.out, ("\n".join(rows) + "\n").encode())
    args.show({"predictions": len(labels), "out": str(args.out)}, f"{len(labels):,} predictions: {args.out}")

"""`hadamrnn quantize`: turn a trained run into an integer network in one small file."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Literal

from hadamrnn.cli.arguments import DataOptions, JsonOption, check_unused, command, positional, set_threads
from hadamrnn.quantization import Precision, QuantizeConfig
from hadamrnn.settings import Count, option


@dataclass(frozen=True, kw_only=True)
class QuantizeOptions(Precision, DataOptions, JsonOption):
    run_folder: Path = positional("RUN", "folder that `hadamrnn train` wrote")
    finetune: bool = option(False, "fine-tune first: continue training with the integer network's rounding")
    finetune_steps: Count = option(200, "optimizer steps of --finetune (default 200)")
    split: Literal["validation", "test"] = option(
        "test", "data to compare both networks on: validation or test (default test)"
    )


@command(
    help="turn a trained network into integers",
    description="Calibrate on training and validation data and write the integer network to "
    "RUN/model.int.safetensors. Print its size, and the metric of both networks on the test set.",
    examples=("hadamrnn quantize runs/pmnist --activation-bits 12",),
)
def run(args: QuantizeOptions) -> None:
    from hadamrnn.estimators.detector_folder import refuse_detector
    from hadamrnn.quantization.chain import RECIPE
    from hadamrnn.quantization.results import quantize_figures, quantize_lines
    from hadamrnn.run import Run

    if not args.finetune:
        check_unused(args, "without --finetune", "finetune_steps")
    set_threads(args.threads)
    config = QuantizeConfig(
        **{each.name: getattr(args, each.name) for each in fields(Precision)},
        finetune=replace(RECIPE, steps=args.finetune_steps) if args.finetune else None,
    )
    refuse_detector(args.run_folder, "whose network is in integers already. Export it, or run predict.")
    opened = Run.open(args.run_folder, args.data_dir)
    figures = quantize_figures(opened.quantize(config, split=args.split, threads=args.threads))
    args.show({"task": opened.config.task, **figures}, *quantize_lines(figures))

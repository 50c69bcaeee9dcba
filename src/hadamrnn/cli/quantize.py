"""`hadamrnn quantize`: a trained run becomes an integer network in one small file."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hadamrnn.cli.arguments import DataOptions, JsonOption, check_unused, command, positional, set_threads
from hadamrnn.quantization.config import Precision, QuantizeConfig
from hadamrnn.settings import Count, option

if TYPE_CHECKING:
    from hadamrnn.fixedpoint import IntegerModel

# Up to here there is no advice: the paper's networks lose as much at 12 bits.
BEARABLE_LOSS = 0.003  # of accuracy
BEARABLE_RATIO, SMALL_CROSS_ENTROPY = 2.0, 3e-7


@dataclass(frozen=True, kw_only=True)
class QuantizeOptions(Precision, DataOptions, JsonOption):
    run_folder: Path = positional("RUN", "folder that `hadamrnn train` wrote")
    finetune: bool = option(
        False, "fine-tune first: continue training with the rounding of the integer network"
    )
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
    if not args.finetune:
        check_unused(args, "without --finetune", "finetune_steps")
    figures = quantize_run(args)
    args.show(figures, *lines(figures))


def quantize_run(args: QuantizeOptions) -> dict[str, Any]:
    """Write the integer network of a run and return the figures of both."""
    from hadamrnn.fixedpoint.encoding import input_meaning
    from hadamrnn.locks import held
    from hadamrnn.quantization.chain import RECIPE, quantize
    from hadamrnn.quantization.network import IntegerNetwork
    from hadamrnn.training.evaluate import evaluate
    from hadamrnn.training.folder import RunFolder
    from hadamrnn.training.run import load_run, load_splits

    with held(RunFolder.open(args.run_folder).path):
        set_threads(args.threads)
        folder, model = load_run(args.run_folder)
        splits = load_splits(folder, args.data_dir)
        config = QuantizeConfig(
            **{each.name: getattr(args, each.name) for each in fields(Precision)},
            finetune=replace(RECIPE, steps=args.finetune_steps) if args.finetune else None,
        )
        integer, _ = quantize(model, splits, config)
        split = getattr(splits, args.split)
        figures: dict[str, Any] = {"task": splits.task, "metric": splits.metric, "split": args.split}
        figures["activation_bits"] = integer.activation_bits
        figures["inputs"] = input_meaning(integer)
        if split.labelled:
            network = IntegerNetwork(integer, args.threads)
            figures["float"] = evaluate(model, split, splits.metric)
            figures["integer"] = evaluate(network, split, splits.metric)
            figures["saturations"] = network.saturations
            figures["input_saturations"] = network.input_saturations
        return figures | save(integer, folder.path, figures)


def save(integer: IntegerModel, folder: Path, figures: dict[str, Any]) -> dict[str, Any]:
    """Write the model with its metadata into the run's folder and return what the file takes."""
    from hadamrnn.fixedpoint.cost import network_size
    from hadamrnn.run import INTEGER, save_integer

    size = save_integer(integer, folder, figures)
    return {
        "file": str(folder / INTEGER),
        "payload_bytes": size.payload,
        "extra_bytes": size.extra,
        "header_bytes": size.header,
        "kilobytes": round(size.payload / 1024, 4),
        "paper_kilobytes": round(network_size(integer.network).kilobytes, 4),
    }


def lines(figures: dict[str, Any]) -> list[str]:
    from hadamrnn.training.progress import show_metric

    metrics = []
    if "float" in figures:
        metrics = [
            f"float     {show_metric(figures['metric'], figures['float'])} over {figures['split']}",
            f"integer   {show_metric(figures['metric'], figures['integer'])}, "
            f"{figures['saturations']} states and {figures['input_saturations']} inputs saturated",
            *_advice(figures),
        ]
    extra = f", {figures['extra_bytes'] / 1024:.2f} kB of tables beside it" if figures["extra_bytes"] else ""
    return [
        *metrics,
        f"weights   {figures['kilobytes']:.2f} kB (the paper's formula: {figures['paper_kilobytes']:.2f} kB)"
        f"{extra}, header {figures['header_bytes']} bytes",
        f"inputs    {figures['inputs']}",
        f"written   {figures['file']}",
    ]


def _advice(figures: dict[str, Any]) -> list[str]:
    """Return what to do about a metric that rounding has spoilt; nothing where it has not."""
    exact, rounded, bits = figures["float"], figures["integer"], figures["activation_bits"]
    if figures["metric"] == "accuracy":
        lost, spoilt = f"{100 * (exact - rounded):.2f} points", exact - rounded > BEARABLE_LOSS
    else:
        spoilt = rounded > max(BEARABLE_RATIO * exact, SMALL_CROSS_ENTROPY)
        lost = f"{rounded - exact:.2g} of {figures['metric'].replace('_', '-')}"
    more = f"--activation-bits {min(bits + 2, 16)} or " if bits < 16 else ""
    return [f"advice    {bits}-bit states cost {lost}: try {more}--finetune"] if spoilt else []

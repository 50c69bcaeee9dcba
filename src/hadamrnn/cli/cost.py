"""`hadamrnn cost`: print a network's bytes and operations, in the paper's count and in the library's."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hadamrnn.cli.arguments import (
    MODEL_HELP,
    MODEL_OPTION_HELP,
    JsonOption,
    check_unused,
    command,
    flag,
    parse_options,
    positional,
    repeated,
)
from hadamrnn.cli.device import DEVICE_FIELDS, DeviceOptions, device_report, is_asked
from hadamrnn.errors import InputError
from hadamrnn.network import HADAMRNN, Network, hadamard
from hadamrnn.settings import option
from hadamrnn.training.config import OPTIONS, network_of

if TYPE_CHECKING:
    from hadamrnn.architecture import Architecture
    from hadamrnn.fixedpoint import FileSize
    from hadamrnn.fixedpoint.cost import Size, StepCost

TASK_FIELDS = ("input_size", "output_size", "activation_bits", "vocabulary_size")
NO_COST = ("dropout", "recurrence")  # settings that affect neither size nor operations


@dataclass(frozen=True, kw_only=True)
class CostOptions(DeviceOptions, JsonOption):
    """Options for those properties of a network that a task would otherwise set."""

    run_folder: Path | None = positional(
        "RUN",
        "run folder (its integer network is measured, if there is one), or the file of a reservoir",
        default=None,
    )
    model: str = option(HADAMRNN, MODEL_HELP)
    model_option: tuple[str, ...] = repeated(MODEL_OPTION_HELP)
    input_size: int | None = option(
        None, "number of inputs per step: channels, symbols, or width of the embedding"
    )
    output_size: int | None = option(None, "number of outputs: classes or predicted values")
    activation_bits: int | None = option(None, "bits of states and biases (default: floating point)")
    one_hot: bool = option(False, "inputs are symbols, one-hot encoded")
    vocabulary_size: int | None = option(None, "rows of an embedding table, which is counted separately")


@command(
    help="count the bytes and operations of a network",
    description="Print what a network costs to store and to run for one time step.",
    examples=(
        "hadamrnn cost --hidden-size 512 --input-size 1 --output-size 10 --activation-bits 12",
        "hadamrnn cost --model lstm --hidden-size 170 --input-size 1 --output-size 10",
        "hadamrnn cost runs/pmnist",
        "hadamrnn cost runs/har --rate 50 --clock 64 --window 128 --max-ram 2048",
    ),
    settings=[each.name for each in fields(Network) if each.name in OPTIONS and each.name not in NO_COST],
)
def run(options: CostOptions, settings: dict[str, Any]) -> None:
    from hadamrnn.fixedpoint.cost import fast_step_cost, network_size, paper_step_cost
    from hadamrnn.front_end import front_end_cost

    if options.run_folder is not None:
        where = "with a RUN, which has a network of its own"
        check_unused(options, where, *TASK_FIELDS, "one_hot", "model", "model_option", settings=settings)
        if options.run_folder.is_file():
            check_unused(options, "on a reservoir: its instructions are not known", *DEVICE_FIELDS)
            _show_reservoir(options.run_folder, options)
            return
        network, file = _network_of_run(options.run_folder)
    else:
        network, file = _network_of(options, settings), None
    if not isinstance(network, Network):
        where = f"on a {network.kind}: its instructions are not known"
        check_unused(options, where, *DEVICE_FIELDS)
        _show_other(network, options)
        return
    size, paper, fast = network_size(network), paper_step_cost(network), fast_step_cost(network)
    figures: dict[str, Any] = {
        "kilobytes": round(size.kilobytes, 4),
        "kilobytes_with_embedding": round(size.kilobytes_with_embedding, 4),
        "bits": asdict(size),
        "operations_per_step": {"paper": asdict(paper), "fast_transform": asdict(fast)},
    }
    lines = [f"network       {network}", *_lines(network, size, paper, fast)]
    if network.front_end is not None:
        cost = front_end_cost(network.front_end)
        figures["front_end"] = asdict(cost)
        lines += [
            f"front end     {network.front_end}",
            f"  tables      {cost.tables / 1024:9.2f} kB, and a stream of {cost.ram:,} bytes in RAM",
            f"  per frame   {cost.multiplications:15,} {cost.additions:12,}",
        ]
    if file is not None:
        figures["file_bytes"] = {**asdict(file), "total": file.total}
        lines[2:2] = [
            f"  in the file {file.payload / 1024:9.2f} kB, and {file.extra / 1024:.2f} kB of tables, "
            f"{file.header} bytes of header"
        ]
    if is_asked(options):
        device, said = device_report(options, network, run=options.run_folder)
        figures |= device
        lines += said
    options.show(figures, *lines)


def _network_of(options: CostOptions, settings: dict[str, Any]) -> Architecture:
    names = (*(() if "layer_sizes" in settings else ("hidden_size",)), "input_size", "output_size")
    task = {name: getattr(options, name) for name in ("input_size", "output_size", "vocabulary_size")}
    missing = [flag(name) for name in names if {**task, **settings}.get(name) is None]
    if missing:
        raise InputError(f"Without a RUN, these options are required: {', '.join(missing)}.")
    if options.vocabulary_size is not None:
        check_unused(options, "with --vocabulary-size: ids become embedded vectors", "one_hot")
    kind = "one_hot" if options.one_hot else "dense" if options.vocabulary_size is None else "embedded"
    own = parse_options("--model-option", options.model_option)
    network = network_of(options.model, {**settings, **own})
    if options.activation_bits is None:
        return replace(network, **{**task, "input_kind": kind})
    return replace(hadamard(network), **{**task, "input_kind": kind}, activation_bits=options.activation_bits)


def _show_reservoir(path: Path, options: CostOptions) -> None:
    """Print the cost of a reservoir from its file; operations are averages per sample."""
    from hadamrnn.reservoir import IntegerReservoir, reservoir_size, reservoir_step_cost
    from hadamrnn.reservoir.file import file_size

    model = IntegerReservoir.load(path)
    size, steps = reservoir_size(model.features), reservoir_step_cost(model.features)
    file = file_size(model, path.stat().st_size)
    figures = {
        "model": model.network.kind,
        "bytes": size.bytes,
        "bits": asdict(size),
        "operations_per_step": {"mean": asdict(steps)},
        "file_bytes": {**asdict(file), "total": file.total},
    }
    lines = [
        f"network       {model.hidden_size} units, {len(model.features)} features",
        f"size          {size.bits / 8192:9.2f} kB",
        f"  units       {size.units / 8192:9.2f} kB",
        f"  features    {size.features / 8192:9.2f} kB",
        f"  V and b_o   {size.readout / 8192:9.2f} kB",
        f"RAM           {size.state_bytes / 1024:9.2f} kB, of a stream",
    ]
    options.show(figures, *lines, *_step_lines(steps))


def _network_of_run(folder: Path) -> tuple[Architecture, FileSize | None]:
    """Return a run's integer network and the size of its file, or its float network."""
    from hadamrnn import fixedpoint
    from hadamrnn.files import INTEGER_FILE, MODEL_FILE
    from hadamrnn.quantization.results import load_integer

    path = folder / INTEGER_FILE
    if path.is_file():
        model = load_integer(folder)
        return model.network, fixedpoint.file_size(model, path.stat().st_size)
    from hadamrnn.nn.storage import load_model

    path = folder / MODEL_FILE
    if not path.is_file():
        raise InputError(f"{folder} must contain {INTEGER_FILE} or {MODEL_FILE}, but has neither.")
    return load_model(path).network, None


def _show_other(network: Architecture, options: CostOptions) -> None:
    """Print the cost of another kind of network by the rules of its package."""
    size, steps = network.cost()
    figures = {
        "model": network.kind,
        "kilobytes": round(size.kilobytes, 4),
        "stored_kilobytes": round(size.stored_kilobytes, 4),
        "kilobytes_with_embedding": round(size.kilobytes_with_embedding, 4),
        "bits": asdict(size),
        "operations_per_step": {"paper": asdict(steps)},
    }
    lines = [
        f"size by the paper's rule {size.kilobytes:9.2f} kB",
        f"with all that is stored  {size.stored_kilobytes:9.2f} kB",
    ]
    for name, bits in size.parts.items():
        if bits:
            remark = ", left out by the paper" if name in size.left_out else ""
            lines.append(f"  {name.replace('_', ' '):22} {bits / 8192:9.2f} kB{remark}")
    if size.embedding:
        lines.append(f"  {'embedding':22} {size.embedding / 8192:9.2f} kB, not counted above")
    options.show(figures, *lines, *_step_lines(steps))


def _shapes(network: Network) -> str:
    """Return the shapes of every layer's U, lowest layer first, and of V."""
    pairs = zip(network.cell_sizes, network.cell_input_sizes, strict=True)
    shapes = [f"{size} x {seen}" for size, seen in pairs]
    return f": {', '.join(shapes)}, and {network.output_size} x {network.num_features}"


def _lines(network: Network, size: Size, paper: StepCost, fast: StepCost) -> list[str]:
    lines = [
        f"size          {size.kilobytes:9.2f} kB",
        f"  signs       {size.signs / 8192:9.2f} kB",
        f"  U and V     {size.weights / 8192:9.2f} kB{_shapes(network) if network.cells > 1 else ''}",
        f"  biases      {size.biases / 8192:9.2f} kB",
    ]
    if size.scales:
        lines.append(f"  scales      {size.scales / 8192:9.2f} kB, of leaks, thresholds, gains and features")
    if size.embedding:
        lines.append(f"  embedding   {size.embedding / 8192:9.2f} kB, not counted above")
    return [*lines, *_step_lines(paper, fast)]


def _step_lines(paper: StepCost, fast: StepCost | None = None) -> list[str]:
    """Return the table of a step's operations, with the additions of the fast transform if there is one."""
    title = "" if fast is None else f" {'with the fast transform':>24}"
    lines = [f"{'per step':13} {'multiplications':>15} {'additions':>12}{title}"]
    for name in ("input", "recurrent", "output"):
        counted = getattr(paper, name)
        ours = "" if fast is None else f" {getattr(fast, name).additions:24,}"
        lines.append(f"  {name:11} {counted.multiplications:15,} {counted.additions:12,}{ours}")
    return lines

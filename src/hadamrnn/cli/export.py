"""`hadamrnn export`: write a run as C, an Arduino library, JavaScript, a page or ONNX; measure devices."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hadamrnn.cli.arguments import DataFolder, JsonOption, check_unused, command, positional
from hadamrnn.cli.device import DEVICE_FIELDS, DeviceOptions, device_report, is_asked
from hadamrnn.errors import InputError
from hadamrnn.network import Network
from hadamrnn.settings import option

if TYPE_CHECKING:
    from hadamrnn.architecture import Architecture
    from hadamrnn.deployment import Export
    from hadamrnn.export.target_front_end import FrontEndMeasurement
    from hadamrnn.export.targets import Measurement
    from hadamrnn.front_end import FrontEnd


@dataclass(frozen=True, kw_only=True)
class ExportOptions(DeviceOptions, DataFolder, JsonOption):
    path: Path = positional("RUN", "run folder, or its integer model file")
    to: Literal["c", "arduino", "js", "page", "onnx"] = option(
        "c", "what to write: c (default), arduino, js, page (an HTML page that runs it on test data) or onnx"
    )
    out: Path | None = option(None, "new or empty folder to write to")
    name: str = option("net", "prefix of files and C symbols (default net)")
    unpacked: bool = option(False, "store each weight in one byte: larger, faster (c, arduino and --report)")
    golden: Literal["data", "random"] | None = option(
        None,
        "what the self-test replays: data (sequences of the test set, the default if it is found) or "
        "random (random codes)",
    )
    examples: Path | None = option(
        None, "npz file of series x and labels y for a page to play (default: the run's test set)"
    )
    force: bool = option(False, "replace an earlier export in --out")
    report: bool = option(
        False, "print flash, RAM, stack and the cost of a step on every target whose tools are installed"
    )


@command(
    help="write a network as C, Arduino library, JavaScript, live page or ONNX",
    description="Write a network to a folder that builds and tests itself, or report its cost on devices. "
    "A run that has no integer network yet is quantized first, as by `hadamrnn quantize RUN`.",
    examples=(
        "hadamrnn export runs/har --to c --out har_c --name har",
        "hadamrnn export runs/har --report",
        "hadamrnn export runs/har --report --rate 50 --window 128",
    ),
)
def run(args: ExportOptions) -> None:
    if args.out is None and not args.report:
        raise InputError("An export needs --out DIR (a new folder), or --report for figures alone.")
    _check(args)
    figures, lines = _quantize_first(args)
    if args.out is not None:
        written = _write(args, args.out)
        figures["folder"] = str(written.folder)
        lines.append(f"wrote {args.out}{_advice(args)}")
        if written.golden is not None:
            figures["golden"] = written.golden
            lines.append(f"golden vectors: {written.golden}")
    if args.report:
        from hadamrnn.deployment import load_network
        from hadamrnn.export.targets import measure_all

        model = load_network(args.path)
        rows, skipped = measure_all(model, packed=not args.unpacked)
        figures["targets"], figures["skipped"] = [asdict(row) for row in rows], skipped
        lines += _report_lines(rows, skipped)
        if model.network.front_end is not None:
            from hadamrnn.export.target_front_end import measure_front_ends

            front_ends = measure_front_ends(model.network.front_end)
            figures["front_end"] = [asdict(row) for row in front_ends]
            lines += _front_end_lines(model.network.front_end, front_ends, rows)
        if is_asked(args):
            device, said = _device(args, model.network, rows)
            figures |= device
            lines += said
    args.show(figures, *lines)


def _device(
    args: ExportOptions, network: Architecture, rows: list[Measurement]
) -> tuple[dict[str, Any], list[str]]:
    """Return the load of the device, using the counted instructions of a step if available."""
    if not isinstance(network, Network):
        raise InputError("A reservoir's load of a device is not known. Leave --rate and similar options out.")
    step = next((row.step for row in rows if row.target == "cortex-m4"), None)
    return device_report(args, network, step, args.path)


def _check(args: ExportOptions) -> None:
    """Refuse options that would fail or be ignored, before quantizing a run."""
    from hadamrnn.export.folder import check_folder, check_name

    check_name(args.name)
    if not args.report:
        check_unused(args, "without --report", *DEVICE_FIELDS)
    if args.out is None:
        check_unused(args, "without --out", "to", "name", "golden", "examples", "force")
    else:
        check_folder(args.out, force=args.force)
    if args.to not in ("c", "arduino") and not args.report:
        check_unused(args, f"on --to {args.to}", "unpacked")
    if args.to != "page":
        check_unused(args, f"on --to {args.to}", "examples")
    if args.to in ("page", "onnx"):
        check_unused(args, f"on --to {args.to}", "golden")


def _quantize_first(args: ExportOptions) -> tuple[dict[str, Any], list[str]]:
    """Quantize a trained run that has no integer network yet; return figures and lines.

    For ONNX nothing is quantized, because the float network can be exported without data.
    """
    from hadamrnn.files import INTEGER_FILE, MODEL_FILE

    trained = (args.path / MODEL_FILE).exists() and not (args.path / INTEGER_FILE).exists()
    if not trained or (args.to == "onnx" and not args.report):
        return {}, []
    from hadamrnn.quantization.results import quantize_figures, quantize_lines
    from hadamrnn.run import Run

    figures = quantize_figures(Run.open(args.path, args.data_dir).quantize())
    return {"quantized": figures}, quantize_lines(figures)


def _write(args: ExportOptions, out: Path) -> Export:
    """Write the export of a run, or of an integer model file."""
    from hadamrnn.deployment import load_network, write
    from hadamrnn.files import RECORD_FILE
    from hadamrnn.run import Run

    options: dict[str, Any] = {
        "packed": not args.unpacked,
        "golden": args.golden,
        "examples": args.examples,
        "force": args.force,
    }
    if (args.path / RECORD_FILE).exists():
        return Run.open(args.path, args.data_dir).export(out, args.to, args.name, **options)
    return write(load_network(args.path), out, args.to, args.name, **options)


def _advice(args: ExportOptions) -> str:
    advice = {
        "c": f"; check it with: make -C {args.out} test",
        "js": f"; check it with: node {args.out}/test.js",
        "page": f"; open {args.out}/{args.name}.html",
    }
    return advice.get(args.to, "")


def _report_lines(rows: list[Measurement], skipped: dict[str, str]) -> list[str]:
    sizes = "".join(f"{name:>8}" for name in ("flash", "code", "RAM", "logits", "stack"))
    lines = [f"{'target':<12}{sizes}{'step':>10}{'read-out':>10}"]
    for row in rows:
        sizes = f"{row.flash:>8,}{row.code:>8,}{row.ram:>8,}{row.logits:>8,}{row.stack:>8,}"
        verdict = "bit-exact" if row.differences == 0 else f"{row.differences} DIFFERENCES"
        lines.append(f"{row.target:<12}{sizes}{row.step:>10,}{row.readout:>10,}  {row.unit}, {verdict}")
    return lines + [f"{name:<12}not measured: {reason}" for name, reason in skipped.items()]


def _front_end_lines(
    front_end: FrontEnd, measured: list[FrontEndMeasurement], rows: list[Measurement]
) -> list[str]:
    """Return lines on the front end's size and cost, and on the processor load together with the network."""
    steps = {row.target: row.step for row in rows}
    lines = [
        f"front end: {front_end}",
        f"{'target':<12}{'flash':>8}{'code':>8}{'RAM':>8}{'stack':>16}{'hop':>10}",
    ]
    for row in measured:
        sizes = f"{row.flash:>8,}{row.code:>8,}{row.ram:>8,}{row.stack:>16,}{row.hop:>10,}"
        verdict = "bit-exact" if row.differences == 0 else f"{row.differences} DIFFERENCES"
        both = (row.hop + steps[row.target]) * front_end.rate / front_end.hop if row.target in steps else None
        share = "" if both is None else f"; with the network {both / 1e6:.1f} million a second"
        lines.append(f"{row.target:<12}{sizes}{'':>10}  {row.unit}, {verdict}{share}")
    return lines

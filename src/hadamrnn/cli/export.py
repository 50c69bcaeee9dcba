"""`hadamrnn export`: a run as C, Arduino library, JavaScript, live page or ONNX; device figures."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hadamrnn.cli.arguments import DataFolder, JsonOption, check_unused, command, positional
from hadamrnn.errors import InputError
from hadamrnn.settings import option

if TYPE_CHECKING:
    from hadamrnn.data import Splits
    from hadamrnn.export.golden import Golden
    from hadamrnn.export.targets import Measurement
    from hadamrnn.fixedpoint import IntegerModel

GOLDEN_SEQUENCES = 3
BOARD_VALUES = 2_000  # golden numbers in an Arduino sketch: up to four bytes each, beside the network


@dataclass(frozen=True, kw_only=True)
class ExportOptions(DataFolder, JsonOption):
    path: Path = positional("RUN", "run folder, or its integer model file")
    to: Literal["c", "arduino", "js", "page", "onnx"] = option(
        "c", "what to write: c (default), arduino, js, page (an HTML page that runs it on test data) or onnx"
    )
    out: Path | None = option(None, "new or empty folder to write to")
    name: str = option("net", "prefix of files and C symbols (default net)")
    unpacked: bool = option(
        False, "give each weight a byte of its own: larger, faster (c, arduino and --report)"
    )
    golden: Literal["data", "random"] | None = option(
        None,
        "what the self-test replays: data (sequences of the test set, the default where it is found) or "
        "random (random codes)",
    )
    force: bool = option(False, "replace an earlier export in --out")
    report: bool = option(
        False, "print flash, RAM, stack and the cost of a step on every target whose tools are installed"
    )


@command(
    help="write a run as C, Arduino library, JavaScript, live page or ONNX",
    description="Write a folder that builds and tests itself, or report what the network takes on devices. "
    "A run without an integer network is quantized first, as `hadamrnn quantize RUN` does.",
    examples=(
        "hadamrnn export runs/har --to c --out har_c --name har",
        "hadamrnn export runs/har --report",
    ),
)
def run(args: ExportOptions) -> None:
    from hadamrnn.run import load_integer

    if args.out is None and not args.report:
        raise InputError("An export needs --out DIR (a new folder), or --report for figures alone.")
    _check(args)
    figures: dict[str, Any] = _quantize_first(args)
    if args.out is not None and args.to == "onnx":
        figures["folder"] = str(_write_onnx(args, args.out))
    elif args.out is not None and args.to == "page":
        figures["folder"] = str(_write_page(load_integer(args.path), args, args.out))
    elif args.out is not None:
        figures |= _write(load_integer(args.path), args, args.out)
    if args.report:
        from hadamrnn.export.targets import measure_all

        rows, skipped = measure_all(load_integer(args.path), packed=not args.unpacked)
        figures["targets"], figures["skipped"] = [asdict(row) for row in rows], skipped
    lines = []
    if args.out is not None:
        advice = {
            "c": f"; check it with: make -C {args.out} test",
            "js": f"; check it with: node {args.out}/test.js",
            "page": f"; open {args.out}/{args.name}.html",
        }
        lines.append(f"wrote {args.out}{advice.get(args.to, '')}")
    if "golden" in figures:
        lines.append(f"golden vectors: {figures['golden']}")
    args.show(figures, *lines, *(_report_lines(rows, skipped) if args.report else []))


def _check(args: ExportOptions) -> None:
    """Refuse what would fail or be ignored, before a run is quantized for it."""
    from hadamrnn.export.folder import check_folder, check_name

    check_name(args.name)
    if args.out is None:
        check_unused(args, "without --out", "to", "name", "golden", "force")
    else:
        check_folder(args.out, force=args.force)
    if args.to not in ("c", "arduino") and not args.report:
        check_unused(args, f"on --to {args.to}", "unpacked")
    if args.to in ("page", "onnx"):
        check_unused(args, f"on --to {args.to}", "golden")


def _quantize_first(args: ExportOptions) -> dict[str, Any]:
    """Quantize a trained run that has no integer network, as `hadamrnn quantize` does; return the figures.

    ONNX takes what a run holds: its float network needs no data.
    """
    from hadamrnn.run import INTEGER, MODEL

    trained = (args.path / MODEL).exists() and not (args.path / INTEGER).exists()
    if not trained or (args.to == "onnx" and not args.report):
        return {}
    from hadamrnn.cli.quantize import QuantizeOptions, lines, quantize_run

    figures = quantize_run(QuantizeOptions(run_folder=args.path, data_dir=args.data_dir))
    if not args.json:
        print("\n".join(lines(figures)))
    return {"quantized": figures}


def _write(model: IntegerModel, args: ExportOptions, out: Path) -> dict[str, Any]:
    """Write C, an Arduino library or JavaScript; return the folder and what its golden vectors are of."""
    from hadamrnn.export import export_arduino, export_c, export_js

    golden, reason = _golden(model, args)
    if args.to == "js":
        folder = export_js(model, out, args.name, golden=golden, force=args.force)
    else:
        writer = export_c if args.to == "c" else export_arduino
        folder = writer(model, out, args.name, packed=not args.unpacked, golden=golden, force=args.force)
    return {"folder": str(folder), "golden": golden.source if golden is not None else f"random codes{reason}"}


def _golden(model: IntegerModel, args: ExportOptions) -> tuple[Golden | None, str]:
    """Return golden vectors of the run's test set, or None (for random ones) and the reason."""
    if args.golden == "random":
        return None, ""
    try:
        return real_golden(model, args.path, args.data_dir, small=args.to == "arduino"), ""
    except (InputError, ImportError) as error:  # an integer model needs no torch, a data set does
        if args.golden == "data":
            raise
        return None, f" (no test data: {error})"


def real_golden(model: IntegerModel, path: Path, data_dir: Path | None, small: bool) -> Golden:
    """Return golden vectors of the first sequences of a run's test set, which is not downloaded."""
    from hadamrnn.export.golden import MAX_VALUES, fit_golden
    from hadamrnn.fixedpoint.encoding import raw_from_inputs

    splits = _splits(path, data_dir)
    x, _, lengths = splits.test.batch(slice(GOLDEN_SEQUENCES))
    kept = (x if lengths is None else x[:, : int(lengths.min())]).numpy()
    inputs = raw_from_inputs(model, kept) if model.input_kind == "dense" else kept
    source = f"sequences of the test set of {splits.task}"
    most = BOARD_VALUES if small else MAX_VALUES
    return fit_golden(model, inputs, source=source, sequences=GOLDEN_SEQUENCES, most=most)


def _splits(path: Path, data_dir: Path | None) -> Splits:
    """Return the data of a run folder; what is missing is not downloaded."""
    if not path.is_dir():
        raise InputError(f"RUN must be a run folder, which names its test data, got the file {path}.")
    from hadamrnn.data.files import offline
    from hadamrnn.training.folder import RunFolder
    from hadamrnn.training.run import load_splits

    with offline():
        return load_splits(RunFolder.open(path), data_dir)


def _write_page(model: IntegerModel, args: ExportOptions, out: Path) -> Path:
    """Write a page that replays sequences of the run's test set; images get a pad to draw on."""
    from hadamrnn.demo.chain import drawing_pad, stored_sequences
    from hadamrnn.export.page import export_page

    splits = _splits(args.path, args.data_dir)
    stored, pad = stored_sequences(model, splits), drawing_pad(model, splits)
    return export_page(model, out, args.name, stored, title=splits.task, pad=pad, force=args.force)


def _write_onnx(args: ExportOptions, out: Path) -> Path:
    """Export what a run holds: its float network, its integer network, or both."""
    from hadamrnn.export.onnx import Units, export_onnx
    from hadamrnn.run import INTEGER, MODEL, load_integer

    trained = args.path / MODEL
    if not trained.exists():
        return export_onnx(out, args.name, integer_model=load_integer(args.path), force=args.force)
    from hadamrnn.nn.build import load_model
    from hadamrnn.training.folder import RunFolder

    facts = RunFolder.open(args.path).facts
    quantized = load_integer(args.path) if (args.path / INTEGER).exists() else None
    return export_onnx(
        out,
        args.name,
        float_model=load_model(trained),
        integer_model=quantized,
        units=Units.of(facts.offset, facts.scale, facts.levels),
        class_names=facts.class_names,
        force=args.force,
    )


def _report_lines(rows: list[Measurement], skipped: dict[str, str]) -> list[str]:
    sizes = "".join(f"{name:>8}" for name in ("flash", "code", "RAM", "logits", "stack"))
    lines = [f"{'target':<12}{sizes}{'step':>10}{'read-out':>10}"]
    for row in rows:
        sizes = f"{row.flash:>8,}{row.code:>8,}{row.ram:>8,}{row.logits:>8,}{row.stack:>8,}"
        verdict = "bit-exact" if row.differences == 0 else f"{row.differences} DIFFERENCES"
        lines.append(f"{row.target:<12}{sizes}{row.step:>10,}{row.readout:>10,}  {row.unit}, {verdict}")
    return lines + [f"{name:<12}not measured: {reason}" for name, reason in skipped.items()]

"""`hadamrnn cost`: bytes and operations of a network, the paper's count and ours."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hadamrnn.cli.arguments import add_json_option, add_model_option, parse_options, weight_bits
from hadamrnn.errors import InputError
from hadamrnn.training.presets import model_values

HADAMRNN = "hadamrnn"

if TYPE_CHECKING:
    from hadamrnn.fixedpoint import FileSize
    from hadamrnn.fixedpoint.cost import Stack
    from hadamrnn.nn.model import SequenceModel

EXAMPLE = """examples:
  hadamrnn cost --hidden-size 512 --input-size 1 --output-size 10 --activation-bits 12
  hadamrnn cost --model lstm --hidden-size 170 --input-size 1 --output-size 10"""


def add_parser(subparsers: Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "cost",
        help="bytes and operations of a network",
        description="Print what a network costs to store and to run for one time step.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "run_folder", metavar="RUN", nargs="?", help="a quantized run (its file is measured) or a trained one"
    )
    parser.add_argument(
        "--model", default=HADAMRNN, metavar="NAME", help="kind of network (default hadamrnn)"
    )
    add_model_option(parser)
    parser.add_argument("--hidden-size", type=int, help="d_h")
    parser.add_argument("--input-size", type=int, help="d_in: channels, symbols or embedding width")
    parser.add_argument("--output-size", type=int, help="d_out")
    parser.add_argument("--num-layers", type=int, default=1, help="stacked recurrent layers (default 1)")
    parser.add_argument("--bidirectional", action="store_true", help="each layer reads backwards too")
    parser.add_argument("--num-blocks", type=int, default=1, help="q, diagonal blocks of W (default 1)")
    parser.add_argument(
        "--weight-bits",
        type=weight_bits,
        default=argparse.SUPPRESS,
        help="of U and V: 2..16, ternary or none (default: 4, or what the kind of network has)",
    )
    parser.add_argument(
        "--activation-bits", type=int, help="of states and biases; floating point if left out"
    )
    parser.add_argument("--one-hot", action="store_true", help="inputs are one-hot symbols")
    parser.add_argument("--vocabulary-size", type=int, help="rows of an embedding table, counted apart")
    parser.add_argument("--column-switches", action="store_true", help="signs on columns too")
    parser.add_argument(
        "--no-input-bias", dest="input_bias", action="store_false", help="a network that learns no b_i"
    )
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    from hadamrnn.fixedpoint.cost import fast_step_cost, network_size, paper_step_cost

    shape, file = _shape_of_run(Path(args.run_folder)) if args.run_folder else (_shape_of(args), None)
    if shape.model != HADAMRNN:
        _print_baseline(shape, args.json)
        return
    size = network_size(
        shape.hidden_size,
        shape.input_size,
        shape.output_size,
        weight_bits=shape.weight_bits,
        activation_bits=shape.activation_bits,
        vocabulary_size=shape.vocabulary_size,
        column_switches=shape.column_switches,
        input_bias=shape.input_bias,
        stack=shape.stack,
    )
    sizes = (shape.hidden_size, shape.input_size, shape.output_size)
    options: dict[str, Any] = {
        "num_blocks": shape.num_blocks,
        "weight_bits": shape.weight_bits,
        "one_hot": shape.one_hot,
        "stack": shape.stack,
    }
    paper = paper_step_cost(*sizes, **options)
    fast = fast_step_cost(*sizes, **options)
    figures = {
        "kilobytes": round(size.kilobytes, 4),
        "kilobytes_with_embedding": round(size.kilobytes_with_embedding, 4),
        "bits": asdict(size),
        "operations_per_step": {"paper": asdict(paper), "fast_transform": asdict(fast)},
    }
    lines = _lines(size, paper, fast)
    if file is not None:
        figures["file_bytes"] = {**asdict(file), "total": file.total}
        lines[1:1] = [
            f"  in the file {file.payload / 1024:9.2f} kB, and {file.extra / 1024:.2f} kB of tables, "
            f"{file.header} bytes of header"
        ]
    print(json.dumps(figures) if args.json else "\n".join(lines))


@dataclass(frozen=True)
class Shape:
    """What the cost of a network hangs on."""

    hidden_size: int
    input_size: int
    output_size: int
    num_blocks: int
    weight_bits: int | str | None
    activation_bits: int | None
    one_hot: bool
    vocabulary_size: int | None
    column_switches: bool
    input_bias: bool
    model: str = HADAMRNN
    model_options: dict[str, Any] = field(default_factory=dict)
    num_layers: int = 1
    bidirectional: bool = False

    @property
    def stack(self) -> Stack:
        from hadamrnn.fixedpoint.cost import Stack

        return Stack(self.num_layers, self.bidirectional)


def _shape_of(args: argparse.Namespace) -> Shape:
    names = ("hidden_size", "input_size", "output_size")
    missing = ["--" + name.replace("_", "-") for name in names if getattr(args, name) is None]
    if missing:
        raise InputError(f"Without a RUN these are required: {', '.join(missing)}.")
    given = {"weight_bits": model_values(args.model).get("weight_bits", 4), **vars(args)}
    given["model_options"] = parse_options("--model-option", args.model_option)
    return Shape(**{each.name: given[each.name] for each in fields(Shape)})


def _shape_of_run(folder: Path) -> tuple[Shape, FileSize | None]:
    """Return the shape of a run's integer network and what its file takes; of its float one, if need be."""
    from hadamrnn import fixedpoint

    path = folder / fixedpoint.FILE_NAME
    if path.is_file():
        model = fixedpoint.load(path)
        embedded = model.input_kind == "embedded"
        shape = Shape(
            *(model.hidden_size, model.input_size, model.output_size, model.num_blocks),
            *(model.weight_bits, model.activation_bits, model.input_kind == "one_hot"),
            *(model.vocabulary_size if embedded else None, model.column_signs is not None),
            model.has_input_bias,
        )
        return shape, fixedpoint.file_size(model, path.stat().st_size)
    from hadamrnn.baselines.networks import load_model

    path = folder / "model.safetensors"
    trained = load_model(path) if path.is_file() else None
    if trained is None or trained.config is None:
        raise InputError(f"{folder} must hold {fixedpoint.FILE_NAME} or model.safetensors, it holds neither.")
    config = trained.config
    shape = Shape(
        *(config.hidden_size, config.input_size, config.output_size, config.num_blocks, config.weight_bits),
        *(None, config.one_hot, config.vocabulary_size, config.switches == "rows+columns"),
        _learnt_input_bias(trained),
        *(config.model, config.model_options, config.num_layers, config.bidirectional),
    )
    return shape, None


def _learnt_input_bias(model: SequenceModel) -> bool:
    """Whether any b_i is other than zero: a network that learns none holds zeros."""
    from torch import Tensor

    from hadamrnn.nn.rnn import HadamRNN

    if not isinstance(model.recurrent, HadamRNN):
        return True
    biases = (cell.input_bias for cell in model.recurrent.cells)
    return any(isinstance(bias, Tensor) and bool(bias.any()) for bias in biases)


def _print_baseline(shape: Shape, as_json: bool) -> None:
    """Print the figures of a network that is no HadamRNN."""
    from hadamrnn.fixedpoint.baseline_cost import baseline_size, baseline_step_cost

    sizes = (shape.hidden_size, shape.input_size, shape.output_size)
    options: dict[str, Any] = {
        "weight_bits": shape.weight_bits,
        "options": shape.model_options,
        "stack": shape.stack,
    }
    size = baseline_size(shape.model, *sizes, vocabulary_size=shape.vocabulary_size, **options)
    steps = baseline_step_cost(shape.model, *sizes, one_hot=shape.one_hot, **options)
    if as_json:
        figures = {
            "model": shape.model,
            "kilobytes": round(size.kilobytes, 4),
            "stored_kilobytes": round(size.stored_kilobytes, 4),
            "kilobytes_with_embedding": round(size.kilobytes_with_embedding, 4),
            "bits": asdict(size),
            "operations_per_step": {"paper": asdict(steps)},
        }
        print(json.dumps(figures))
        return
    print(f"size by the paper's rule {size.kilobytes:9.2f} kB")
    print(f"with all that is stored  {size.stored_kilobytes:9.2f} kB")
    for name, bits in size.parts.items():
        if bits:
            remark = ", left out by the paper" if name in size.left_out else ""
            print(f"  {name.replace('_', ' '):22} {bits / 8192:9.2f} kB{remark}")
    if size.embedding:
        print(f"  {'embedding':22} {size.embedding / 8192:9.2f} kB, not counted above")
    print(f"{'per step':13} {'multiplications':>15} {'additions':>12}")
    for name in ("input", "recurrent", "output"):
        counted = getattr(steps, name)
        print(f"  {name:11} {counted.multiplications:15,} {counted.additions:12,}")


def _lines(size: Any, paper: Any, fast: Any) -> list[str]:
    lines = [
        f"size          {size.kilobytes:9.2f} kB",
        f"  signs       {size.signs / 8192:9.2f} kB",
        f"  U and V     {size.weights / 8192:9.2f} kB",
        f"  biases      {size.biases / 8192:9.2f} kB",
    ]
    if size.embedding:
        lines.append(f"  embedding   {size.embedding / 8192:9.2f} kB, not counted above")
    lines.append(f"{'per step':13} {'multiplications':>15} {'additions':>12} {'with the fast transform':>24}")
    for name in ("input", "recurrent", "output"):
        counted, ours = getattr(paper, name), getattr(fast, name)
        lines.append(
            f"  {name:11} {counted.multiplications:15,} {counted.additions:12,} {ours.additions:24,}"
        )
    return lines

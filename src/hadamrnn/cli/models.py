"""`hadamrnn models`: list the trained integer models that are bundled with the package."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hadamrnn.cli.arguments import JsonOption, check_unused, command, positional
from hadamrnn.settings import option


@dataclass(frozen=True, kw_only=True)
class ModelsOptions(JsonOption):
    name: str | None = positional("NAME", "the model to copy to --out", default=None)
    out: Path | None = option(None, "folder to copy to (default: the current folder)")


@command(
    help="list and copy trained integer models",
    description="List the trained integer models that are bundled with the package, with their inputs, or "
    "copy one of them. --json also prints the command that made each model.",
    examples=(
        "hadamrnn models",
        "hadamrnn models motion-6kb --out models",
    ),
)
def run(args: ModelsOptions) -> None:
    from hadamrnn import models

    if args.name is not None:
        written = [str(path) for path in models.copy(models.find(args.name), args.out or Path())]
        args.show({"written": written}, f"written: {', '.join(written)}")
    else:
        check_unused(args, "without a NAME", "out")
        found = models.shipped()
        none = "no models ship with this installation; make one: hadamrnn train, then hadamrnn quantize"
        args.show([asdict(model) for model in found], *(map(_line, found) if found else [none]))


def _line(model: Any) -> str:
    figure = ""
    if model.test is not None:
        value = f"{100 * model.test:.2f} %" if model.metric == "accuracy" else f"{model.test:.3g}"
        figure = f"{model.metric} {value}"
    inputs = model.inputs
    return (
        f"{model.name:20} {model.kilobytes:6.2f} kB  {figure:24} {model.load().network}\n"
        f"  channels       {inputs.channels}\n"
        f"  values         {inputs.unit}; {inputs.rate}; {inputs.steps} steps\n"
        f"  preprocessing  {inputs.preprocessing}"
    )

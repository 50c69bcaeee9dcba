"""`hadamrnn doctor`: print versions, kernel backend and data folders."""

from __future__ import annotations

import platform

from hadamrnn.cli.arguments import JsonOption, command
from hadamrnn.errors import InputError

PACKAGES = ("torch", "numpy", "safetensors", "scikit-learn", "onnxruntime")


@command(
    help="show versions, the kernel backend and the data folders",
    description="Print the details of this installation, for bug reports.",
    examples=("hadamrnn doctor --json",),
)
def run(args: JsonOption) -> None:
    facts = collect()
    args.show(
        facts, *(f"{name:16} {'not installed' if fact is None else fact}" for name, fact in facts.items())
    )


def collect() -> dict[str, str | int | None]:
    """Return the facts, one per line of the report."""
    import torch

    from hadamrnn.kernels import native_status
    from hadamrnn.packages import installed_version, package_version

    native = native_status()
    return {
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "hadamrnn": package_version(),
        **{package: installed_version(package) for package in PACKAGES},
        "threads": torch.get_num_threads(),
        "backend": native.backend,
        "instruction_set": native.isa or "chosen by torch",
        "native_library": native.path or native.reason,
        "data": _data_folders(),
    }


def _data_folders() -> str:
    from hadamrnn.data.files import search_folders

    try:
        return ", ".join(map(str, search_folders(None)))
    except InputError as error:
        return str(error)

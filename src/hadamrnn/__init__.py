"""Recurrent networks that fit in kilobytes.

Public names, listed in `__init__.pyi`, are resolved on first use, so that `import hadamrnn` stays light and
the integer half of the package works without torch.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

_LINES = map(str.split, Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8").splitlines())
_MODULES = {line[3]: line[1] for line in _LINES if line[:1] == ["from"]}

__all__ = ["__version__", *_MODULES]


def __getattr__(name: str) -> object:
    if name == "__version__":
        from hadamrnn.packages import package_version

        return package_version()
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'hadamrnn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

"""Hold the program that runs integer networks on devices: `hadamrnn.h`, written by hand.

Exports copy it next to a model's data; `fixedpoint/step.py` specifies it in numpy.
"""

from importlib import resources


def runtime_file(file: str) -> str:
    """Return the text of a file of the runtime."""
    return resources.files("hadamrnn.runtime").joinpath(file).read_text(encoding="utf-8")

"""The tasks by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path

from hadamrnn.data.copy import load_copy
from hadamrnn.data.digits import load_digits
from hadamrnn.data.splits import Splits
from hadamrnn.errors import InputError

LOADERS: dict[str, Callable[..., Splits]] = {
    "copy": load_copy,
    "digits": load_digits,
}
TASKS = tuple(LOADERS)


def load_task(name: str, data_dir: str | Path | None = None, **options: object) -> Splits:
    """Return the splits of the task `name`.

    Args:
        name: one of `TASKS`.
        data_dir: folder with the task's files; by default `HADAMRNN_DATA`, else the user's cache
            folder, into which missing files are downloaded. Unread by tasks without files.
        options: the keyword arguments of the task's loader.

    >>> splits = load_task("copy", delay=5, sentence_length=2, train_size=3)
    >>> splits.train.batch(slice(None))[0].shape
    torch.Size([3, 9])
    """
    if name not in LOADERS:
        raise InputError(f"A task is one of {', '.join(TASKS)}; got {name!r}.{_did_you_mean(name, TASKS)}")
    loader = LOADERS[name]
    accepted = list(inspect.signature(loader).parameters)
    for option in options:
        if option not in accepted:
            valid = [other for other in accepted if other != "data_dir"]
            known = f"takes {', '.join(valid)}" if valid else "takes no options"
            raise InputError(f"The task {name} {known}; got {option!r}.{_did_you_mean(option, valid)}")
    if "data_dir" in accepted:
        options["data_dir"] = data_dir
    return loader(**options)


def _did_you_mean(name: str, valid: list[str] | tuple[str, ...]) -> str:
    nearest = get_close_matches(name, valid, n=1, cutoff=0.5)
    return f" Did you mean {nearest[0]}?" if nearest else ""

"""Random draws from a generator of the run's own.

torch draws the weights of modules, and the masks of dropout, from one generator that all threads share.
`Draws` gives them another one. It acts only on the thread that enters it, so runs in several threads do not
disturb each other, and the caller's random stream stays as it was.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class Draws(TorchDispatchMode):
    """A context in which torch draws from `generator`; `drawn` says whether it did.

    The bits are those that torch's own generator gives after `manual_seed(seed)`.

    >>> with Draws(seed=3):
    ...     first = torch.nn.Linear(2, 2).weight
    >>> generator = torch.manual_seed(3)
    >>> torch.equal(first, torch.nn.Linear(2, 2).weight)
    True
    """

    def __init__(self, seed: int = 0) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.generator = torch.Generator().manual_seed(seed)
        self.drawn = False

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Do without the guard for `torch.compile`, which imports the compiler: 3 seconds and 90 MB."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded in func.tags:
            self.drawn = True
            names = [argument.name for argument in func._schema.arguments]
            if "generator" not in names:  # as rand, whose overload rand.generator does
                func = func.overloadpacket.generator
            kwargs = {**kwargs, "generator": self.generator}
        return func(*args, **kwargs)

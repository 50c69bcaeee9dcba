"""An extension of griffe: examples in docstrings, which need no heading here, become blocks of code."""

from __future__ import annotations

import re
from typing import Any

import griffe

# From the first prompt to the next empty line, unless numpy's heading already says what it is.
EXAMPLE = re.compile(r"^(?<!--------\n)(>>> .*?)(?=\n\s*\n|\Z)", flags=re.MULTILINE | re.DOTALL)


class Doctests(griffe.Extension):
    """Fences every example of a docstring as a console session."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring:
            obj.docstring.value = EXAMPLE.sub(r"```pycon\n\1\n```", obj.docstring.value)

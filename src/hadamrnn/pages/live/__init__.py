"""Networks that run in a page: the scripts and the style of `live/`, put together for one file.

The scripts are modules that import one another; a page from the file system can import nothing, so they
become one script in the order in which they need each other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
SCRIPTS = (
    *("pictures.js", "pad.js", "lab.js", "word.js", "sensor.js", "stored.js"),
    *("resampler.js", "microphone.js", "hearing.js", "listening.js", "widget.js", "main.js"),
)
_IMPORT = re.compile(r"^import .*;\n", flags=re.MULTILINE)


@dataclass(frozen=True)
class Live:
    """A network at work, with a title and paragraphs above it; `data` is what `live/widget.js` reads."""

    name: str
    title: str
    data: Mapping[str, Any]
    paragraphs: tuple[str, ...] = ()


@dataclass(frozen=True)
class LivePart:
    """The live networks of a page, and `runtime`, the JavaScript that runs them."""

    networks: tuple[Live, ...]
    runtime: str

    @property
    def listens(self) -> bool:
        """Whether one of the networks takes the microphone, whose script is made in the page."""
        return any(live.data["listening"] for live in self.networks)

    @property
    def style(self) -> str:
        return (FOLDER / "live.css").read_text(encoding="utf-8")

    @property
    def script(self) -> str:
        """One module: the runtime and the page's scripts, without the imports between them."""
        texts = [self.runtime, *((FOLDER / name).read_text(encoding="utf-8") for name in SCRIPTS)]
        return "\n".join(_IMPORT.sub("", text) for text in texts)

    @property
    def json(self) -> str:
        """The data of all networks by name, safe inside a script element."""
        data = {live.name: live.data for live in self.networks}
        return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")

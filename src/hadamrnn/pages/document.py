"""Describe a page as data: sections, tables, pictures, live networks. `to_html` fills in `page.html.j2`.

The scripts in `live/` are modules that import one another. A page opened as a file cannot import modules, so
`LivePart` joins them into one script, in the order of their dependencies.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import jinja2
from markupsafe import Markup

Mark = Literal["", "better", "worse", "missing", "published", "code"]
SLIM = 4  # most columns that fit on a narrow screen

# Colours of figures, distinguishable for colour-blind readers.
BLUE, ORANGE, GREEN, GREY = "#0072b2", "#d55e00", "#009e73", "#777777"
LINE, SOFT, PAPER = "#dddddd", "#444444", "#ffffff"
LIVE_FOLDER = Path(__file__).parent / "live"
SCRIPTS = (
    *("pictures.js", "pad.js", "lab.js", "word.js", "sensor.js", "stored.js"),
    *("resampler.js", "microphone.js", "hearing.js", "listening.js", "widget.js", "main.js"),
)
_IMPORT = re.compile(r"^import .*;\n", flags=re.MULTILINE)


@dataclass(frozen=True)
class Cell:
    """A cell's text and its kind: better or worse than the paper, missing, published only, or a command."""

    text: str = ""
    mark: Mark = ""


@dataclass(frozen=True)
class Grid:
    """A table: a header, and lines with one cell per column."""

    header: tuple[str, ...]
    lines: tuple[tuple[Cell, ...], ...]

    @property
    def slim(self) -> bool:
        """Whether the table fits on a narrow screen as it is: few columns and no commands.

        >>> Grid(("a", "b"), ((Cell("1"), Cell("2")),)).slim, Grid(("a",), ((Cell("ls", "code"),),)).slim
        (True, False)
        """
        has_commands = any(cell.mark == "code" for line in self.lines for cell in line)
        return len(self.header) <= SLIM and not has_commands


@dataclass(frozen=True)
class Picture:
    """A figure: SVG, and a caption that also describes it to readers who cannot see it."""

    name: str
    svg: str
    caption: str


@dataclass(frozen=True)
class Link:
    """A link to a file in the document's folder."""

    target: str
    text: str


@dataclass(frozen=True)
class Part:
    """Part of a section: an optional heading, paragraphs and a table."""

    title: str = ""
    paragraphs: tuple[str, ...] = ()
    grid: Grid | None = None


@dataclass(frozen=True)
class Section:
    """A heading, paragraphs, links, parts and pictures."""

    name: str
    title: str
    paragraphs: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()
    pictures: tuple[Picture, ...] = ()
    links: tuple[Link, ...] = ()

    @property
    def beside(self) -> bool:
        """Whether the section's only table and only picture fit side by side."""
        slim = len(self.parts) == 1 and self.parts[0].grid is not None and self.parts[0].grid.slim
        return slim and len(self.pictures) == 1


def grid_section(name: str, title: str, text: str, grid: Grid, pictures: tuple[Picture, ...] = ()) -> Section:
    """Return a section of one paragraph and one table."""
    return Section(name, title, (text,), (Part(grid=grid),), pictures)


@dataclass(frozen=True)
class Document:
    title: str
    paragraphs: tuple[str, ...]
    sections: tuple[Section, ...] = ()
    live: LivePart | None = None  # shown only in HTML


def to_html(document: Document) -> str:
    """Return one self-contained HTML page."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("hadamrnn", "pages"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["inlined"] = _inlined
    return environment.get_template("page.html.j2").render(document=document)


def _inlined(picture: Picture) -> Markup:
    """Return the figure as inline SVG, with its caption for screen readers."""
    label = Markup('<svg role="img" aria-label="{}" ').format(picture.caption)
    return Markup(picture.svg.replace("<svg ", label, 1))


@dataclass(frozen=True)
class Live:
    """A running network, with a title and paragraphs above it; `live/widget.js` reads `data`."""

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
        """Whether one of the networks uses the microphone, which needs a script generated in the page."""
        return any(live.data["listening"] for live in self.networks)

    @property
    def style(self) -> str:
        return (LIVE_FOLDER / "live.css").read_text(encoding="utf-8")

    @property
    def script(self) -> str:
        """One module with the runtime and the page's scripts, without the imports between them."""
        texts = [self.runtime, *((LIVE_FOLDER / name).read_text(encoding="utf-8") for name in SCRIPTS)]
        return "\n".join(_IMPORT.sub("", text) for text in texts)

    @property
    def json(self) -> str:
        """The data of all networks by name, safe inside a script element."""
        data = {live.name: live.data for live in self.networks}
        return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")

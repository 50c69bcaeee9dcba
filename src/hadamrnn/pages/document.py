"""A page as data: sections, tables, pictures. `to_html` fills the one template, `page.html.j2`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import jinja2
from markupsafe import Markup

from hadamrnn.pages.live import LivePart

Mark = Literal["", "better", "worse", "missing", "published", "code"]
SLIM = 4  # columns that fit a narrow screen

# The colours of figures, which colour-blind readers can tell apart.
BLUE, ORANGE, GREEN, GREY = "#0072b2", "#d55e00", "#009e73", "#777777"
LINE, SOFT, PAPER = "#dddddd", "#444444", "#ffffff"


@dataclass(frozen=True)
class Cell:
    """A text and its kind: better or worse than the paper, missing, published only, or a command."""

    text: str = ""
    mark: Mark = ""


@dataclass(frozen=True)
class Grid:
    """A table: a header, and lines with a cell for each column."""

    header: tuple[str, ...]
    lines: tuple[tuple[Cell, ...], ...]

    @property
    def slim(self) -> bool:
        """Whether the table fits a narrow screen as it is: few columns, and no commands.

        >>> Grid(("a", "b"), ((Cell("1"), Cell("2")),)).slim, Grid(("a",), ((Cell("ls", "code"),),)).slim
        (True, False)
        """
        has_commands = any(cell.mark == "code" for line in self.lines for cell in line)
        return len(self.header) <= SLIM and not has_commands

    def columns(self, kept: Iterable[int]) -> Grid:
        """Return the grid with these columns only."""
        columns = list(kept)
        lines = tuple(tuple(line[i] for i in columns) for line in self.lines)
        return Grid(tuple(self.header[i] for i in columns), lines)


@dataclass(frozen=True)
class Picture:
    """A figure: SVG, and a caption that also serves readers who cannot see it."""

    name: str
    svg: str
    caption: str


@dataclass(frozen=True)
class Link:
    """A link to a file beside the document."""

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
        """Whether its one table and its one picture fit side by side."""
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
    live: LivePart | None = None  # in HTML only


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
    """Return the figure for a page, with its caption for screen readers."""
    label = Markup('<svg role="img" aria-label="{}" ').format(picture.caption)
    return Markup(picture.svg.replace("<svg ", label, 1))

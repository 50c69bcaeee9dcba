"""A page as data (sections, tables, pictures), and its two renderings: Markdown and HTML."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from typing import Literal

import jinja2
from markupsafe import Markup

from hadamrnn.pages.live import LivePart

Mark = Literal["", "better", "worse", "missing", "published", "code"]
SLIM = 4  # columns that fit a narrow screen
MARKS = {"better": "▲ ", "worse": "▼ "}

# The colours of figures, which colour-blind readers can tell apart.
BLUE, ORANGE, GREEN, GREY = "#0072b2", "#d55e00", "#009e73", "#777777"
LINE, SOFT, PAPER = "#dddddd", "#444444", "#ffffff"

# The page sets each variable twice, for light and for dark screens. Text has no colour of its own.
VARIABLES = {
    "#000000": "ink",
    SOFT: "soft",
    LINE: "line",
    PAPER: "paper",
    GREY: "grey",
    BLUE: "blue",
    ORANGE: "orange",
    GREEN: "green",
}


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
        return len(self.header) <= SLIM and not self.commands

    def without_empty_columns(self) -> Grid:
        """Return the grid without the columns that are empty in every line.

        >>> Grid(("a", "b"), ((Cell("1"), Cell()),)).without_empty_columns().header
        ('a',)
        """
        return self._columns(i for i in range(len(self.header)) if any(line[i].text for line in self.lines))

    @property
    def commands(self) -> list[str]:
        """The commands of all lines, each once."""
        return list(dict.fromkeys(cell.text for line in self.lines for cell in line if cell.mark == "code"))

    def without_commands(self) -> Grid:
        """Return the grid without the columns that hold commands.

        >>> Grid(("a", "b"), ((Cell("1"), Cell("ls", "code")),)).without_commands().header
        ('a',)
        """
        return self._columns(
            i for i in range(len(self.header)) if all(line[i].mark != "code" for line in self.lines)
        )

    def _columns(self, kept: Iterable[int]) -> Grid:
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


def to_markdown(document: Document, figures: str) -> str:
    """Return the document; `figures` is the folder of its pictures, relative to it."""
    blocks = [f"# {document.title}", *document.paragraphs]
    for section in document.sections:
        blocks += [f"## {section.title}", *section.paragraphs]
        blocks += [f"[{link.text}]({link.target})" for link in section.links]
        for part in section.parts:
            blocks += [f"### {part.title}"] if part.title else []
            blocks += part.paragraphs
            if part.grid is not None:
                blocks += [grid_markdown(part.grid.without_commands()), *_commands_markdown(part.grid)]
        blocks += [f"![{picture.caption}]({figures}/{picture.name}.svg)" for picture in section.pictures]
    return "\n\n".join(blocks) + "\n"


def _commands_markdown(grid: Grid) -> list[str]:
    """Return a list to unfold: in a column of its own a command would be far to the right of any screen."""
    if not grid.commands:
        return []
    items = [f"<li><code>{escape(command)}</code></li>" for command in grid.commands]
    return ["\n".join(["<details><summary>Commands</summary><ul>", *items, "</ul></details>"])]


def grid_markdown(grid: Grid, numbers: int = 0) -> str:
    """Return a table with pipes; its last `numbers` columns are aligned to the right.

    >>> print(grid_markdown(Grid(("set", "bytes"), ((Cell("digits"), Cell("927")),)), numbers=1))
    | set | bytes |
    |---|---:|
    | digits | 927 |
    """
    words = len(grid.header) - numbers
    lines = ["| " + " | ".join(grid.header) + " |", "|" + "---|" * words + "---:|" * numbers]
    lines += ["| " + " | ".join(map(_cell_markdown, line)) + " |" for line in grid.lines]
    return "\n".join(lines)


def _cell_markdown(cell: Cell) -> str:
    """Return the text of a cell.

    >>> _cell_markdown(Cell("+0.31", "better")), _cell_markdown(Cell("missing", "missing"))
    ('▲ +0.31', '*missing*')
    >>> _cell_markdown(Cell("a | b", "code"))
    '`a \\\\| b`'
    """
    text = cell.text.replace("|", "\\|")
    if not text:
        return ""
    if cell.mark == "code":
        return f"`{text}`"
    if cell.mark in ("missing", "published"):
        return f"*{text}*"
    return MARKS.get(cell.mark, "") + text


def _inlined(picture: Picture) -> Markup:
    """Return the figure for a page: in the page's colours, with a caption for screen readers."""
    label = Markup('<svg role="img" aria-label="{}" ').format(picture.caption)
    return Markup(_themed(picture.svg).replace("<svg ", label, 1))


def _themed(svg: str) -> str:
    """Return a figure in the page's colours.

    >>> _themed('<path style="fill: #0072b2; stroke: #000000"/>')
    '<path style="fill: var(--blue); stroke: var(--ink)"/>'
    """
    return re.sub("|".join(VARIABLES), lambda found: f"var(--{VARIABLES[found[0]]})", svg)

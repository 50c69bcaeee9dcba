"""A report as data, before it is Markdown or HTML: sections, tables, figures. Both renderings read this."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Mark = Literal["", "better", "worse", "missing", "published", "code"]


@dataclass(frozen=True)
class Cell:
    """A text, and what it means: ahead of the paper or behind it, missing, published only, a command."""

    text: str = ""
    mark: Mark = ""


@dataclass(frozen=True)
class Grid:
    """A table: a header, and lines of as many cells."""

    header: tuple[str, ...]
    lines: tuple[tuple[Cell, ...], ...]

    def without_empty_columns(self) -> Grid:
        """Return the grid less the columns that no line fills.

        >>> Grid(("a", "b"), ((Cell("1"), Cell()),)).without_empty_columns().header
        ('a',)
        """
        kept = [i for i in range(len(self.header)) if any(line[i].text for line in self.lines)]
        return Grid(
            tuple(self.header[i] for i in kept), tuple(tuple(line[i] for i in kept) for line in self.lines)
        )


@dataclass(frozen=True)
class Picture:
    """A figure: SVG, its caption, and what it says to those who do not see it."""

    name: str
    svg: str
    caption: str


@dataclass(frozen=True)
class Link:
    """A way to something beside the document, and what it is."""

    target: str
    text: str


@dataclass(frozen=True)
class Part:
    """A piece of a section: paragraphs and a table under a heading of its own, which may be empty."""

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


@dataclass(frozen=True)
class Document:
    title: str
    paragraphs: tuple[str, ...]
    sections: tuple[Section, ...] = field(default_factory=tuple)

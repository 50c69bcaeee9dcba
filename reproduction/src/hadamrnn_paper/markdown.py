"""Write a document of `hadamrnn.pages` as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

from hadamrnn.pages.document import Cell, Document, Grid

MARKS = {"better": "▲ ", "worse": "▼ "}


def to_markdown(document: Document, figures: str) -> str:
    """Return the document as Markdown; `figures` is the folder of its pictures, relative to the file."""
    blocks = [f"# {document.title}", *document.paragraphs]
    for section in document.sections:
        blocks += [f"## {section.title}", *section.paragraphs]
        for part in section.parts:
            blocks += [f"### {part.title}"] if part.title else []
            blocks += part.paragraphs
            if part.grid is not None:
                blocks += [_table(without_commands(part.grid)), *_commands(part.grid)]
        blocks += [f"![{picture.caption}]({figures}/{picture.name}.svg)" for picture in section.pictures]
    return "\n\n".join(blocks) + "\n"


def without_empty_columns(grid: Grid) -> Grid:
    """Return the grid without columns that are empty in every row.

    >>> without_empty_columns(Grid(("a", "b"), ((Cell("1"), Cell()),))).header
    ('a',)
    """
    return _columns(grid, lambda column: any(cell.text for cell in column))


def without_commands(grid: Grid) -> Grid:
    """Return the grid without the columns that hold commands.

    >>> without_commands(Grid(("a", "b"), ((Cell("1"), Cell("ls", "code")),))).header
    ('a',)
    """
    return _columns(grid, lambda column: all(cell.mark != "code" for cell in column))


def _columns(grid: Grid, wanted: Callable[[Sequence[Cell]], bool]) -> Grid:
    """Return the grid with only the wanted columns."""
    kept = [i for i in range(len(grid.header)) if wanted([line[i] for line in grid.lines])]
    return Grid(
        tuple(grid.header[i] for i in kept), tuple(tuple(line[i] for i in kept) for line in grid.lines)
    )


def _commands(grid: Grid) -> list[str]:
    """Return a collapsible list of commands, which would be too wide as a column."""
    commands = dict.fromkeys(cell.text for line in grid.lines for cell in line if cell.mark == "code")
    if not commands:
        return []
    items = [f"<li><code>{escape(command)}</code></li>" for command in commands]
    return ["\n".join(["<details><summary>Commands</summary><ul>", *items, "</ul></details>"])]


def _table(grid: Grid) -> str:
    lines = ["| " + " | ".join(grid.header) + " |", "|" + "---|" * len(grid.header)]
    lines += ["| " + " | ".join(map(_cell, line)) + " |" for line in grid.lines]
    return "\n".join(lines)


def _cell(cell: Cell) -> str:
    """Return the text of a cell.

    >>> _cell(Cell("+0.31", "better")), _cell(Cell("missing", "missing"))
    ('▲ +0.31', '*missing*')
    """
    text = cell.text.replace("|", "\\|")
    if not text:
        return ""
    if cell.mark in ("missing", "published"):
        return f"*{text}*"
    return MARKS.get(cell.mark, "") + text

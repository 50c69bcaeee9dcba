"""A `Document` as Markdown: tables with pipes, commands in backticks, figures by name."""

from __future__ import annotations

from hadamrnn.pages.document import Cell, Document, Grid, Section

MARKS = {"better": "▲ ", "worse": "▼ "}


def to_markdown(document: Document, figures: str) -> str:
    """Return the document; `figures` is the folder of its pictures, relative to it."""
    blocks = [f"# {document.title}", *document.paragraphs]
    for section in document.sections:
        blocks += _section(section, figures)
    return "\n\n".join(blocks) + "\n"


def _section(section: Section, figures: str) -> list[str]:
    blocks = [f"## {section.title}", *section.paragraphs]
    blocks += [f"[{link.text}]({link.target})" for link in section.links]
    blocks += [f"![{picture.caption}]({figures}/{picture.name}.svg)" for picture in section.pictures]
    for part in section.parts:
        blocks += [f"### {part.title}"] if part.title else []
        blocks += part.paragraphs
        blocks += [_grid(part.grid)] if part.grid is not None else []
    return blocks


def _grid(grid: Grid) -> str:
    lines = ["| " + " | ".join(grid.header) + " |", "|" + "---|" * len(grid.header)]
    lines += ["| " + " | ".join(map(_cell, line)) + " |" for line in grid.lines]
    return "\n".join(lines)


def _cell(cell: Cell) -> str:
    """Return the text of a cell.

    >>> _cell(Cell("+0.31", "better")), _cell(Cell("missing", "missing")), _cell(Cell("a | b", "code"))
    ('▲ +0.31', '*missing*', '`a \\\\| b`')
    """
    text = cell.text.replace("|", "\\|")
    if not text:
        return ""
    if cell.mark == "code":
        return f"`{text}`"
    if cell.mark in ("missing", "published"):
        return f"*{text}*"
    return MARKS.get(cell.mark, "") + text

"""A `Document` as one HTML page that needs nothing else: style and pictures are inside.

On a narrow screen every line of a table becomes a card with its labels, so that nothing scrolls sideways. On
a dark screen the page is dark and so are its figures: their colours become the variables of the style.
"""

from __future__ import annotations

import re
from html import escape

from hadamrnn.pages.document import Cell, Document, Grid, Link, Part, Picture, Section
from hadamrnn.pages.palette import VARIABLES

STYLE = """
:root { color-scheme: light dark; --ink: #1a1a1a; --soft: #5a5a5a; --line: #d9d9d9; --ground: #f6f6f4;
  --paper: #ffffff; --grey: #777777; --blue: #0072b2; --orange: #d55e00; --green: #009e73;
  --link: #00558c; --good: #00613f; --bad: #a33b00; }
@media screen and (prefers-color-scheme: dark) { :root { --ink: #e6e6e3; --soft: #a9a9a4; --line: #3a3d42;
  --ground: #24272b; --paper: #17191c; --grey: #9a9a9a; --blue: #56b4e9; --orange: #ff9a4d; --green: #2fcf9f;
  --link: #7cc4f5; --good: #5fd0a4; --bad: #ff9a6b; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 78rem; padding: 1rem; color: var(--ink); background: var(--paper);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.2; } h2 { margin-top: 2.5rem; border-bottom: 2px solid var(--ink); }
h3 { margin: 1.5rem 0 .3rem; font-size: 1.05rem; } p { margin: .4rem 0; max-width: 48rem; }
nav { columns: 14rem; margin: 1rem 0; } nav a { display: block; padding: .15rem 0; } a { color: var(--link); }
table { border-collapse: collapse; width: 100%; font-size: .8rem; margin: .5rem 0 1rem; }
th, td { text-align: left; padding: .25rem .45rem; vertical-align: top; }
th, td { border-bottom: 1px solid var(--line); }
th { background: var(--ground); font-weight: 600; }
code { font: .72rem/1.35 ui-monospace, monospace; overflow-wrap: anywhere; }
.better { color: var(--good); font-weight: 600; } .worse { color: var(--bad); font-weight: 600; }
.better::before { content: "\\25B2\\00A0"; } .worse::before { content: "\\25BC\\00A0"; }
.missing { color: var(--bad); font-style: italic; } .published { color: var(--soft); font-style: italic; }
.pictures { display: grid; gap: 1rem; }
.pictures { grid-template-columns: repeat(auto-fit, minmax(min(100%, 21rem), 1fr)); }
figure { margin: 0; break-inside: avoid; } figure svg { width: 100%; max-width: 34rem; height: auto;
  fill: var(--ink); }
figcaption { font-size: .85rem; color: var(--soft); max-width: 34rem; }
@media screen and (max-width: 1080px) {
  thead { display: none; } table, tbody, tr, td { display: block; width: 100%; }
  tr { border: 1px solid var(--line); border-radius: 6px; margin: .5rem 0; padding: .3rem .4rem;
    columns: 20rem; }
  td { border: 0; padding: .1rem 0 .1rem 8.5rem; position: relative; min-height: 1.4rem; font-size: .9rem;
    break-inside: avoid; }
  td:empty { display: none; } td:first-child { font-weight: 600; }
  td > i { position: absolute; left: 0; width: 8rem; color: var(--soft); font: 400 .8rem/1.6 system-ui; }
}
@media not screen and (max-width: 1080px), print { td > i { display: none; } }
@media print { body { font-size: 10pt; max-width: none; padding: 0; } nav { display: none; }
  table { font-size: 7pt; } tr { break-inside: avoid; } h2, h3 { break-after: avoid; }
  .pictures { grid-template-columns: 1fr 1fr; } }
""".strip()


def to_html(document: Document) -> str:
    """Return the page."""
    links = "".join(f'<a href="#{section.name}">{escape(section.title)}</a>' for section in document.sections)
    body = [
        f"<h1>{escape(document.title)}</h1>",
        *map(_paragraph, document.paragraphs),
        f"<nav>{links}</nav>",
    ]
    for section in document.sections:
        body += _section(section)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(document.title)}</title>\n<style>\n{STYLE}\n</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )


def _section(section: Section) -> list[str]:
    blocks = [f'<h2 id="{section.name}">{escape(section.title)}</h2>', *map(_paragraph, section.paragraphs)]
    blocks += map(_link, section.links)
    if section.pictures:
        blocks.append(f'<div class="pictures">{"".join(map(_picture, section.pictures))}</div>')
    for part in section.parts:
        blocks += _part(part)
    return blocks


def _part(part: Part) -> list[str]:
    blocks = [f"<h3>{escape(part.title)}</h3>"] if part.title else []
    blocks += map(_paragraph, part.paragraphs)
    return blocks + ([_grid(part.grid)] if part.grid is not None else [])


def _grid(grid: Grid) -> str:
    header = "".join(f"<th>{escape(text)}</th>" for text in grid.header)
    lines = (
        "<tr>" + "".join(_cell(cell, label) for cell, label in zip(line, grid.header, strict=True)) + "</tr>"
        for line in grid.lines
    )
    return f"<table>\n<thead><tr>{header}</tr></thead>\n<tbody>\n" + "\n".join(lines) + "\n</tbody>\n</table>"


def _cell(cell: Cell, label: str) -> str:
    """Return a cell; its column's name is inside, shown only where lines are cards."""
    if not cell.text:
        return "<td></td>"
    text = escape(cell.text)
    if cell.mark == "code":
        text = f"<code>{text}</code>"
    elif cell.mark:
        text = f'<span class="{cell.mark}">{text}</span>'
    return f"<td><i>{escape(label)}</i>{text}</td>"


def _picture(picture: Picture) -> str:
    caption = escape(picture.caption)
    svg = _themed(picture.svg).replace("<svg ", f'<svg role="img" aria-label="{caption}" ', 1)
    return f"<figure>{svg}<figcaption>{caption}</figcaption></figure>"


def _themed(svg: str) -> str:
    """Return a figure whose colours are the page's.

    >>> _themed('<path style="fill: #0072b2; stroke: #000000"/>')
    '<path style="fill: var(--blue); stroke: var(--ink)"/>'
    """
    return re.sub("|".join(VARIABLES), lambda found: f"var(--{VARIABLES[found[0]]})", svg)


def _link(link: Link) -> str:
    return f'<p><a href="{escape(link.target)}">{escape(link.text)}</a></p>'


def _paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>"

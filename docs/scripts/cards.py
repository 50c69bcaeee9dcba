"""A hook of mkdocs: every cell of a table knows its column, so that a narrow screen can show rows as cards.

In code that wraps, an option's name stays whole. Code scrolls by the keyboard, and the search has a name for
screen readers. The style is `docs/cards.css`. Start at `on_page_content`.
"""

from __future__ import annotations

import re
from html import escape, unescape
from typing import Any

TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)
HEADER = re.compile(r"<th\b[^>]*>(.*?)</th>", re.DOTALL)
ROW = re.compile(r"<tr>.*?</tr>", re.DOTALL)
CELL = re.compile(r"<td\b([^>]*)>(.*?)</td>", re.DOTALL)
CODE = re.compile(r"<code>[^<]*</code>")
OPTION = re.compile(r"--[a-z][a-z-]*")
TAG = re.compile(r"<[^>]+>")
SLIM, COLUMNS = 90, 4  # letters in the longest cells, and columns, that a narrow screen shows as a table
LONG = {12: "two", 26: "all"}  # letters beyond which a cell takes two columns of a card, or all


def on_page_content(html: str, **_: Any) -> str:
    """Return the page with `data-label` on every cell of its tables, and its options in one piece."""
    labelled = TABLE.sub(lambda table: label_cells(table[0]), html)
    return CODE.sub(lambda code: OPTION.sub(r'<span class="option">\g<0></span>', code[0]), labelled)


def on_post_page(output: str, **_: Any) -> str:
    """Return the whole page with what the theme leaves out for keyboards and screen readers."""
    named = output.replace('role="dialog"', 'role="dialog" aria-label="Search"')
    return named.replace("<pre>", '<pre tabindex="0">')


def label_cells(table: str) -> str:
    """Return a table whose cells carry the heads of their columns, and which says whether it is slim.

    >>> label_cells("<table><tr><th>a <em>b</em></th></tr><tr><td>1</td></tr></table>")
    '<table data-slim><tr><th>a <em>b</em></th></tr><tr><td data-label="a b">1</td></tr></table>'
    """
    labels = [text(head) for head in HEADER.findall(table)]
    widths = [0] * len(labels)

    def labelled(row: re.Match[str]) -> str:
        columns = iter(range(len(labels)))

        def cell(found: re.Match[str]) -> str:
            column, length = next(columns), len(text(found[2]))
            widths[column] = max(widths[column], length)
            *_, long = "", *(f' data-long="{name}"' for least, name in LONG.items() if length > least)
            return f'<td{found[1]} data-label="{escape(labels[column])}"{long}>{found[2]}</td>'

        return CELL.sub(cell, row[0])

    cells = ROW.sub(labelled, table)
    slim = len(labels) <= COLUMNS and sum(widths) <= SLIM
    return cells.replace("<table>", "<table data-slim>") if slim else cells


def text(html: str) -> str:
    return unescape(TAG.sub("", html)).strip()

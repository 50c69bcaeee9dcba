"""A hook of mkdocs: every cell of a table knows its column, so that a narrow screen can show rows as cards.

In code that wraps, an option's name stays whole. The style is `docs/cards.css`. Start at `on_page_content`.
"""

from __future__ import annotations

import re
from html import escape, unescape
from typing import Any

TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)
HEADER = re.compile(r"<th\b[^>]*>(.*?)</th>", re.DOTALL)
ROW = re.compile(r"<tr>.*?</tr>", re.DOTALL)
CELL = re.compile(r"<td\b")
CODE = re.compile(r"<code>[^<]*</code>")
OPTION = re.compile(r"--[a-z][a-z-]*")
TAG = re.compile(r"<[^>]+>")


def on_page_content(html: str, **_: Any) -> str:
    """Return the page with `data-label` on every cell of its tables, and its options in one piece."""
    labelled = TABLE.sub(lambda table: label_cells(table[0]), html)
    return CODE.sub(lambda code: OPTION.sub(r'<span class="option">\g<0></span>', code[0]), labelled)


def label_cells(table: str) -> str:
    """Return a table whose cells carry the heads of their columns.

    >>> label_cells("<table><tr><th>a <em>b</em></th></tr><tr><td>1</td></tr></table>")
    '<table><tr><th>a <em>b</em></th></tr><tr><td data-label="a b">1</td></tr></table>'
    """
    labels = [escape(unescape(TAG.sub("", head)).strip()) for head in HEADER.findall(table)]

    def labelled(row: re.Match[str]) -> str:
        heads = iter(labels)
        return CELL.sub(lambda cell: f'{cell[0]} data-label="{next(heads, "")}"', row[0])

    return ROW.sub(labelled, table)

"""A page has every text of its document, and no text is interpreted as markup."""

from __future__ import annotations

import re

from hadamrnn.pages.document import Cell, Document, Grid, Link, Mark, Part, Picture, Section, to_html

PICTURE = Picture("plot", '<svg width="1"><path style="fill: #0072b2"/></svg>\n', 'a "plot" & <more>')


def page(*cells: Cell) -> Document:
    grid = Grid(tuple(f"c{i}" for i in range(len(cells))), (cells,))
    section = Section(
        "one", "One <b>", ("a & b",), (Part("part", (), grid),), (PICTURE,), (Link("x?a&b", "x"),)
    )
    return Document("Title <script>", ("lead & more",), (section,))


def test_text_of_a_document_is_escaped_everywhere() -> None:
    html = to_html(page(Cell("<i>cell"), Cell("<b>code --x<y", "code"), Cell("<u>", "better")))

    assert "<script>" not in html and "<b>" not in html and "<i>cell" not in html and "<u>" not in html
    assert "lead &amp; more" in html and 'href="x?a&amp;b"' in html
    assert 'aria-label="a &#34;plot&#34; &amp; &lt;more&gt;"' in html
    assert '<path style="fill: #0072b2"/>' in html


def test_the_name_of_an_option_never_breaks_at_its_hyphens() -> None:
    html = to_html(page(Cell("hadamrnn report --out-dir a-b", "code")))

    (code,) = re.findall("<code>.*</code>", html)
    assert code == "<code>hadamrnn report <span>--out-dir</span> a-b</code>"
    assert "code span { white-space: nowrap; }" in html


def test_a_page_holds_every_text() -> None:
    document = page(
        Cell("94.88"), Cell("+0.13", "better"), Cell("missing", "missing"), Cell("run --x", "code")
    )
    html = re.sub("<[^>]*>", "", to_html(document))

    for text in ("94.88", "+0.13", "missing", "run --x", "part", "c0"):
        assert text in html


def test_a_grid_of_up_to_four_columns_without_commands_fits_a_narrow_screen() -> None:
    def is_slim(columns: int, mark: Mark = "") -> bool:
        cells = tuple(Cell("1", mark) for _ in range(columns))
        return Grid(tuple(map(str, range(columns))), (cells,)).slim

    assert is_slim(4) and not is_slim(5) and not is_slim(2, "code") and is_slim(2, "better")

"""The pages in a real browser: nothing on the console, no empty plot, nothing wider than the screen.

They skip if no browser is installed; under `make test-pages` (HADAMRNN_PAGES=1) they fail.
"""

from __future__ import annotations

import io
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageSequence
from selenium.webdriver import Chrome

from hadamrnn.pages.document import Document, Picture, Section, to_html
from hadamrnn.pages.drawing import Canvas, styled, svg
from tests.pages.browser import DESK, PHONE, TABLET, faults, ground, open_browser

pytestmark = pytest.mark.pages
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [PHONE, TABLET, DESK])
@pytest.mark.parametrize("name", ["demo", "page", "playground", "report", "results", "search"])
def test_a_page_opens_without_faults(
    name: str, width: int, dark: bool, pages: dict[str, Path], browser: Chrome
) -> None:
    assert faults(browser, pages[name], width=width, dark=dark) == []
    assert ground(browser) == ("rgb(23, 25, 28)" if dark else "rgb(255, 255, 255)")


def plot(values: list[float], *, bars: bool = False) -> str:
    """Return a page with one plot of these values."""
    with styled():
        canvas = Canvas(figsize=(3, 2))
        axes = canvas.subplots()
        if bars:
            axes.bar(range(len(values)), values)
        else:
            axes.plot(values)
        axes.legend(["values"])
        picture = Picture("plot", svg(canvas, "plot"), "A plot")
    return to_html(Document("A page", (), (Section("plot", "Plot", pictures=(picture,)),)))


# The commands of a page, and those that extend beyond its edge or break the name of an option.
COMMANDS = """
  const codes = [...document.querySelectorAll("td code")], wide = document.documentElement.clientWidth;
  const cut = codes.filter(code => code.getBoundingClientRect().right > wide);
  const options = codes.flatMap(code => [...code.querySelectorAll("span")]);
  const broken = options.filter(option => option.getClientRects().length > 1);
  return [codes.length, options.length, cut.length, broken.length];
"""


@pytest.mark.parametrize("width", [PHONE, TABLET, DESK])
def test_the_commands_of_the_results_are_in_sight_and_no_option_is_broken(
    width: int, pages: dict[str, Path], browser: Chrome
) -> None:
    assert faults(browser, pages["results"], width=width) == []
    commands, options, cut, broken = browser.execute_script(COMMANDS)

    assert options > commands > 100
    assert (cut, broken) == (0, 0)


NAN = float("nan")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (plot([NAN, NAN]), "is empty"),
        (plot([], bars=True), "is empty"),
        ("<figure>A plot</figure>", "no picture"),
        ('<figure><svg width="300" height="200"></svg></figure>', "no axes"),
        (plot([1, 2]).replace("<svg ", '<svg style="display: none" '), "0 by 0 pixels"),
        (plot([1, 2]) + "<script>console.error('broken')</script>", "broken"),
        (plot([1, 2]) + "<script>undefined.name</script>", "TypeError"),
        (plot([1, 2]) + '<img src="missing.png">', "missing.png"),
        (plot([1, 2]) + '<pre style="width: 3000px">wide</pre>', "pixels wide"),
    ],
)
def test_a_broken_page_is_caught(text: str, fault: str, browser: Chrome, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(text)

    assert any(fault in found for found in faults(browser, page)), faults(browser, page)


@pytest.mark.parametrize("bars", [False, True])
def test_a_sound_plot_is_not_caught(bars: bool, browser: Chrome, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(plot([1, 2], bars=bars))

    assert faults(browser, page) == []


@pytest.mark.parametrize(("required", "outcome"), [("", pytest.skip), ("1", pytest.fail)])
def test_a_missing_browser_skips_unless_it_is_required(
    required: str, outcome: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HADAMRNN_PAGES", required)

    with pytest.raises(outcome.Exception, match="make test-pages installs"), open_browser():
        pass


def test_the_picture_of_the_readme_is_what_its_script_draws() -> None:
    """The same up to fonts: number and size of frames, and the digit after the same steps."""
    script = runpy.run_path(str(ROOT / "docs" / "scripts" / "draw_live.py"))
    (stored, stored_frames), (drawn, drawn_frames) = map(
        last_frame, (script["TARGET"].read_bytes(), script["animation"]())
    )

    assert stored.shape == drawn.shape and stored_frames == drawn_frames
    assert np.mean(np.abs(stored - drawn) > 32) < 0.02


def last_frame(gif: bytes) -> tuple[NDArray[np.float64], int]:
    """Return the last frame of an animation, and the number of frames."""
    with Image.open(io.BytesIO(gif)) as image:
        *_, last = ImageSequence.Iterator(image)
        return np.asarray(last.convert("RGB"), float), last.tell() + 1

"""Draw docs/live.gif, a live page at work, with a headless Chromium: `python docs/scripts/draw_live.py`.

A digit is drawn and a shipped network reads it. Every frame shows a given step, so the frames are the same
on every machine but for its fonts. Needs selenium, Pillow, chromium and chromedriver.
"""

from __future__ import annotations

import base64
import io
import runpy
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from PIL import Image
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

from hadamrnn.files import write_atomically
from hadamrnn.pages.document import Document, to_html

FOLDER = Path(__file__).parent
TARGET = FOLDER.parent / "live.gif"
WIDTH = 800
# The page's colours on a light screen: the ground, and what is drawn on it in SHADES strengths.
GROUND, INKS, SHADES = (246, 246, 244), ((26, 26, 26), (0, 114, 178), (213, 94, 0)), 8
PAPER, LINES = (255, 255, 255), (119, 119, 119)
# What the picture leaves out: the signs, the buttons and the titles above it.
STYLE = """
  html { overflow: hidden; }
  .live .panels { grid-template-columns: repeat(3, 1fr); }
  .live .row, .live .panels > div:last-child, .live h2 ~ p:not(.answer) { display: none; }
"""
# A three, as points of the pad; the network reads 784 pixels.
STROKE = [
    (9, 8),
    (11, 6),
    (14, 5),
    (17, 6),
    (18, 8.5),
    (17, 11),
    (14, 13),
    (12.5, 13.2),
    (14, 13.2),
    (17, 14.5),
]
STROKE += [(18.6, 17), (18, 20), (15.5, 22.3), (12, 22.5), (9, 21), (8, 19.5)]
PEN, READ, STEPS = 5, 16, 784  # frames of the pen and of the reading; steps of the reading
DRAWING, READING, ANSWER = 120, 110, 3000  # milliseconds that a frame stays

PREPARE = """
  document.head.append(Object.assign(document.createElement("style"), {textContent: arguments[0]}));
  live[0].clear();
"""
SKETCH = "const [strokes] = arguments; live[0].pad.strokes = strokes; live[0].pad.sketch();"
LIFT = "live[0].pad.drawing = true; live[0].pad.finish(); live[0].pause(true);"
READ_TO = """
  const widget = live[0];
  while (widget.step < arguments[0]) widget.advance();
  widget.show();
  if (widget.done) widget.finish();
"""


def main() -> None:
    write_atomically(TARGET, animation())


def animation() -> bytes:
    """Return the GIF."""
    with tempfile.TemporaryDirectory() as scratch:
        page = Path(scratch) / "live.html"
        page.write_text(live_page(), encoding="utf-8")
        shots = list(frames(page))
    images = [Image.open(io.BytesIO(shot)).convert("RGB") for shot, _ in shots]
    flat = [image.quantize(palette=palette(), dither=Image.Dither.NONE) for image in images]
    durations = [duration for _, duration in shots]
    buffer = io.BytesIO()
    flat[0].save(
        buffer, "GIF", save_all=True, append_images=flat[1:], duration=durations, loop=0, optimize=True
    )
    return buffer.getvalue()


def palette() -> Image.Image:
    """Return an image that has the colours of the GIF."""
    mixed = [
        tuple(round(g + (i - g) * shade / SHADES) for g, i in zip(GROUND, ink, strict=True))
        for ink in INKS
        for shade in range(1, SHADES + 1)
    ]
    colours = [PAPER, GROUND, LINES, *mixed]
    image = Image.new("P", (1, 1))
    image.putpalette([part for colour in colours for part in colour])
    return image


def live_page() -> str:
    """Return a page with the playground's first network alone."""
    playground = runpy.run_path(str(FOLDER / "playground.py"))
    network = playground["digits"]("smnist", "One pixel per step", None)
    return to_html(Document("A live page", (), live=playground["live_part"](network)))


def frames(page: Path) -> Iterator[tuple[bytes, int]]:
    """Yield pictures of the page, each with the milliseconds that it stays."""
    options = webdriver.ChromeOptions()
    for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(flag)
    options.binary_location = found("chromium")
    browser = webdriver.Chrome(options=options, service=Service(found("chromedriver")))
    try:
        browser.set_window_size(WIDTH, 1000)
        browser.get(page.as_uri())
        WebDriverWait(browser, 60).until(lambda b: b.execute_script("return Boolean(window.live)"))
        browser.execute_script(PREPARE, STYLE)
        for shown in range(1, PEN + 1):
            browser.execute_script(SKETCH, [STROKE[: 1 + shown * (len(STROKE) - 1) // PEN]])
            yield picture(browser), DRAWING
        browser.execute_script(LIFT)
        for shown in range(READ + 1):
            browser.execute_script(READ_TO, shown * STEPS // READ)
            yield picture(browser), ANSWER if shown == READ else READING
    finally:
        browser.quit()


def found(program: str) -> str:
    """Return where a program is, or stop."""
    path = shutil.which(program)
    if path is None:
        sys.exit(f"No {program} (Debian: chromium and chromium-driver).")
    return path


def picture(browser: webdriver.Chrome) -> bytes:
    """Return the page from the answer to the history of the decision as PNG."""
    top = "return document.querySelector('.live .answer').getBoundingClientRect().top + scrollY"
    end = "return document.querySelector('.live .over').getBoundingClientRect().bottom + scrollY"
    y, bottom = browser.execute_script(top) - 8, browser.execute_script(end) + 8
    clip = {"x": 0, "y": y, "width": WIDTH, "height": bottom - y, "scale": 1}
    return base64.b64decode(browser.execute_cdp_cmd("Page.captureScreenshot", {"clip": clip})["data"])


if __name__ == "__main__":
    main()

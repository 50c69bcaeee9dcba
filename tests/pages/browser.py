"""A headless browser that lists the faults of pages.

Chromium and its driver are Debian packages (`make test-pages` installs them); Selenium speaks to them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

PHONE, TABLET, DESK = 390, 820, 1400
AXE = Path(__file__).parents[2] / "build" / "axe" / "node_modules" / "axe-core" / "axe.min.js"

# Every figure has an SVG, and every pair of axes in it visible marks: lines, collections, bars. The
# background (the first patch), the frame (patches without fill), axes, texts and legends are not marks.
EMPTY_PLOTS = """
const room = element => {
  const box = element.getBBox();
  const inside = element.querySelector("path[d]:not([d='']), use, image") || element.matches("image");
  return inside && (box.width > 0 || box.height > 0);
};
const faults = [];
document.querySelectorAll("figure").forEach((figure, index) => {
  const svg = figure.querySelector("svg");
  const name = (figure.innerText.trim() || `figure ${index}`).slice(0, 60);
  if (!svg) { faults.push(`${name}: no picture`); return; }
  const size = svg.getBoundingClientRect();
  if (size.width < 50 || size.height < 50) faults.push(`${name}: ${size.width} by ${size.height} pixels`);
  const axes = [...svg.querySelectorAll("g[id*='-axes_']")];
  if (!axes.length) faults.push(`${name}: no axes`);
  axes.forEach(group => {
    const parts = [...group.children].filter(part => part.tagName == "g");
    const drawn = parts.filter(part => /-(line2d|.*Collection|QuadMesh|image)_/.test(part.id));
    const patches = parts.filter(part => /-patch_/.test(part.id)).slice(1);
    const bars = patches.filter(part => getComputedStyle(part.firstElementChild).fill != "none");
    if (![...drawn, ...bars].some(room)) faults.push(`${name}: ${group.id} is empty`);
  });
});
return faults;
"""

# Nothing in a live network extends beyond its edge or is cut off.
CUT = """
return [...document.querySelectorAll(".live *")].filter(element => {
  const box = element.getBoundingClientRect();
  const edge = element.closest(".live").getBoundingClientRect();
  return box.width && (box.right > edge.right + 1 || box.left < edge.left - 1);
}).map(element => `${element.tagName} ${element.dataset.part || element.textContent.slice(0, 20)} is cut`);
"""


@contextmanager
def open_browser(*flags: str) -> Iterator[webdriver.Chrome]:
    """Yield a headless Chromium with these flags; skip without one, unless HADAMRNN_PAGES is set."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        reason = "no chromium and chromedriver: make test-pages installs chromium and chromium-driver"
        if os.environ.get("HADAMRNN_PAGES"):
            pytest.fail(reason)
        pytest.skip(reason)
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    # Containers have neither the rights a sandbox needs nor a large /dev/shm.
    for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", *flags):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(options=options, service=Service(driver))
    browser.set_script_timeout(120)  # axe on the longest pages, on a busy machine
    try:
        yield browser
    finally:
        browser.quit()


def faults(browser: webdriver.Chrome, page: Path, *, width: int = DESK, dark: bool = False) -> list[str]:
    """Return the faults of a page: errors on the console, empty plots, text wider than the screen."""
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width <= PHONE}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    browser.get_log("browser")  # drop the messages of earlier pages
    open_page(browser, page)
    entries: list[dict[str, Any]] = browser.get_log("browser")
    found = [f"console: {entry['message']}" for entry in entries if entry["level"] == "SEVERE"]
    found += browser.execute_script(EMPTY_PLOTS)
    wide = browser.execute_script("return document.documentElement.scrollWidth")
    if wide > width:
        found.append(f"{wide} pixels wide on a screen of {width}")
    found += browser.execute_script(CUT)
    return found


def serious_violations(browser: webdriver.Chrome) -> list[tuple[str, list[str]]]:
    """Return axe's serious findings on the open page; skip without axe, unless HADAMRNN_PAGES is set."""
    if not AXE.exists():
        reason = "no axe-core: make test-pages installs it"
        if os.environ.get("HADAMRNN_PAGES"):
            pytest.fail(reason)
        pytest.skip(reason)
    browser.execute_script(AXE.read_text())
    found = browser.execute_async_script("axe.run({resultTypes: ['violations']}).then(arguments[0])")
    return [
        (fault["id"], [node["html"][:200] for node in fault["nodes"]][:3])
        for fault in found["violations"]
        if fault["impact"] in ("serious", "critical")
    ]


def open_page(browser: webdriver.Chrome, page: Path) -> None:
    """Open a page, and wait until its networks have unpacked their sequences."""
    browser.get(page.as_uri())
    started = "return !document.getElementById('live-data') || Boolean(window.live)"
    WebDriverWait(browser, 60).until(lambda b: b.execute_script(started))


def part(browser: webdriver.Chrome, name: str, live: str = "") -> Any:
    """Return a part of one of the page's networks, by default the first."""
    network = f"[data-live={live}] " if live else ""
    return browser.find_element(By.CSS_SELECTOR, f"{network}[data-part={name}]")


def wait(browser: webdriver.Chrome, condition: str) -> None:
    """Wait until a condition in JavaScript holds."""
    WebDriverWait(browser, 60).until(lambda b: b.execute_script(f"return {condition}"))


def ground(browser: webdriver.Chrome) -> str:
    """Return the background colour of the open page."""
    return str(browser.execute_script("return getComputedStyle(document.body).backgroundColor"))

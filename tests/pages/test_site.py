"""The documentation site opened from the disk: no faults at any width, and a working search."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from tests.pages.browser import DESK, PHONE, TABLET, faults, ground, serious_violations

pytest.importorskip("mkdocs", reason="make docs installs mkdocs")
pytestmark = pytest.mark.pages
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    subprocess.run(command, check=True, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    return folder


def documents(site: Path) -> list[Path]:
    """Return the pages that read from the disk, without the playground, which test_live.py opens."""
    return sorted(page for page in site.glob("*.html") if page.name not in ("404.html", "live.html"))


@pytest.mark.parametrize("width", [PHONE, TABLET, DESK])
def test_no_page_is_wider_than_the_screen_or_fetches_anything(
    site: Path, browser: Chrome, width: int
) -> None:
    pages = documents(site)

    assert len(pages) > 10
    for page in pages:
        assert faults(browser, page, width=width) == [], page.name
        loaded = browser.execute_script(
            "return performance.getEntriesByType('resource').map(entry => entry.name)"
        )
        assert [name for name in loaded if not name.startswith("file:")] == [], page.name


@pytest.mark.parametrize(("width", "dark"), [(PHONE, False), (TABLET, True), (DESK, False)])
def test_axe_finds_nothing_serious_on_any_page(site: Path, browser: Chrome, width: int, dark: bool) -> None:
    found = {}
    for page in documents(site):
        assert faults(browser, page, width=width, dark=dark) == [], page.name
        found[page.name] = serious_violations(browser)

    assert {name: faults for name, faults in found.items() if faults} == {}


def test_the_site_is_light_or_dark_as_the_system_is_at_any_time(site: Path, browser: Chrome) -> None:
    grounds = []
    for dark in (False, True, False):
        assert faults(browser, site / "index.html", dark=dark) == []
        grounds.append(ground(browser))

    assert grounds[0] == grounds[2] == "rgb(255, 255, 255)" != grounds[1]


def test_the_search_finds_from_the_disk(site: Path, browser: Chrome) -> None:
    assert faults(browser, site / "index.html", width=DESK) == []
    query = browser.find_element(By.CSS_SELECTOR, "[data-md-component=search-query]")
    query.click()
    query.send_keys("FastGRNN")
    found = "return [...document.querySelectorAll('.md-search-result__item a')].map(link => link.pathname)"

    results = WebDriverWait(browser, 20).until(lambda b: b.execute_script(found))
    assert any(path.endswith("/when-not.html") for path in results)

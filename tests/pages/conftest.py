"""A browser, and the pages that it opens, each made once."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from selenium.webdriver import Chrome
from sklearn.datasets import load_digits

from hadamrnn.cli import main
from hadamrnn.demo import run_demo
from hadamrnn.estimators import HadamRNNClassifier
from hadamrnn.training.loop import Watcher
from hadamrnn_paper.memorization import run_memorization, write_memorization
from hadamrnn_paper.report import write_report
from hadamrnn_paper.results import write_result
from reproduction.tests.conftest import made_up_result
from tests.pages.browser import open_browser

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def browser() -> Iterator[Chrome]:
    with open_browser() as opened:
        yield opened


def reservoir_page(folder: Path) -> Path:
    """Return a page of the default classifier, fitted to digits of eight rows; its network is beside it."""
    x, y = load_digits(return_X_y=True)
    series = x.reshape(-1, 8, 8)
    classifier = HadamRNNClassifier(max_bytes=1500, random_state=0).fit(series[:600], y[:600])
    classifier.quantize().save(folder / "reservoir.safetensors")
    return classifier.to_page(folder / "reservoir", series[600:700], y[600:700], "digits") / "digits.html"


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Pages of the demo (two epochs), its network, a search, the report on made-up and on real results."""
    folder = tmp_path_factory.mktemp("pages")
    demo = run_demo(folder / "demo", Watcher(), epochs=2)
    page = ("export", str(folder / "demo" / "run"), "--to", "page", "--name", "digits")
    assert main([*page, "--out", str(folder / "page")]) == 0
    (folder / "results").mkdir()
    for preset in ("best", "paper"):
        write_result(folder / "results", replace(made_up_result(), preset=preset))
    write_memorization(folder / "results", run_memorization(hidden_size=16, seq_length=20))
    write_report(folder / "results", folder)
    search = ("search", "digits", "--max-bytes", "200", "--epochs", "1", "--trials", "2", "--quiet")
    assert main([*search, "--out", str(folder / "search")]) == 0
    playground = runpy.run_path(str(ROOT / "docs" / "scripts" / "playground.py"))
    (folder / "live.html").write_text(playground["page"](), encoding="utf-8")
    return {
        "reservoir": reservoir_page(folder),
        "playground": folder / "live.html",
        "demo": Path(demo.page),
        "page": folder / "page" / "digits.html",
        "report": folder / "RESULTS.html",
        "results": ROOT / "reproduction" / "RESULTS.html",
        "search": folder / "search" / "search.html",
    }

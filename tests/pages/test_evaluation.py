"""The page of an evaluation: the most confident errors first, reliability, and cost."""

from __future__ import annotations

from html import unescape
from pathlib import Path

import numpy as np
import pytest

from hadamrnn.pages.document import BLUE, ORANGE, to_html
from hadamrnn.pages.evaluation import Answers, Examples, calibration_error, evaluation_page, value_page
from tests.conftest import Command


def examples(count: int, seed: int = 0) -> Examples:
    """Return samples whose labels are drawn from the probabilities, so confidence equals accuracy."""
    rng = np.random.default_rng(seed)
    probabilities = rng.dirichlet((0.6, 0.6, 0.6), count)
    labels = np.array([rng.choice(3, p=each) for each in probabilities])
    right = probabilities.argmax(1) == labels
    return Examples(rng.normal(size=(count, 20, 2)), labels, probabilities, right, ("a", "$b$", "c"))


def test_a_network_that_is_as_sure_as_it_is_right_has_a_small_calibration_error() -> None:
    honest = examples(20_000)
    boasting = honest.probabilities.round()
    sure = Examples(honest.x, honest.labels, boasting, honest.right, honest.names)

    assert calibration_error(honest) < 0.02 < 0.15 < calibration_error(sure)


def test_the_surest_errors_come_first() -> None:
    found = examples(60)
    wrong = np.flatnonzero(~found.right)
    surest = wrong[np.argmax(found.confidence[wrong])]
    bars = [("80 bytes", [("signs", 0.25, "20 bytes"), ("weights", 2.0, "60 bytes")])]
    page = unescape(
        to_html(evaluation_page("T", "L", dict.fromkeys(found.names, 1.0), [[1] * 3] * 3, found, bars))
    )

    predicted, was = (found.names[k[surest]] for k in (found.verdicts, found.labels))
    first = page.index(f"{surest}: {predicted} {found.confidence[surest]:.0%}")
    others = [page.find(f"{sample}: ") for sample in wrong if sample != surest]
    assert f"was {was}" in page and all(place == -1 or place > 0 for place in others) and first > 0
    assert f"{len(wrong)} errors" in page and page.count("<svg") == 5
    assert "weights: 60 bytes" in page


@pytest.mark.parametrize("right", [True, False])
def test_a_page_without_errors_or_with_nothing_else_is_drawn(right: bool) -> None:
    one = examples(1)
    every = Examples(one.x, one.labels, one.probabilities, np.array([right]), one.names)
    page = to_html(evaluation_page("T", "L", dict.fromkeys(one.names), [[0] * 3] * 3, every, []))

    assert ("There are none." in page) == right


def test_eval_writes_the_page_of_a_run(command: Command, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert command("train", "digits", "--steps", 2, "--threads", 1, "--out", run).status == 0
    answer = command("eval", run, "--page", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()

    assert answer.status == 0 and answer.out.splitlines()[0] in unescape(page)  # the accuracy
    for heading in ("Classes", "Windows", "Errors by confidence", "Reliability", "Size and budget"):
        assert f">{heading}<" in page
    assert "bytes of weights" in page and "Share of 64 kB each" in page
    sizes = page[page.rindex(">Size and budget<") :].lower()
    assert BLUE.lower() in sizes and ORANGE.lower() not in sizes  # a few kB do not exceed 64 kB


def test_the_largest_errors_of_a_regression_come_first() -> None:
    rng = np.random.default_rng(0)
    actual = rng.normal(50, 20, (40, 2))
    predicted = actual + rng.normal(0, 1, (40, 2))
    predicted[7] += 30
    lines = [("the network", "4.2", "1.5", "0.95")]
    page = unescape(
        to_html(value_page("T", "L", lines, Answers(rng.normal(size=(40, 9)), actual, predicted), []))
    )

    assert f"7: {predicted[7, 0]:.4g}" in page and f"was {actual[7, 0]:.4g}" in page
    assert page.index("7: ") == min(
        page.index(f"{sample}: ") for sample in range(40) if f">{sample}: " in page
    )
    assert page.count("<svg") == 3 and "Target 1" in page  # two targets, and the largest errors


def test_eval_writes_the_page_of_a_regression(command: Command, tmp_path: Path) -> None:
    rng, run = np.random.default_rng(0), tmp_path / "run"
    np.savez(tmp_path / "a.npz", x=rng.normal(size=(60, 8, 2)), y=rng.normal(100, 5, 60))
    given = ("--hidden-size", 16, "--epochs", 1, "--threads", 1, "--quiet", "--out", run)
    assert command("train", tmp_path / "a.npz", *given).status == 0
    assert command("eval", run, "--page", tmp_path / "page.html").status == 0
    page = (tmp_path / "page.html").read_text()

    for heading in ("Errors", "Values", "Largest errors", "Size and budget"):
        assert f">{heading}<" in page
    assert "the mean of the training targets" in page

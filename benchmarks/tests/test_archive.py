"""The page on the UCR archive reports the figures of its rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hadamrnn.errors import InputError
from hadamrnn.estimators import HadamRNNClassifier
from hadamrnn.export.targets import classify_on_host
from hadamrnn.fixedpoint.encoding import raw_codes
from hadamrnn_benchmarks.archive import (
    DEFAULT,
    SIZES,
    ArchiveRow,
    Published,
    archive_page,
    archive_plot,
    find_archive,
    load_set,
    read_rows,
)


def test_the_page_has_the_means_and_marks_what_was_not_measured() -> None:
    sets = [Published("A", 20, 2, 90.0), Published("B", 30, 12, 70.0)]
    rows = [
        ArchiveRow(each.name, seed, size, 0.8 + 0.02 * seed, 4000, 3000, 1.0)
        for each in sets
        for seed in range(2)
        for size in (DEFAULT, *map(str, SIZES))
    ]
    page = archive_page(rows, sets)

    assert "| default | 81.0 | 4,000 | 3,000 |" in page
    assert "ahead of MiniRocket on 1 sets, level on 0 and\nbehind on 1 (Wilcoxon's" in page
    assert "1 is the best: HadamRNN 2.50, HadamRNN 1 kB 2.50" in page and "MiniRocket 2.50" in page
    assert "(archive.svg)" in page and "MiniRocket, about 40 kB" in archive_plot(rows, sets)
    assert "| without thirds | - |" in page and "| A | 20 | 2 | 81.0 | 81.0 | 81.0 | 90.0 |" in page


def test_an_archive_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert read_rows(tmp_path / "none.jsonl") == []
    with pytest.raises(InputError, match=r"has no published\.csv"):
        find_archive(tmp_path)


TEN_SETS = (
    "BeetleFly BME CBF Chinatown Lightning7 Plane SmoothSubspace SonyAIBORobotSurface2 Trace UMD".split()
)


@pytest.mark.slow
@pytest.mark.parametrize("name", TEN_SETS)
def test_exported_c_answers_as_the_integers_on_the_whole_test_part(name: str) -> None:
    try:
        folder = find_archive(None)
    except InputError as error:
        pytest.skip(str(error))
    X, y, X_test, _ = load_set(folder, name)
    classifier = HadamRNNClassifier(random_state=0).fit(X, y)
    model = classifier.quantize()

    classes = classify_on_host(model, raw_codes(X_test, model.raw_unit))

    np.testing.assert_array_equal(classifier.classes_[classes], classifier.predict_integer(X_test))

"""The page on the UCR archive reports the figures of its rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hadamrnn.errors import InputError
from hadamrnn.estimators import HadamRNNClassifier
from hadamrnn.export.c import source_files
from hadamrnn.export.targets import classify_on_host, compile_object, link, run
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
from tests.edge_targets import installed


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


# Prints the class of every series in series.h, a line each.
DEVICE = """\
#include <stdio.h>
#include "net.h"
#include "series.h"

int main(void)
{
    static net_state state;
    for (unsigned n = 0; n < SERIES; n++) {
        net_init(&state);
        for (unsigned t = 0; t < STEPS; t++) {
            int16_t x[1];
            (void)net_encode(&raw[n][t], x);
            (void)net_step(&state, x);
        }
        printf("%u\\n", (unsigned)net_classify(&state));
    }
    return 0;
}
"""


def fitted(name: str) -> tuple[HadamRNNClassifier, Any]:
    """Return a classifier fitted to a set, and the set's test series; skip the test without the archive."""
    try:
        folder = find_archive(None)
    except InputError as error:
        pytest.skip(str(error))
    X, y, X_test, _ = load_set(folder, name)
    return HadamRNNClassifier(random_state=0).fit(X, y), X_test


@pytest.mark.slow
@pytest.mark.parametrize("name", TEN_SETS)
def test_exported_c_answers_as_the_integers_on_the_whole_test_part(name: str) -> None:
    classifier, X_test = fitted(name)
    model = classifier.quantize()

    classes = classify_on_host(model, raw_codes(X_test, model.raw_unit))

    np.testing.assert_array_equal(classifier.classes_[classes], classifier.predict_integer(X_test))


@pytest.mark.edge
@pytest.mark.parametrize("name", TEN_SETS)
def test_a_cortex_m4_answers_as_the_integers_on_the_whole_test_part(name: str, tmp_path: Path) -> None:
    board = installed("cortex-m4")
    classifier, X_test = fitted(name)
    model = classifier.quantize()
    raw: NDArray[Any] = raw_codes(X_test, model.raw_unit)[:, :, 0]
    rows = ",\n".join(f"{{{','.join(map(str, row))}}}" for row in raw.tolist())
    sizes = f"#define SERIES {len(raw)}u\n#define STEPS {raw.shape[1]}u\n"
    series = f"{sizes}static const int32_t raw[SERIES][STEPS] = {{{rows}}};\n"
    for file, text in {**source_files(model, "net"), "series.h": series, "main.c": DEVICE}.items():
        (tmp_path / file).write_text(text)

    objects = [compile_object(board, tmp_path / unit) for unit in ("main.c", "net.c")]
    printed = run(board, link(board, objects, tmp_path / "device.elf"))

    classes = np.array(printed.split(), np.int64)
    np.testing.assert_array_equal(classifier.classes_[classes], classifier.predict_integer(X_test))

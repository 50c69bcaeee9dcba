"""The detector on SKAB: its figures by the published protocol, and the rule that selects settings."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hadamrnn.estimators import HadamRNNDetector
from hadamrnn.export.c import wrapped
from hadamrnn.export.js import export_js
from hadamrnn_benchmarks.anomalies import (
    DETECTORS,
    HADAMRNN,
    TITLE,
    TRAIN_ROWS,
    AnomalyRow,
    Detector,
    Levels,
    Recording,
    Setting,
    anomalies_page,
    measure,
    read_skab,
    select,
)
from tests.export.programs import SANITIZED, compile_and_run, write_sources

PAGE = Path(__file__).parents[2] / "docs/anomalies.md"
PARAMETERS = HadamRNNDetector().get_params()
DEFAULT = Setting(
    {name: PARAMETERS[name] for name in DETECTORS[HADAMRNN].options},
    smoothing=PARAMETERS["smoothing"],
    margin=PARAMETERS["margin"],
)
needs_skab = pytest.mark.skipif("HADAMRNN_DATA" not in os.environ, reason="no folder with the real data")


@needs_skab
@pytest.mark.skipif(
    shutil.which("cc") is None or shutil.which("node") is None, reason="no C compiler or node"
)
@pytest.mark.parametrize("part", ["valve1", "other"])
def test_c_and_javascript_alarm_on_the_rows_of_skab_that_python_does(part: str, tmp_path: Path) -> None:
    recording = next(each for each in read_skab() if each.part == part)
    values = recording.values
    detector = HadamRNNDetector(random_state=0).fit(values[:TRAIN_ROWS])
    model = detector.quantize()
    raw = np.floor(values / model.raw_unit + 0.5).astype(np.int32)
    alarms = (detector.predict_integer(values, model) == -1).astype(int)
    levels = np.rint(np.ldexp(-detector.score_samples_integer(values, model), 16)).astype(int)
    expected = np.stack([levels, alarms], axis=1).tolist()
    write_sources(tmp_path, model, "net")
    main = tmp_path / "main.c"
    main.write_text(
        '#include <stdio.h>\n#include "net.c"\n#include "net_detector.c"\n'
        f"static const int32_t raw[] = {{ {' '.join(wrapped(raw))} }};\n"
        "int main(void)\n{\n    static net_detector d;\n    net_detector_init(&d);\n"
        f"    for (int t = 0; t < {len(raw)}; t++) {{\n"
        "        const bool alarm = net_detector_push(&d, raw + t * (int)NET_INPUT_SIZE);\n"
        '        printf("%ld %d\\n", (long)net_detector_level(&d), alarm);\n    }\n    return 0;\n}\n'
    )
    folder = export_js(model, tmp_path / "js", "net")
    (folder / "main.mjs").write_text(
        'const { detector } = await import("./net.js"); const s = detector.init();\n'
        f"for (const x of {raw.tolist()}) {{ const alarm = detector.push(s, x);"
        " console.log(s.level, Number(alarm)); }\n"
    )
    node = subprocess.run(["node", "main.mjs"], cwd=folder, check=True, capture_output=True, text=True)

    assert 50 < alarms.sum() < len(values) - 50
    for printed in (compile_and_run("cc", main, SANITIZED), node.stdout):
        assert [list(map(int, line.split())) for line in printed.splitlines()] == expected


@needs_skab
def test_the_detector_as_it_comes_meets_its_figures_on_skab() -> None:
    recordings = read_skab()
    assert len(recordings) == 34 and sum(len(each.truth) - TRAIN_ROWS for each in recordings) == 23801
    rows = {row.part: row for row in measure(HADAMRNN, DETECTORS[HADAMRNN], DEFAULT, recordings, seeds=1)}

    assert rows["all"].f1 >= 0.80
    for row in rows.values():
        assert row.integer_f1 == pytest.approx(row.f1, abs=0.01)
        assert row.bytes is not None and row.bytes <= 4096


def test_the_detector_comes_with_the_setting_that_was_selected() -> None:
    assert f"\n- {HADAMRNN}: {DEFAULT}\n" in PAGE.read_text()


def recording(seed: int) -> Recording:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(TRAIN_ROWS + 400, 2))
    truth = np.zeros(len(values), bool)
    truth[-200:] = True
    values[truth] += 3
    return Recording("other", values, truth)


def test_the_rule_takes_the_fewest_false_alarms_near_the_best_f1() -> None:
    def levels(values: NDArray[np.float64], options: dict[str, Any], seed: int) -> Levels:
        distances = (values**2).sum(1) + options["noise"] * np.random.default_rng(0).random(len(values))
        return Levels(distances[:TRAIN_ROWS], distances)

    recordings = [recording(seed) for seed in range(3)]
    setting = select(Detector(levels, {"noise": (0.0, 100.0)}), recordings, seeds=1)

    assert setting.options == {"noise": 0.0} and setting.margin > 1.0


@pytest.mark.parametrize("name", DETECTORS)
def test_every_detector_tells_the_first_setting_of_its_grid(name: str) -> None:
    some, detector = recording(0), DETECTORS[name]
    found = detector.levels(some.values, next(detector.grid()), 0)

    warmup = 8 if name == HADAMRNN else 0  # warm-up samples do not affect the threshold

    assert found.every.shape == (800,) and np.isfinite(found.every).all()
    assert len(found.normal) == TRAIN_ROWS - warmup
    assert found.every[some.truth].mean() > found.every[:TRAIN_ROWS].mean()


def test_the_page_says_who_is_ahead() -> None:
    shares = {"worst": 0.8, "best": 0.8, "false_alarms": 0.2, "missed": 0.1}
    rows = [
        AnomalyRow(HADAMRNN, "a 1", "all", f1=0.8, integer_f1=0.79, bytes=2000, seeds=5, **shares),
        AnomalyRow("other", "b 2", "all", f1=0.9, integer_f1=None, bytes=None, seeds=1, **shares),
    ]
    page = anomalies_page(rows, 0.69)

    assert page.startswith(TITLE) and "Ahead of it is the other with 0.900." in page and "| 2,000 |" in page
    assert "F1 0.69" in " ".join(page.split()) and "- other: b 2" in page

"""The report: every row is there, measured or said to be missing, and the bytes depend on results alone."""

from __future__ import annotations

import html
import json
import re
import shlex
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest

from hadamrnn.cli import build_parser, reproduce, train
from hadamrnn.cli.reproduce import _jobs
from hadamrnn.pages.document import Cell, Document, Grid, to_markdown
from hadamrnn.pages.drawing import Point, front
from hadamrnn.paper.compare import Comparison, measurements, show, train_command
from hadamrnn.paper.front import Standing, networks_section, standing_section, standings
from hadamrnn.paper.memorization import run_memorization, write_memorization
from hadamrnn.paper.report import build_document, write_report
from hadamrnn.paper.report_tables import recipe_section
from hadamrnn.paper.results import Result, read_results, write_result
from hadamrnn.paper.rows import Row, setup
from hadamrnn.paper.runner import Job
from hadamrnn.paper.tables import TABLES, TASKS
from hadamrnn.training.config import config_values
from tests.conftest import Command

PMNIST = TABLES["results"].rows[14]


def grids(document: Document) -> list[Grid]:
    return [part.grid for section in document.sections for part in section.parts if part.grid is not None]


def results_folder(folder: Path, result: Result) -> Path:
    for each in (result, replace(result, preset="paper", test=0.9412)):
        write_result(folder, each)
    write_memorization(folder, run_memorization(hidden_size=16, seq_length=20))
    return folder


@pytest.mark.parametrize("name", ["seconds", "test", "epochs"])
def test_a_number_beyond_floats_in_a_result_is_one_line(
    name: str, tmp_path: Path, result: Result, command: Command
) -> None:
    path = write_result(tmp_path / "results", result)
    path.write_text(json.dumps({**json.loads(path.read_text()), name: 10**400}))

    answer = command("report", "--results", path.parent, "--out", tmp_path / "out")

    assert answer.status == 2 and answer.err.count("\n") == 1, answer
    assert f"is damaged: {name} must be float" in answer.err


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_without_results_every_row_is_said_to_be_missing(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    write_report(tmp_path / "results", tmp_path)

    text = (tmp_path / "RESULTS.md").read_text()
    lines = [row for table in TABLES.values() for row in table.rows]
    runnable = [row for row in lines if row.setup is not None]
    # Beside the rows: seven tasks' standing, six times and four scales.
    assert text.count("*missing*") == len(runnable) + 7 + 6 + 4
    assert text.count("*published only*") == len(lines) - len(runnable)
    ours = sum(row.setup.network.is_hadamard for row in runnable if row.setup)
    assert f"0 of {ours} rows" in text and "memorization experiment is missing" in text


def test_a_measured_row_stands_beside_the_published_one(result: Result, tmp_path: Path) -> None:
    write_report(results_folder(tmp_path / "results", result), tmp_path)

    text = (tmp_path / "RESULTS.md").read_text()
    command = "hadamrnn reproduce results --rows pmnist-512-4bit --preset best --set epochs=12 --threads 1"
    assert text.count(f"<li><code>{command}</code></li>") == 1  # for both of its lines
    table = text.partition("## HadamRNN and the state of the art")[2].partition("\n## ")[0]
    lines = [each for each in table.splitlines() if "| best |" in each]
    (line,) = (each for each in lines if "| FP |" in each)
    for cell in (
        "| 94.88 |",
        "| 95.01 |",
        "| ▲ +0.13 |",
        "| best |",
        "12 of 200 epochs, 5.2 min",
    ):
        assert cell in line
    (integers,) = (each for each in lines if "| 12 |" in each)
    assert "| 94.90 | 94.94 | ▲ +0.04 |" in integers
    assert "| 94.88 | 94.12 | ▼ -0.76 |" in text


@pytest.mark.slow
def test_the_same_results_give_the_same_bytes_in_another_process(result: Result, tmp_path: Path) -> None:
    results = results_folder(tmp_path / "results", result)
    write_report(results, tmp_path / "one")
    command = [
        sys.executable,
        "-m",
        "hadamrnn",
        "report",
        "--results",
        str(results),
        "--out",
        str(tmp_path / "two"),
    ]
    subprocess.run(command, check=True, capture_output=True)

    one, two = contents(tmp_path / "one"), contents(tmp_path / "two")
    assert one == two
    assert {
        "RESULTS.md",
        "RESULTS.html",
        "figures/memorization.svg",
        "figures/size-accuracy-pmnist.svg",
    } <= set(one)


def test_the_page_needs_nothing_but_itself(result: Result, tmp_path: Path) -> None:
    write_report(results_folder(tmp_path / "results", result), tmp_path)

    page = (tmp_path / "RESULTS.html").read_text()
    fetched = re.findall(r'(?:src|href)="([^"]*)"|url\(([^)]*)\)', page)
    assert fetched and all((link or style).startswith("#") for link, style in fetched)
    assert "<script" not in page and str(tmp_path) not in page
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    for target in re.findall(r'href="#([^"]+)"', page):
        assert target in ids
    for path in (tmp_path / "figures").iterdir():
        ElementTree.fromstring(path.read_text())
        assert "<dc:date>" not in path.read_text()


def test_the_printed_command_makes_the_configuration_that_was_run(result: Result) -> None:
    """Also where the preset has changed since: what differs is set."""
    config = {**result.config, "epochs": None, "steps": 500, "evaluate_every": 100, "weight_average": 0.999}
    config["model_options"] = {"a": 1}
    changed = replace(result, config=config, seed=3)
    (found,) = measurements(PMNIST, [changed])
    words = shlex.split(found.command())
    (job,) = _jobs(*reproduce.run.read(build_parser().parse_args(words[1:])))

    assert config_values(job.config) == {**config, "seed": 3}
    assert (job.preset, job.setup) == ("best", PMNIST.setup)


def test_a_run_of_no_table_is_repeated_by_train(result: Result) -> None:
    own = {"epochs": None, "steps": 9, "balanced": True, "gradient_clip": 1.0, "threads": None}
    config = {**result.config, **own, "model_options": {}, "task": "digits", "seed": 4}
    other = replace(result, experiment="digits-512-4bit", config=config)
    words = shlex.split(train_command(other))
    options, settings = train.run.read(build_parser().parse_args(words[1:]))

    assert config_values(train.config_of(options, settings)) == config
    text = to_markdown(build_document([other], None), "figures")
    assert f"<code>{html.escape(train_command(other))}</code>" in text


def measured(row: Row, *values: float, note: str = "") -> Comparison:
    assert row.setup is not None
    config = config_values(Job(row.setup, "best").config)
    results = tuple(
        Result(
            *(
                row.setup.key,
                "best",
                seed,
                config,
                TASKS[row.task].metric,
                value,
                value,
                None,
                1.0,
                10,
                1.0,
            ),
            *(10, 60.0, "finished", 1, "A Processor", {}, note),
        )
        for seed, value in enumerate(values)
    )
    return Comparison(row, "best", results)


@pytest.mark.parametrize(
    ("published", "value", "cell"),
    [
        ("1.6e-7", 8e-8, Cell("0.5 times", "better")),
        ("1.6e-7", 1.6e-6, Cell("10 times", "worse")),
        ("1.6e-7", 0.0204, Cell("BL", "worse")),
        ("BL", 1e-3, Cell("learns", "better")),
        ("BL", 0.021, Cell("BL too", "better")),
    ],
)
def test_cross_entropies_are_compared_by_their_ratio(published: str, value: float, cell: Cell) -> None:
    assert measured(Row("copy", "HadamRNN", published, setup("copy", 128)), value).difference() == cell


def test_another_data_set_is_not_compared() -> None:
    row = TABLES["glue"].rows[-1]

    assert measured(row, 0.9, note="a subset").difference() == Cell("not compared")


def test_several_seeds_are_a_mean_and_a_deviation() -> None:
    row = TABLES["variability"].rows[0]

    assert measured(row, 0.82, 0.84).measured() == Cell("83.00 ± 1.41 (2 of 5 seeds)")
    assert "--seed 0 --seed 1" in measured(row, 0.82, 0.84).command()


def test_every_line_of_every_table_has_a_cell_for_each_column(result: Result) -> None:
    found = grids(build_document([result], None))

    assert len(found) > 20
    for grid in found:
        assert all(len(line) == len(grid.header) for line in grid.lines)


def test_the_front_holds_what_nothing_beats() -> None:
    points = [
        Point(size, value, "", "") for size, value in ((1, 0.5), (1, 0.6), (2, 0.55), (3, 0.9), (4, 0.9))
    ]

    assert [(point.size, point.value) for point in front(points)] == [(1, 0.6), (3, 0.9)]
    assert [point.value for point in front(points, lower_is_better=True)] == [0.5]


def test_linear_recurrences_remember_and_relu_forgets() -> None:
    found = run_memorization()

    assert len(found.e_linear) == 200
    for curve in (found.e_linear, found.f_linear):
        assert max(curve) - min(curve) < 1e-6 * max(curve)
    for curve in (found.e_relu, found.f_relu):
        assert sum(curve[:20]) < 0.8 * sum(curve[-20:])


def test_the_memorization_command_writes_its_curves(command: Command, tmp_path: Path) -> None:
    answer = command("reproduce", "memorization", "--results", tmp_path)
    figures = json.loads(command("reproduce", "memorization", "--results", tmp_path, "--json").out)

    assert answer.status == 0 and "relu" in answer.out
    assert figures["linear"]["first"] == pytest.approx(figures["linear"]["last"])
    assert figures["relu"]["first"] < figures["relu"]["last"]


def test_bad_input_takes_one_line(command: Command, tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "x.best.seed0.json").write_text("{")
    for arguments, complaint in (
        (("--results", tmp_path / "nowhere"), "must be a folder of results"),
        (("--results", tmp_path / "results"), "is damaged"),
    ):
        answer = command("report", *arguments, "--out", tmp_path)
        assert answer.status == 2 and complaint in answer.err and answer.err.count("\n") == 1
    assert not (tmp_path / "RESULTS.md").exists()


@pytest.mark.parametrize("name", ["RESULTS.md", "RESULTS.html", "figures/memorization.svg"])
def test_a_report_replaces_a_report_and_nothing_else(
    name: str, command: Command, result: Result, tmp_path: Path
) -> None:
    results, out = results_folder(tmp_path / "results", result), tmp_path / "out"
    report = ("report", "--results", results, "--out", out)
    assert command(*report).status == command(*report).status == 0
    (out / name).write_text("my own notes")
    answer = command(*report)

    assert answer.status == 2 and "was not written by a report" in answer.err and answer.err.count("\n") == 1
    assert (out / name).read_text() == "my own notes"
    assert command(*report, "--force").status == 0 and (out / name).read_text() != "my own notes"


@pytest.mark.parametrize(
    "damage",
    [
        {"metric": 3},
        {"test": "high"},
        {"config": {}},
        {"config": {"task": "pmnist"}},
        {"config": {"task": "pmnist", "model": "hadamrnn", "epochs": 0}},
        {"config": {"task": "pmnist", "model": "hadamrnn", "epochs": 1, "unknown": 1}},
        {"seed": -1},
        {"steps": 0},
        {"integer": {"activation_bits": "x", "test": 0, "kilobytes": 1, "hidden_shift": 0, "saturations": 0}},
        {
            "integer": {
                "activation_bits": 12,
                "test": 0,
                "kilobytes": 1,
                "hidden_shift": 9999,
                "saturations": 0,
            }
        },
        {"curve": {"epoch": "x"}},
        {"curve": {"epoch": []}},
        {"curve": {"epoch": [], "loss": [], "validation": [], "flips": []}},
        {"curve": {"epoch": [1], "loss": [None], "validation": [1], "flips": [1]}},
    ],
)
def test_a_damaged_row_takes_one_line(
    damage: dict[str, object], result: Result, command: Command, tmp_path: Path
) -> None:
    path = write_result(tmp_path / "results", replace(result, preset="paper"))
    path.write_text(json.dumps({**json.loads(path.read_text()), **damage}))

    answer = command("report", "--results", tmp_path / "results", "--out", tmp_path)

    assert answer.status == 2 and answer.err.count("\n") == 1 and path.name in answer.err


@pytest.mark.parametrize("damage", [{"seq_length": 3}, {"e_relu": [1.0]}, {"f_linear": [float("nan")] * 20}])
def test_damaged_curves_of_the_memorization_take_one_line(
    damage: dict[str, object], result: Result, command: Command, tmp_path: Path
) -> None:
    path = results_folder(tmp_path / "results", result) / "memorization.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **damage}))

    answer = command("report", "--results", tmp_path / "results", "--out", tmp_path)

    assert answer.status == 2 and answer.err.count("\n") == 1 and path.name in answer.err


ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(not (ROOT / "RESULTS.md").is_file(), reason="no RESULTS.md has been committed yet")
def test_the_committed_report_is_what_the_committed_results_give(tmp_path: Path) -> None:
    """Figures have the same bytes under the pinned matplotlib alone; the tables always do."""
    pinned = f"matplotlib=={metadata.version('matplotlib')}" in (ROOT / "constraints.txt").read_text().split()
    for path in write_report(ROOT / "results", tmp_path):
        if pinned or path.suffix == ".md":
            committed = ROOT / path.relative_to(tmp_path)
            assert committed.read_bytes() == path.read_bytes(), f"{path.name}: run make results"


def standing(task: str, *results: Result) -> Standing:
    return next(each for each in standings(results) if each.task.name == task)


def network_line(task: str, *results: Result) -> tuple[Cell, ...]:
    part = networks_section(standings(results)).parts[0]
    assert part.grid is not None
    return next(line for line in part.grid.lines if line[0].text == TASKS[task].title)


def test_where_we_stand_is_chosen_on_validation_data(result: Result) -> None:
    """The other network is better on the test set, and stays out."""
    assert result.integer is not None
    integer = replace(result.integer, test=0.93)
    chosen = replace(result, preset="paper", validation=0.96, test=0.94, integer=integer)

    found = standing("pmnist", result, chosen)
    assert found.best is not None and found.best.text == "93.00"


def test_where_we_stand_is_a_mean_over_the_seeds_of_one_network(result: Result) -> None:
    assert result.integer is not None
    lucky = replace(result, seed=1, validation=0.99, test=0.97, integer=replace(result.integer, test=0.9694))
    found = standing("pmnist", result, lucky)

    assert found.best is not None and found.best.validation == pytest.approx((0.9512 + 0.99) / 2)
    assert found.best.text == "95.94 ± 1.41"
    assert network_line("pmnist", result, lucky)[2].text == "best, seeds 0, 1"


def test_a_network_of_five_seeds_goes_before_a_lucky_run(result: Result) -> None:
    lucky = replace(result, preset="paper", validation=0.99)
    often = [replace(result, seed=seed) for seed in range(5)]
    found = standing("pmnist", lucky, *often)

    assert found.best is not None and found.best.preset == "best"
    assert standing("pmnist", lucky, *often[:4]).best == standing("pmnist", lucky).best


def test_what_matches_the_paper_is_chosen_on_validation_data_too(result: Result) -> None:
    """A smaller network is ahead on the test set alone, and stays out."""
    assert result.integer is not None
    lucky = replace(result, experiment="pmnist-256-4bit", validation=0.95, test=0.97)
    lucky = replace(lucky, config={**result.config, "hidden_size": 256})
    sound = replace(result, validation=0.96, test=0.95, integer=replace(result.integer, test=0.9499))

    assert [cell.text for cell in network_line("pmnist", lucky, sound)[3:5]] == ["3.58", "94.99"]


def test_where_we_stand_names_the_seed_the_recurrence_and_the_command_of_that_run(result: Result) -> None:
    config = {**result.config, "recurrence": "relu", "seed": 2}
    relu = replace(result, experiment="pmnist-512-4bit-relu", seed=2, config=config)
    line = network_line("pmnist", relu)

    assert "ReLU" in line[1].text and line[2].text == "best, seed 2"
    args = build_parser().parse_args(shlex.split(line[5].text)[1:])
    (job,) = _jobs(*reproduce.run.read(args))
    assert config_values(job.config) == config


def test_the_page_opens_with_a_table_that_fits_a_phone_and_one_picture(result: Result) -> None:
    first = build_document([result], None).sections[0]

    assert [part.grid.slim for part in first.parts if part.grid] == [True] and len(first.pictures) == 1
    assert first.beside
    assert build_document([], None).sections[0].pictures == ()


def test_the_page_opens_with_the_tasks_on_which_we_are_ahead(result: Result) -> None:
    ahead = replace(result, preset="paper", validation=0.99, integer=None, test=0.9999)

    assert build_document([], None).paragraphs == ("Nothing has been measured here yet.",)
    assert build_document([result], None).paragraphs[0].startswith("On 0 of 1 tasks")
    assert build_document([result, ahead], None).paragraphs[0].startswith("On 1 of 1 tasks")


def test_the_opening_sentence_counts_what_its_table_marks(result: Result) -> None:
    """Both go by the printed digits: 95.848 is at the paper's 95.85."""
    level = replace(result, validation=0.99, integer=None, test=0.95848)
    document = build_document([level], None)
    grid = document.sections[0].parts[0].grid

    assert grid is not None and grid.lines[0][-1] == Cell("+0.00", "better")
    assert document.paragraphs[0].startswith("On 1 of 1 tasks")


def test_the_opening_table_names_seeds_and_a_relu_recurrence(result: Result) -> None:
    config = {**result.config, "recurrence": "relu"}
    relu = [
        replace(result, experiment="pmnist-512-4bit-relu", seed=seed, config={**config, "seed": seed})
        for seed in (0, 1)
    ]

    def ours(*results: Result) -> str:
        grid = standing_section(standings(results)).parts[0].grid
        assert grid is not None
        return grid.lines[0][2].text.replace("\u00a0", " ")

    assert ours(result) == "94.94 in 3.58 kB, 1 seed"
    assert ours(*relu) == "94.94 ± 0.00 in 3.58 kB, 2 seeds, ReLU recurrence"


def test_the_table_of_the_readme_is_where_we_stand() -> None:
    readme = (ROOT / "README.md").read_text().partition("## What it reaches")[2]
    rows = {
        line.split("|")[1].split()[0].lower().strip(","): line for line in readme.splitlines() if "|" in line
    }
    results = read_results(ROOT / "results")
    for found in standings(results):
        row = rows[found.task.title.split()[0].lower()]
        if found.best is None:
            assert "missing" in row
            continue
        best = found.best
        line = network_line(found.task.name, *results)
        paper = (show(found.task.metric, found.paper.value), f"{found.paper.size:g}")
        numbers = [
            *paper,
            best.text,
            f"{best.kilobytes:.2f}",
            *(cell.text for cell in line[3:5] if cell.text),
        ]

        assert all(number in row for number in numbers), (numbers, row)
        assert f"| {len(best.results)} |" in row
        assert ("ReLU" in row) == ("ReLU" in best.setup.title)


def test_the_recipe_of_the_paper_says_when_it_was_best_and_how_long_the_signs_rested(result: Result) -> None:
    curve: dict[str, list[float]] = {**result.curve, "epoch": [6.0, 12.0], "flips": [3, 0]}
    paper = replace(result, preset="paper", test=0.9412, best_step=4686, curve=curve)
    (part,) = recipe_section([result, paper]).parts
    assert part.grid is not None
    texts = [[cell.text for cell in line] for line in part.grid.lines]

    assert texts[0][3:] == ["94.88", "94.12", "-0.76", "6 of 12", "6", "95.01"]
    assert [line[2] for line in texts] == ["FP", "12"]  # once each, though four tables have the row
    assert recipe_section([result]).parts == ()

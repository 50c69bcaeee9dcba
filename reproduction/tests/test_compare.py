"""Published and measured figures: their difference, and the command that repeats a run."""

from __future__ import annotations

import html
import shlex
from dataclasses import replace

import pytest

from hadamrnn.cli import build_parser, train
from hadamrnn.pages.document import Cell
from hadamrnn.training.config import config_values, resolve_config
from hadamrnn_paper.cli import reproduce
from hadamrnn_paper.cli.reproduce import _jobs
from hadamrnn_paper.compare import Comparison, measurements, train_command
from hadamrnn_paper.markdown import to_markdown
from hadamrnn_paper.report import build_document
from hadamrnn_paper.results import Result
from hadamrnn_paper.rows import Row, setup
from hadamrnn_paper.runner import Job
from hadamrnn_paper.tables import TABLES
from reproduction.tests.conftest import made_up_result

PMNIST = TABLES["results"].rows[14]


def test_the_printed_command_makes_the_configuration_that_was_run(result: Result) -> None:
    """This holds even if the preset has changed since, because the command sets what differs."""
    config = {**result.config, "epochs": None, "steps": 500, "evaluate_every": 100, "weight_average": 0.999}
    changed = replace(result, config=config, seed=3)
    (found,) = measurements(PMNIST, [changed])
    words = shlex.split(found.command())
    (job,) = _jobs(*reproduce.run.read(build_parser().parse_args(words[1:])))

    assert config_values(job.config) == {**config, "seed": 3}
    assert (job.preset, job.setup) == ("best", PMNIST.setup)


def test_a_run_of_no_table_is_repeated_by_train(result: Result) -> None:
    own = {"epochs": None, "steps": 9, "balanced": True, "gradient_clip": 1.0, "threads": None}
    config = {**result.config, **own, "task": "digits", "seed": 4}
    other = replace(result, experiment="digits-512-4bit", config=config)
    words = shlex.split(train_command(other))
    options, settings = train.run.read(build_parser().parse_args(words[1:]))

    assert config_values(train.config_of(options, settings)) == config
    text = to_markdown(build_document([other], None), "figures")
    assert f"<code>{html.escape(train_command(other))}</code>" in text


@pytest.mark.parametrize(
    ("task", "overrides"),
    [
        # The preset has layers of other widths, and other options switched on.
        ("google12", {"hidden_size": 64, "num_layers": 3}),
        ("google12", {"layer_sizes": [64, 64, 128]}),
        ("har2", {"task_options": {"fine": False, "activities": False}}),
    ],
)
def test_what_a_preset_has_and_a_run_did_not_is_undone(
    task: str, overrides: dict[str, object], result: Result
) -> None:
    config = config_values(resolve_config(task, preset="best", overrides=overrides))
    ran = {**config, "task_options": {name: on for name, on in config["task_options"].items() if on}}
    words = shlex.split(train_command(replace(result, experiment="other", config=ran)))
    options, settings = train.run.read(build_parser().parse_args(words[1:]))

    assert config_values(train.config_of(options, settings)) == config


def measured(row: Row, *values: float, note: str = "") -> Comparison:
    assert row.setup is not None
    config = config_values(Job(row.setup, "best").config)
    run = replace(made_up_result(), experiment=row.setup.key, config=config, integer=None, note=note)
    results = [replace(run, seed=seed, test=value, validation=value) for seed, value in enumerate(values)]
    return Comparison(row, "best", tuple(results))


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


def test_an_integer_network_of_other_bits_is_not_the_rows(result: Result) -> None:
    (row,) = (row for row in TABLES["results"].rows if row.key == PMNIST.key and row.activation_bits)
    assert row.activation_bits == 12 and result.integer is not None
    wider = replace(result, integer=replace(result.integer, activation_bits=16))

    assert len(measurements(row, [result])) == 1 and measurements(row, [wider]) == []


def test_several_seeds_are_a_mean_and_a_deviation() -> None:
    row = TABLES["variability"].rows[0]

    assert measured(row, 0.82, 0.84).measured() == Cell("83.00 ± 1.41 (2 of 5 seeds)")
    assert "--seed 0 --seed 1" in measured(row, 0.82, 0.84).command()

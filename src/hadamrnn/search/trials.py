"""Run the trials of a search and finish it. Start at `run_trials`, then `finish`.

A trial chooses a candidate, trains it, quantizes it and reports its metric. Finally the best network is
retrained into a run directory, quantized and tested:

    OUT/trial-0012/    the run of the best trial, retrained from its seed, with model.int.safetensors
    OUT/search.json    the figures and all trials
    OUT/search.html    the front as a table and a plot
    OUT/front.svg      the plot alone

The test set is read only in `finish`, once for each network that turns out best.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from optuna.exceptions import UpdateFinishedTrialError
from optuna.study import Study
from optuna.trial import FrozenTrial, Trial, TrialState

from hadamrnn.data.splits import Splits
from hadamrnn.errors import InputError
from hadamrnn.files import CONFIG_FILE, INTEGER_FILE, write_atomically
from hadamrnn.fixedpoint.cost import estimate, network_size
from hadamrnn.network import Network, hadamard, network_values, read_network
from hadamrnn.pages.document import BLUE, GREY, ORANGE, Cell, Document, Grid, Picture, grid_section, to_html
from hadamrnn.pages.drawing import Canvas, Point, draw_front, front, scatter, styled, svg
from hadamrnn.quantization import QuantizeConfig
from hadamrnn.quantization.chain import IntegerNetwork, quantize
from hadamrnn.run import Run, RunOptions, resume, train
from hadamrnn.search.space import (
    BOARD,
    SEARCHED_FIELDS,
    Budget,
    SearchSpace,
    count,
    suggest_rates,
)
from hadamrnn.search.study import (
    check_settings,
    completed,
    count_trials,
    fail_stale_trials,
    heartbeat,
    set_sampler,
)
from hadamrnn.training.config import TrainingConfig, config_values, make_config
from hadamrnn.training.evaluate import MetricsRow, evaluate, show_metric
from hadamrnn.training.loop import Watcher, fit
from hadamrnn.training.models import build, task_network

Log = Callable[[str], None]
Stop = Callable[[], bool]
GIVEN_UP = "given up by another worker: no heartbeat for too long"
Figures = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Search:
    """A search for a task's best network within a budget, trained by a preset's recipe."""

    splits: Splits
    preset: TrainingConfig
    budget: Budget

    @property
    def space(self) -> SearchSpace:
        return SearchSpace(hadamard(task_network(self.preset, self.splits)), self.budget)

    @property
    def maximize(self) -> bool:
        return self.splits.metric == "accuracy"

    @property
    def settings(self) -> dict[str, Any]:
        """Return the settings that all trials of a study share, as JSON values."""
        values = config_values(self.preset)
        shared = ("task", "task_options", "preset", "seed", "epochs", "steps")
        return {**{name: values[name] for name in shared}, **asdict(self.budget)}


class Reporter(Watcher):
    """A watcher that reports a trial's validations to the study, by percent of its steps, for pruning."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self.pruned = False
        self.percent = 0

    def start(self, step: int, total_steps: int, epochs: float, metric: object) -> None:
        self._total = total_steps

    def row(self, row: MetricsRow, best: bool) -> None:
        percent = 100 * row.step // self._total
        assert row.validation_metric is not None  # a task has validation data
        if percent > self.percent:  # optuna accepts one figure per step and warns about a second
            self.percent = percent
            self._trial.report(row.validation_metric, percent)
        self.pruned = row.step < self._total and self._trial.should_prune()


def run_trials(
    study: Study, search: Search, trials: int, stop: Stop = lambda: False, log: Log = print
) -> None:
    """Run trials until all workers together have finished `trials`, or until `stop` returns True."""
    space = search.space
    first = space.preset_parameters(search.preset)
    while not stop():
        fail_stale_trials(study)
        if count_trials(study) >= trials:
            return
        check_settings(study, search.settings)
        trial = study.ask()
        with heartbeat(trial):
            set_sampler(study, search.preset.seed, trial.number, first)
            try:
                line = _run_trial(study, trial, search, space, stop)
            except UpdateFinishedTrialError:
                line = GIVEN_UP
            except BaseException:
                study.tell(trial, state=TrialState.FAIL, skip_if_finished=True)
                raise
        log(f"trial {trial.number + 1:<4}{line}")


def _run_trial(study: Study, trial: Trial, search: Search, space: SearchSpace, stop: Stop) -> str:
    """Run one trial, report it to the study and return a line about it."""
    began = time.monotonic()
    tell = partial(study.tell, trial, skip_if_finished=True)
    candidate = space.suggest(trial)
    rates = suggest_rates(trial, search.preset)
    config = replace(search.preset, network=replace(candidate, activation_bits=None), **rates)
    counted = count(candidate) if search.budget.counts else None
    instructions = counted if isinstance(counted, int) else estimate(candidate)
    size = network_size(candidate).bytes
    trial.set_user_attr("config", config_values(config))
    trial.set_user_attr("network", network_values(candidate))
    trial.set_user_attr("bytes", size)
    trial.set_user_attr("instructions", instructions)
    line = f"{candidate}  {size:,} bytes"
    excesses = search.budget.excesses(candidate, counted) if isinstance(counted, int) else []
    if excesses:
        tell(state=TrialState.PRUNED)
        return f"{line}  not trained: {counted:,} instructions, counted: {'; '.join(excesses)}"
    reporter = Reporter(trial)
    splits = search.splits
    try:
        model = build(config, splits)
        outcome = fit(model, splits, config, watcher=reporter, stop=lambda: reporter.pruned or stop())
        if outcome.finished:
            integer = quantize(outcome.model, splits, quantize_config(candidate))
            value = evaluate(IntegerNetwork(integer), splits.validation, splits.metric)
    except InputError as error:  # training diverged, or no shift fits the states: mark this trial failed
        tell(state=TrialState.PRUNED)
        return f"{line}  {error}"
    seconds = time.monotonic() - began
    if not outcome.finished:
        tell(state=TrialState.PRUNED if reporter.pruned else TrialState.FAIL)
        end = "pruned" if reporter.pruned else "stopped"
        return f"{line}  {end} after {reporter.percent} %  {seconds:.1f} s"
    if tell(value).state != TrialState.COMPLETE:
        return GIVEN_UP
    best = " *" if study.best_trial.number == trial.number else ""
    return f"{line}  validation {show_metric(splits.metric, value)}{best}  {seconds:.1f} s"


def quantize_config(network: Network) -> QuantizeConfig:
    """Return the settings for quantizing a candidate."""
    assert network.activation_bits is not None
    return QuantizeConfig(activation_bits=network.activation_bits)


def finish(study: Study, search: Search, out: Path, options: RunOptions) -> Figures:
    """Train, quantize and test the best network, write the files, and return the figures of search.json."""
    if not completed(study):
        raise InputError("No trial has finished yet. Give the search more --trials or --minutes.")
    best = study.best_trial
    figures: Figures = {
        **search.settings,
        "metric": search.splits.metric,
        "trials": [_summary(trial) for trial in completed(study)],
        "best": _earlier_figures(out, best, search) or _figures(best, search, out, options),
    }
    points = front(map(_point, completed(study)), lower_is_better=not search.maximize)
    figures["front"] = [
        {"bytes": round(point.size), "validation": point.value, "network": point.label} for point in points
    ]
    picture = front_picture(study, search, points)
    write_atomically(out / "front.svg", picture.svg.encode())
    write_atomically(out / "search.html", to_html(page(figures, picture)).encode())
    write_atomically(out / "search.json", (json.dumps(figures, indent=1) + "\n").encode())
    return figures


def front_picture(study: Study, search: Search, best: list[Point]) -> Picture:
    """Plot the metric of every completed trial against its bytes, with the front `best`."""
    accuracy = search.splits.metric == "accuracy"
    unit = 100 if accuracy else 1
    with styled():
        canvas = Canvas(figsize=(4.4, 3.5))
        axes = canvas.subplots()
        scatter(axes, [_point(trial) for trial in completed(study)], BLUE, "o", "trials", unit=unit)
        scatter(axes, best, ORANGE, "o", "front", unit=unit)
        draw_front(axes, best, ORANGE, "-", unit=unit)
        axes.axvline(search.budget.max_bytes, color=GREY, linewidth=0.8)
        axes.set_xscale("log", base=2)
        if not accuracy:
            axes.set_yscale("log")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.set_xlabel("bytes of weights")
        axes.set_ylabel("validation accuracy in %" if accuracy else f"validation {search.splits.metric}")
        axes.legend(loc="best")
        caption = (
            f"{len(completed(study))} trials as integer networks; the grey line is the budget of "
            f"{search.budget.max_bytes:,} bytes."
        )
        return Picture("front", svg(canvas, "front"), caption)


def page(figures: Figures, picture: Picture) -> Document:
    """Describe the best network and the front."""
    metric, best = figures["metric"], figures["best"]
    lines = tuple(
        (Cell(f"{point['bytes']:,}"), Cell(show_metric(metric, point["validation"])), Cell(point["network"]))
        for point in figures["front"]
    )
    test = "" if best["test"] is None else f" Test, read once: {show_metric(metric, best['test'])}."
    lead = (
        f"Within {figures['max_bytes']:,} bytes the best of {len(figures['trials'])} finished trials has "
        f"{best['network']}: {best['bytes']:,} bytes, {best['instructions']:,} instructions per step on a "
        f"{BOARD} ({best['instructions_by']}), validation {show_metric(metric, best['validation'])}.{test}"
    )
    table = Grid(("bytes", "validation, integer network", "network"), lines)
    section = grid_section(
        "front", "The front", "No network as small has a better metric.", table, (picture,)
    )
    return Document(f"Search: {figures['task']}", (lead,), (section,))


def _figures(best: FrozenTrial, search: Search, out: Path, options: RunOptions) -> Figures:
    """Retrain the network of the best trial, quantize it and test it."""
    candidate = read_network(best.user_attrs["network"])
    folder = out / f"trial-{best.number + 1:04}"
    splits = search.splits
    config = make_config(**best.user_attrs["config"])
    # The configuration of a run also has the options that the task filled in.
    config = replace(config, task_options={**config.task_options, **splits.options})
    run = _train(config, folder, options)
    if not run.finished:
        raise InputError(f"Training the best network stopped in {folder}. Repeat the command to continue.")
    quantized = run.quantize(quantize_config(candidate))
    counted = count(candidate, quantized.model)
    estimated = isinstance(counted, str)
    excesses = [] if isinstance(counted, str) else search.budget.excesses(candidate, counted)
    if excesses:
        raise InputError(
            f"The best network, {candidate}, takes {counted:,} instructions with its own weights: "
            f"{'; '.join(excesses)}. Search with a smaller budget."
        )
    return {
        "trial": best.number,
        "network": str(candidate),
        "bytes": quantized.size.payload,
        "extra_bytes": quantized.size.extra,
        "instructions": best.user_attrs["instructions"] if estimated else counted,
        "instructions_by": f"estimated; not counted: {counted}" if estimated else "counted",
        "validation": evaluate(IntegerNetwork(quantized.model), splits.validation, splits.metric),
        "test": quantized.integer_value,
        "run": str(folder),
    }


def _train(config: TrainingConfig, folder: Path, options: RunOptions) -> Run:
    """Train, or resume a run that an earlier search left."""
    begun = (folder / CONFIG_FILE).is_file()
    if begun and config_values(Run.open(folder).config) == config_values(config):
        return resume(folder, options)
    return train(config, folder, options)


def _earlier_figures(out: Path, best: FrozenTrial, search: Search) -> Figures | None:
    """Return an earlier search's figures of the same trial, so that the test set is read only once."""
    try:
        figures = json.loads((out / "search.json").read_bytes())
        known: Figures = figures["best"]
        same = known["trial"] == best.number and _summary(best) in figures["trials"]
        same &= all(figures[name] == value for name, value in search.settings.items())
        return known if same and (Path(known["run"]) / INTEGER_FILE).is_file() else None
    except (OSError, ValueError, LookupError, TypeError):  # missing or damaged
        return None


def _point(trial: FrozenTrial) -> Point:
    assert trial.value is not None
    label = str(read_network(trial.user_attrs["network"]))
    return Point(trial.user_attrs["bytes"], trial.value, label)


def _summary(trial: FrozenTrial) -> Figures:
    rates = ("learning_rate", "signs", "sign_learning_rate")
    return {
        "trial": trial.number,
        "validation": trial.value,
        "bytes": trial.user_attrs["bytes"],
        "instructions": trial.user_attrs["instructions"],
        **{name: trial.user_attrs["network"][name] for name in SEARCHED_FIELDS},
        **{name: trial.params.get(name) for name in rates},
    }

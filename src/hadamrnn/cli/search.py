"""`hadamrnn search`: search for the best network within a budget."""

from __future__ import annotations

import time
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from hadamrnn.cli.arguments import (
    TASK_OPTION_HELP,
    DataOptions,
    JsonOption,
    Minutes,
    OwnData,
    command,
    parse_task,
    repeated,
    set_threads,
    task_argument,
)
from hadamrnn.cli.device import BudgetOptions, task_device
from hadamrnn.settings import Count, Range, Seed, option

if TYPE_CHECKING:
    from hadamrnn.search.trials import Log, Search, Stop


@dataclass(frozen=True, kw_only=True)
class SearchOptions(OwnData, BudgetOptions, DataOptions, JsonOption):
    task: str = task_argument()
    max_bytes: Count = option(MISSING, "budget: bytes of weights in the integer file")
    max_instructions: Count | None = option(None, "budget: instructions of a step on a Cortex-M4")
    trials: Annotated[int, Range(1, 10**6)] = option(
        30, "number of networks to try, by all workers together (default 30)"
    )
    minutes: Minutes | None = option(None, "time for trials; the best network is trained again after that")
    preset: str | None = option(None, "recipe to start from: paper, quick or best (default quick)")
    epochs: Annotated[int, Range(1, 10**6)] | None = option(None, "epochs of a trial (default: the preset's)")
    steps: Count | None = option(None, "optimizer steps of a trial, instead of epochs")
    seed: Seed = option(0, "seed of the search and its networks (default 0)")
    out: Path = option(Path("search"), "folder for the study, the best run and a page (default search)")
    storage: str | None = option(
        None,
        "where the study is stored: a journal file, or the URL of a database, sqlite:///FILE or "
        "postgresql://USER:PASSWORD@HOST/DATABASE (default OUT/study.journal)",
    )
    study: str | None = option(None, "name of the study in its storage (default: the task's name)")
    worker: bool = option(False, "run trials only; another process finishes the search")
    task_option: tuple[str, ...] = repeated(TASK_OPTION_HELP)
    quiet: bool = option(False, "show no progress")


@command(
    help="search for the best network within a budget",
    description="Search hidden sizes, blocks, bits and learning rates for the integer network with the best "
    "validation metric. Networks that do not fit the budget are never trained. --max-bytes does not count an "
    "embedding table. With --rate, a Cortex-M4 can keep up with the resulting network at this number of "
    "samples per second, including overlapping windows. Instructions per step are counted in an emulator if "
    "its tools are installed, else estimated. Repeat the command to continue a stopped search. Several "
    "machines search together if they share --storage and all but one use --worker.",
    examples=(
        "hadamrnn search digits --max-bytes 512 --trials 30 --out searches/digits",
        "hadamrnn search har2 --max-bytes 4096 --max-instructions 20000 --minutes 60 --out searches/har",
        "hadamrnn search har2 --max-bytes 4096 --rate 50 --clock 1 --max-ram 2048 --out searches/slow",
        "hadamrnn search pmnist --max-bytes 4096 --storage /shared/pmnist.journal --worker",
    ),
)
def run(args: SearchOptions) -> None:
    from hadamrnn.interrupts import stopped_by_signals
    from hadamrnn.search.study import open_study, storage_errors_in_one_line
    from hadamrnn.search.trials import run_trials
    from hadamrnn.training.loop import choose_watcher

    log = choose_watcher(args.quiet or args.json).remark
    search = _search(args)
    place = args.storage or str(args.out / "study.journal")
    _ = search.space  # raises if no network fits the budget
    study = open_study(place, args.study or search.preset.task, search.settings, maximize=search.maximize)
    signals = stopped_by_signals(lambda: "repeat the command to continue")
    with storage_errors_in_one_line(place), signals as stop:
        run_trials(study, search, args.trials, _until(stop, args.minutes), log)
        if stop():
            return
        if args.worker:
            log("this worker is done")
        else:
            _finish(args, study, search, stop, log)


def _search(args: SearchOptions) -> Search:
    from hadamrnn.data.tasks import load_task
    from hadamrnn.search.space import Budget
    from hadamrnn.search.trials import Search
    from hadamrnn.training.config import resolve_config
    from hadamrnn.training.loop import decide_levels

    task, options = parse_task(args.task, args.task_option, args)
    given = {"epochs": args.epochs, "steps": args.steps, "threads": args.threads}
    overrides = {name: value for name, value in given.items() if value is not None}
    preset = resolve_config(
        task,
        preset=args.preset,
        overrides={**overrides, "seed": args.seed, "task_options": options},
    )
    set_threads(args.threads)
    splits = load_task(preset.task, args.data_dir, **preset.task_options)
    windows = task_device(args, args.rate, splits.task, splits.options, splits.seq_length)
    budget = Budget(args.max_bytes, args.max_instructions, *windows)
    return Search(splits, decide_levels(preset, splits), budget)


def _until(stop: Stop, minutes: float | None) -> Stop:
    """Return whether to stop: after a signal, or when the time is up."""
    end = float("inf") if minutes is None else time.monotonic() + 60 * minutes
    return lambda: stop() or time.monotonic() > end


def _finish(args: SearchOptions, study: Any, search: Search, stop: Stop, log: Log) -> None:
    from hadamrnn.files import claim
    from hadamrnn.run import RunOptions
    from hadamrnn.search.trials import finish

    with claim(args.out, "finish", patient=True, stop=stop) as held:
        if held is None:
            log(f"another process is finishing this search in {args.out}")
            return
        log("training the best network again, into its run folder")
        figures = finish(study, search, args.out, RunOptions(args.data_dir, stop=stop))
    args.show(figures, *_lines(figures, args.out))


def _lines(figures: dict[str, Any], out: Path) -> list[str]:
    from hadamrnn.training.evaluate import show_metric

    metric, best = figures["metric"], figures["best"]
    front = [
        f"  {point['bytes']:>7,}  {show_metric(metric, point['validation'])}  {point['network']}"
        for point in figures["front"]
    ]
    test = "no labels" if best["test"] is None else show_metric(metric, best["test"])
    return [
        "  bytes  validation of the integer network: the front",
        *front,
        f"best        {best['network']}",
        f"weights     {best['bytes']:,} of {figures['max_bytes']:,} bytes",
        f"step        {best['instructions']:,} instructions on a Cortex-M4, {best['instructions_by']}",
        f"validation  {show_metric(metric, best['validation'])}",
        f"test        {test}",
        f"run         {best['run']}",
        f"page        {out / 'search.html'}",
    ]

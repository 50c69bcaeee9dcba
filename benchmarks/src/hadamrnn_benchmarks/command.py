"""`hadamrnn bench`: measure the library against alternatives, one part for each claim. Start at `run`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from hadamrnn.architecture import MAX_SIZE
from hadamrnn.cli.arguments import (
    Command,
    DataFolder,
    JsonOption,
    check_output,
    check_unused,
    command,
)
from hadamrnn.errors import InputError
from hadamrnn.settings import Range, Threads, option

if TYPE_CHECKING:
    from hadamrnn_benchmarks.reading import MemoryRow
    from hadamrnn_benchmarks.training import TrainingRow

Rounds = Annotated[int, Range(1, 10_000)]


@dataclass(frozen=True, kw_only=True)
class TrainingOptions(DataFolder, JsonOption):
    shapes: tuple[str, ...] = option(
        (),
        "workloads: mnist, copy, imdb, relu, block, pooled, leaky, stack, frozen "
        "(default: all; with --model mnist alone)",
    )
    rounds: Rounds = option(5, "measurements of each side; their median counts (default 5)")
    threads: Threads = option(2, "CPU threads of each side (default 2)")
    no_memory: bool = option(False, "do not measure peak memory, which starts new processes")
    model: tuple[str, ...] = option(
        (), "compare these kinds of network with HadamRNN instead; all for every kind"
    )
    hidden_size: Annotated[int, Range(1, MAX_SIZE)] = option(
        128, "hidden size of all networks of --model (default 128)"
    )
    scaling: bool = option(False, "measure time against sequence length and hidden size instead")
    out: Path = option(Path("scaling.svg"), "file for the plot of --scaling (default scaling.svg)")


@command(
    help="time of a training step, compared with a plain dense loop",
    description="Time a training step (forward, backward, Adam) of the engine and of a plain dense loop. The "
    "columns GRU, RNN and obvious are the times of torch.nn.GRU, torch.nn.RNN and the obvious loop "
    "(h = h @ W.T + z[:, t]) with the same width, divided by the engine's.",
    examples=(
        "hadamrnn bench training --shapes mnist copy --rounds 5 --json",
        "hadamrnn bench training --model all --hidden-size 128",
    ),
)
def run_training(args: TrainingOptions) -> None:
    if not args.model:
        check_unused(args, "without --model", "hidden_size")
    if not args.scaling:
        check_unused(args, "without --scaling", "out")
    if args.model:
        check_unused(args, "with --model", "scaling", "no_memory")
        _run_models(args)
        return
    if args.scaling:
        check_unused(args, "with --scaling", "shapes", "data_dir", "no_memory")
        _run_scaling(args)
        return
    from hadamrnn_benchmarks.training import SHAPES, run_shapes

    rows = run_shapes(
        list(args.shapes or SHAPES),
        rounds=args.rounds,
        threads=args.threads,
        data_dir=args.data_dir,
        memory=not args.no_memory,
    )
    args.show(
        {"rows": [asdict(row) for row in rows]},
        f"{'shape':8} {'plain':>12} {'engine':>12} {'ratio':>8} {'wanted':>7} "
        f"{'GRU':>8} {'RNN':>8} {'obvious':>8} {'loop adds':>10} {'plain':>10} {'engine':>10}",
        *map(_line, rows),
    )


def _run_scaling(args: TrainingOptions) -> None:
    from hadamrnn_benchmarks.scaling import run_scaling

    if args.out.suffix != ".svg":
        raise InputError(f"--out must name an .svg file, got {args.out}.")
    check_output("--out", args.out, "<svg")
    points = run_scaling(args.out, threads=args.threads, rounds=args.rounds)
    lines = (
        f"{point.series:12} {point.size:>9}  {point.milliseconds:10.2f} ms  {point.megabytes:8.1f} MB"
        for point in points
    )
    figures = {"plot": str(args.out), "points": [asdict(point) for point in points]}
    args.show(figures, *lines, f"wrote {args.out}")


def _run_models(args: TrainingOptions) -> None:
    from hadamrnn_benchmarks.kinds import run_models
    from hadamrnn_benchmarks.training import named_shapes

    rows = [
        row
        for shape in named_shapes(args.shapes or ("mnist",))
        for row in run_models(
            args.model,
            shape,
            hidden_size=args.hidden_size,
            rounds=args.rounds,
            threads=args.threads,
            data_dir=args.data_dir,
        )
    ]
    args.show(
        {"rows": [asdict(row) for row in rows]},
        f"{'shape':8} {'model':18} {'step':>12} {'HadamRNN = 1':>14}",
        *(f"{row.shape:8} {row.model:18} {row.milliseconds:9.1f} ms {row.ratio:14.1f}" for row in rows),
    )


def _line(row: TrainingRow) -> str:
    memory = [
        f"{value:7.1f} MB" if value is not None else f"{'-':>10}" for value in (row.plain_mb, row.engine_mb)
    ]
    return (
        f"{row.shape:8} {row.plain_ms:9.1f} ms {row.engine_ms:9.2f} ms {row.ratio:8.1f} {row.wanted:7.0f} "
        f"{row.gru_ms / row.engine_ms:8.1f} {row.rnn_ms / row.engine_ms:8.1f} "
        f"{row.obvious_ms / row.engine_ms:8.1f} {100 * row.loop_share:8.1f} % "
        f"{memory[0]} {memory[1]}"
    )


@dataclass(frozen=True, kw_only=True)
class InferenceOptions(JsonOption):
    shapes: tuple[str, ...] = option((), "networks: mnist, mnist5120, har, copy (default: all)")
    rounds: Rounds = option(3, "measurements of each engine; their median counts (default 3)")


@command(
    help="sequences per second: C, numpy, onnxruntime, torch",
    description="Run the same network with every installed engine, in turns, on one thread; the native "
    "engine also runs on all cores.",
    examples=("hadamrnn bench inference --shapes mnist --json",),
)
def run_inference(args: InferenceOptions) -> None:
    from hadamrnn_benchmarks import inference

    rows, left_out = inference.run_inference(list(args.shapes or inference.SHAPES), rounds=args.rounds)
    ratios = f"{'x plain':>9}{'x numpy':>9}{'limit':>7}"
    lines = [f"{'shape':10}{'engine':24}{'sequences/s':>13}{'ns a step':>11}{ratios}"]
    for row in rows:
        plain = "-" if row.ratio is None else f"{row.ratio:,.2f}"
        share = "" if row.limit_share is None else f"{row.limit_share:.0%}"
        figures = f"{row.sequences_per_second:>13,.1f}{row.nanoseconds_per_step:>11,.0f}{plain:>9}"
        lines.append(f"{row.shape:10}{row.engine:24}{figures}{row.numpy_ratio:>9.2f}{share:>7}")
    lines += [f"left out: {line}" for line in left_out]
    args.show({"rows": [asdict(row) for row in rows], "left_out": left_out}, *lines)


@dataclass(frozen=True, kw_only=True)
class PageOptions(JsonOption):
    out: Path | None = option(None, "write the Markdown page to this file (default: print it)")


@command(
    help="flash, RAM and cost of a step on microcontrollers",
    description="Measure networks on every target whose tools are installed, and two other cells of the same "
    "size.",
    examples=("hadamrnn bench edge --out docs/edge.md",),
)
def run_edge(args: PageOptions) -> None:
    from hadamrnn_benchmarks import edge

    check_output("--out", args.out, edge.TITLE)
    rows, left_out = edge.run_edge()
    publish(
        args, rows, left_out, edge.edge_page(rows, left_out, edge.run_two_models(), edge.run_front_ends())
    )


def publish(args: PageOptions, rows: Sequence[Any], left_out: list[str], page: str) -> None:
    """Write or print the results of a benchmark."""
    from hadamrnn.files import write_atomically

    if args.out is not None:
        write_atomically(args.out, page.encode())
    if args.json or args.out is None:
        args.show({"rows": [asdict(row) for row in rows], "left_out": left_out}, page)


@dataclass(frozen=True, kw_only=True)
class EstimatorsOptions(DataFolder, PageOptions):
    sets: tuple[str, ...] = option(
        (),
        "data sets: ACSF1, ArrowHead, BasicMotions, GunPoint, ItalyPowerDemand, JapaneseVowels, OSULeaf, "
        "PLAID, UCI HAR (default: all)",
    )
    classifiers: tuple[str, ...] = option(
        (), "some of HadamRNN, HadamRNN 16 kB, GRU 32, MiniRocket, logistic regression (default: all)"
    )
    seeds: Annotated[int, Range(1, 1000)] = option(
        5, "fits of each classifier (default 5); GRU and logistic regression have one"
    )
    keep: Path | None = option(
        None, "JSON file of rows: those in it are not measured again, new ones are added"
    )


@command(
    help="accuracy of the scikit-learn classifier, compared with others",
    description="Fit HadamRNNClassifier, a GRU, MiniRocket and logistic regression to the sets of real "
    "series that are bundled with sktime, and to UCI HAR.",
    examples=("hadamrnn bench estimators --seeds 5 --out docs/estimators.md",),
)
def run_estimators(args: EstimatorsOptions) -> None:
    from hadamrnn_benchmarks import estimators

    check_output("--out", args.out, estimators.TITLE)
    check_output("--keep", args.keep)
    rows, left_out = estimators.run_estimators(
        list(args.sets or estimators.SETS), classifiers=args.classifiers, seeds=args.seeds, keep=args.keep
    )
    publish(args, rows, left_out, estimators.estimators_page(rows, args.seeds, left_out))


@dataclass(frozen=True, kw_only=True)
class ArchiveOptions(DataFolder, PageOptions):
    seeds: Annotated[int, Range(1, 1000)] = option(5, "fits of each set (default 5)")
    keep: Path = option(
        Path("benchmarks/results/archive.jsonl"),
        "JSON Lines of rows: what is missing is added (default benchmarks/results/archive.jsonl)",
    )


@command(
    help="accuracy of the classifier on the UCR archive, by size",
    description="Fit HadamRNNClassifier to sets of the UCR archive, from the folder ucr of the data folder, "
    "at several sizes and without each of its mechanisms. A plot is written next to --out, as SVG.",
    examples=("hadamrnn bench archive --out docs/archive.md",),
)
def run_archive(args: ArchiveOptions) -> None:
    from hadamrnn.files import write_atomically
    from hadamrnn_benchmarks import archive

    check_output("--out", args.out, archive.TITLE)
    rows, sets = archive.run_archive(args.keep, seeds=args.seeds, data_dir=args.data_dir)
    publish(args, rows, [], archive.archive_page(rows, sets))
    if args.out is not None:
        write_atomically(args.out.with_suffix(".svg"), archive.archive_plot(rows, sets).encode())


@dataclass(frozen=True, kw_only=True)
class MemoryOptions(JsonOption):
    sizes: tuple[Annotated[int, Range(1, 4000)], ...] = option(
        (25, 250), "sizes of the files in megabytes (default 25 250)"
    )

    def show_rows(self, rows: Sequence[MemoryRow]) -> None:
        lines = [f"{'form':14}{'file':>10}{'peak':>10}{'ratio':>7}{'time':>9}"]
        for row in rows:
            sizes = f"{row.megabytes:7.0f} MB{row.peak_megabytes:7.0f} MB"
            lines.append(f"{row.shape:14}{sizes}{row.ratio:7.1f}{row.seconds:7.1f} s")
        self.show({"rows": [asdict(row) for row in rows]}, *lines)


@command(
    help="peak memory and time of reading your own data",
    description="Write CSV and npz files of random values, load each in its own process, and compare the "
    "peak memory with the size of the file.",
    examples=("hadamrnn bench reading --sizes 25 250 --json",),
)
def run_reading(args: MemoryOptions) -> None:
    from hadamrnn_benchmarks import reading

    args.show_rows(reading.run_reading(args.sizes))


@command(
    help="peak memory and time of fitting a classifier to your own data",
    description="Write CSV and npz files of random values, read each and fit HadamRNNClassifier to it in its "
    "own process, and compare the peak memory with the size of the file.",
    examples=("hadamrnn bench fitting --sizes 25 250 --json",),
)
def run_fitting(args: MemoryOptions) -> None:
    from hadamrnn_benchmarks import reading

    args.show_rows(reading.run_fitting(args.sizes))


@dataclass(frozen=True, kw_only=True)
class AnomaliesOptions(PageOptions, DataFolder):
    seeds: Annotated[int, Range(1, 1000)] = option(5, "fits of each random detector (default 5)")


@command(
    help="the anomaly detector, compared with others",
    description="Select settings of HadamRNNDetector and of other detectors on one part of the Skoltech "
    "Anomaly Benchmark, and measure them on all of it.",
    examples=("hadamrnn bench anomalies --out docs/anomalies.md",),
)
def run_anomalies(args: AnomaliesOptions) -> None:
    from hadamrnn_benchmarks import anomalies

    check_output("--out", args.out, anomalies.TITLE)
    rows, constant = anomalies.run_anomalies(args.data_dir, seeds=args.seeds)
    publish(args, rows, [], anomalies.anomalies_page(rows, constant))


@dataclass(frozen=True, kw_only=True)
class AlarmsOptions(PageOptions, DataFolder):
    """The alarms benchmark has no options."""


@command(
    help="false alarms of tuned decisions on new recordings",
    description="Train networks on recordings of people and of words, tune decisions for several rates of "
    "false alarms on some recordings, and measure them on others.",
    examples=("hadamrnn bench alarms --out docs/alarms.md",),
)
def run_alarms(args: AlarmsOptions) -> None:
    from hadamrnn_benchmarks import alarms

    check_output("--out", args.out, alarms.TITLE)
    rows = alarms.run_alarms(args.data_dir)
    publish(args, rows, [], alarms.alarms_page(rows))


@dataclass(frozen=True, kw_only=True)
class VibrationOptions(PageOptions, DataFolder):
    seeds: Annotated[int, Range(1, 1000)] = option(5, "networks of the default recipe (default 5)")
    raw_seeds: Annotated[int, Range(0, 1000)] = option(
        1, "networks that read raw samples, which takes minutes each (default 1)"
    )


@command(
    help="accuracy for faults of bearings at loads absent from training",
    description="Train networks on vibration of MFPT's bearings, from the folder mfpt of the data folder: "
    "compare the default recipe with others at the training loads, and with other methods at the test loads.",
    examples=("hadamrnn bench vibration --out docs/vibration.md",),
)
def run_vibration(args: VibrationOptions) -> None:
    from hadamrnn_benchmarks import vibration

    check_output("--out", args.out, vibration.TITLE)
    rows = vibration.run_vibration(args.data_dir, seeds=args.seeds, raw_seeds=args.raw_seeds)
    publish(args, rows, [], vibration.vibration_page(rows))


@dataclass(frozen=True, kw_only=True)
class KeywordsOptions(PageOptions, DataFolder):
    pass


@command(
    help="accuracy for keywords with the integer front end and with float64",
    description="Recognise the raw test clips of Google-12 with the bundled keyword networks, using the "
    "front end in integers and in float64.",
    examples=("hadamrnn bench keywords --out docs/keywords.md",),
)
def run_keywords(args: KeywordsOptions) -> None:
    from hadamrnn_benchmarks import keywords

    check_output("--out", args.out, keywords.TITLE)
    rows = keywords.run_keywords(args.data_dir)
    publish(args, rows, [], keywords.keywords_page(rows))


@dataclass(frozen=True, kw_only=True)
class CountOptions(JsonOption):
    networks: Annotated[int, Range(1, 1000)] = option(40, "networks to draw (default 40)")


@command(
    help="estimated instructions of a step, compared with counted ones",
    description="Make random networks that the estimate was not fitted to, and count their instructions in "
    "an emulator of a Cortex-M4.",
    examples=("hadamrnn bench instructions --networks 40",),
)
def run_instructions(args: CountOptions) -> None:
    from hadamrnn_benchmarks import instructions

    rows = instructions.run_instructions(args.networks)
    lines = [f"{row.estimated:9,} {row.counted:9,} {row.error:+7.1%}  {row.network}" for row in rows]
    args.show({"rows": [asdict(row) for row in rows]}, *lines, instructions.summary(rows))


@dataclass(frozen=True, kw_only=True)
class RegressionOptions(PageOptions, DataFolder):
    seeds: Annotated[int, Range(1, 1000)] = option(3, "fits of each set (default 3)")


@command(
    help="the regressor, compared with a ridge regression on simple features",
    description="Fit HadamRNNRegressor, and a ridge regression on mean, last value and trend of each "
    "channel, to sets of series with values.",
    examples=("hadamrnn bench regression --out docs/regression.md",),
)
def run_regression(args: RegressionOptions) -> None:
    from hadamrnn_benchmarks import regression

    check_output("--out", args.out, regression.TITLE)
    rows = regression.run_regression(args.data_dir, seeds=args.seeds)
    publish(args, rows, [], regression.regression_page(rows, args.seeds))


run = Command(
    None,
    help="measure training, inference, devices, instructions, estimators, regression, archive, anomalies, "
    "alarms, vibration, keywords, reading, fitting",
    description="Check the library's claims by measuring on this machine.",
    examples=("hadamrnn bench training --shapes mnist copy --json",),
    parts={
        "training": run_training,
        "inference": run_inference,
        "edge": run_edge,
        "estimators": run_estimators,
        "archive": run_archive,
        "anomalies": run_anomalies,
        "alarms": run_alarms,
        "vibration": run_vibration,
        "keywords": run_keywords,
        "instructions": run_instructions,
        "regression": run_regression,
        "reading": run_reading,
        "fitting": run_fitting,
    },
)

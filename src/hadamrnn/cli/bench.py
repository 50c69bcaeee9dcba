"""`hadamrnn bench training`: the engine beside the plain loop, in time and memory."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from hadamrnn.cli.arguments import JsonOption, Rounds, add_command, new_parser
from hadamrnn.cli.bench_estimators import add_estimators
from hadamrnn.cli.bench_inference import add_edge, add_inference
from hadamrnn.network import MAX_SIZE
from hadamrnn.settings import Range, Threads, option

if TYPE_CHECKING:
    from hadamrnn.bench.training import TrainingRow


def add_parser(subparsers: Any) -> None:
    parser = new_parser(
        subparsers,
        "bench",
        help="measure training, inference, devices or estimators",
        description="Measure what the library claims, on this machine.",
        examples=("hadamrnn bench training --shapes mnist copy --json",),
    )
    benches = parser.add_subparsers(dest="bench", metavar="WHAT", required=True)
    add_training(benches)
    add_inference(benches)
    add_edge(benches)
    add_estimators(benches)


def add_training(benches: Any) -> None:
    add_command(
        benches,
        "training",
        TrainingOptions,
        run,
        help="forward, backward and Adam, against a dense loop",
        description="Time a training step of the engine and of the plain dense loop, in turns.",
        examples=(
            "hadamrnn bench training --shapes mnist copy --rounds 5 --json",
            "hadamrnn bench training --model all --hidden-size 128",
        ),
    )


@dataclass(frozen=True, kw_only=True)
class TrainingOptions(JsonOption):
    shapes: tuple[str, ...] = option(
        (), "mnist, copy, imdb, relu, block, pooled, leaky, stack (default: all)"
    )
    rounds: Rounds = option(5, "rounds of both sides; the median counts (default 5)")
    threads: Threads = option(2, "threads of both sides (default 2)")
    data_dir: str | None = option(None, "where IMDB is looked for (default: HADAMRNN_DATA)")
    no_memory: bool = option(False, "leave peak memory out, which takes new processes")
    model: tuple[str, ...] = option((), "instead: compare kinds of network with HadamRNN, or all")
    hidden_size: Annotated[int, Range(1, MAX_SIZE)] = option(
        128, "d_h of all networks of --model (default 128)"
    )
    scaling: bool = option(False, "instead: time against length and hidden size")
    out: Path = option(Path("scaling.svg"), "the plot of --scaling (default scaling.svg)")


def run(args: TrainingOptions) -> None:
    if args.model:
        _run_models(args)
        return
    if args.scaling:
        from hadamrnn.bench.scaling import run_scaling

        points = run_scaling(str(args.out), threads=args.threads, rounds=args.rounds)
        if args.json:
            print(json.dumps({"plot": str(args.out), "points": [asdict(point) for point in points]}))
            return
        for point in points:
            print(
                f"{point.series:12} {point.size:>9}  {point.milliseconds:10.2f} ms  {point.megabytes:8.1f} MB"
            )
        print(f"wrote {args.out}")
        return
    from hadamrnn.bench.training import SHAPES, run_shapes

    rows = run_shapes(
        list(args.shapes or SHAPES),
        rounds=args.rounds,
        threads=args.threads,
        data_dir=args.data_dir,
        memory=not args.no_memory,
    )
    if args.json:
        print(json.dumps({"rows": [asdict(row) for row in rows]}))
        return
    print(
        f"{'shape':8} {'plain':>12} {'engine':>12} {'ratio':>8} {'wanted':>7} {'loop adds':>10} "
        f"{'plain':>10} {'engine':>10}"
    )
    for row in rows:
        print(_line(row))


def _run_models(args: TrainingOptions) -> None:
    from hadamrnn.bench.kinds import run_models

    rows = [
        row
        for shape in args.shapes or ["mnist"]
        for row in run_models(
            list(args.model),
            shape,
            hidden_size=args.hidden_size,
            rounds=args.rounds,
            threads=args.threads,
            data_dir=args.data_dir,
        )
    ]
    if args.json:
        print(json.dumps({"rows": [asdict(row) for row in rows]}))
        return
    print(f"{'shape':8} {'model':18} {'step':>12} {'HadamRNN = 1':>14}")
    for row in rows:
        print(f"{row.shape:8} {row.model:18} {row.milliseconds:9.1f} ms {row.ratio:14.1f}")


def _line(row: TrainingRow) -> str:
    memory = [
        f"{value:7.1f} MB" if value is not None else f"{'-':>10}" for value in (row.plain_mb, row.engine_mb)
    ]
    return (
        f"{row.shape:8} {row.plain_ms:9.1f} ms {row.engine_ms:9.2f} ms {row.ratio:8.1f} {row.wanted:7.0f} "
        f"{100 * row.loop_share:8.1f} % "
        f"{memory[0]} {memory[1]}"
    )

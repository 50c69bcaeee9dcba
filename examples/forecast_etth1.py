"""The next 96 hours of a transformer's loads and temperature, by the protocol of the forecasting papers.

    python examples/forecast_etth1.py

fits `HadamRNNForecaster` to ETTh1 (looked for in HADAMRNN_DATA, else downloaded): 12 months for training, the
next 4 for choosing settings, the last 4 for the test; seven channels, errors in standard deviations over the
training months. It prints

    forecast                      mean error^2  mean |error|   bytes
    last value                           1.294         0.713
    the day before                       0.512         0.433
    HadamRNN, mean of 5                  0.387         0.397
    in integers, mean of 5               0.388         0.397   4,977
    SegRNN, published                    0.368
    FITS, published                      0.372
    CycleNet, published                  0.378
    iTransformer, published              0.386
    DLinear, published                   0.386

The published ones are networks in floats, and some of them look further back than 96 hours. Units, bits, leak
and penalties were chosen by the error on the months for choosing (`--validation`), within 5,000 bytes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hadamrnn import HadamRNNForecaster, InputError, read_ett

PAST, NEXT, DAY = 96, 96, 24
ENDS = tuple(months * 30 * DAY for months in (12, 16, 20))  # of training, validation and test
# Mean squared errors at this horizon, as their repositories state them.
PUBLISHED = {"SegRNN": 0.368, "FITS": 0.372, "CycleNet": 0.378, "iTransformer": 0.386, "DLinear": 0.386}
Floats = NDArray[np.float64]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Forecast a transformer's loads and temperature.")
    parser.add_argument("--data-dir", help="where ETTh1 is looked for (default HADAMRNN_DATA)")
    parser.add_argument("--seeds", type=int, default=5, help="networks to draw (default 5)")
    parser.add_argument(
        "--validation", action="store_true", help="show the months for choosing, not the test"
    )
    args = parser.parse_args(argv)
    if args.seeds < 1:
        raise InputError(f"--seeds must be at least 1, got {args.seeds}.")

    hours = read_ett("ETTh1", args.data_dir).astype(np.float64)
    train = hours[: ENDS[0]]
    past, future = windows(hours, *(ENDS[:2] if args.validation else ENDS[1:]))
    print(f"{'forecast':<28}{'mean error^2':>14}{'mean |error|':>14}{'bytes':>8}")

    def show(name: str, forecasts: list[Floats], size: str = "") -> None:
        errors = [(forecast - future) / train.std(0) for forecast in forecasts]
        squared, absolute = ([float(f(error).mean()) for error in errors] for f in (np.square, np.abs))
        print(f"{name:<28}{np.mean(squared):>14.3f}{np.mean(absolute):>14.3f}{size:>8}".rstrip())

    show("last value", [np.repeat(past[:, -1:], NEXT, axis=1)])
    show("the day before", [np.tile(past[:, -DAY:], (1, NEXT // DAY, 1))])
    fitted = [
        HadamRNNForecaster(NEXT, lookback=PAST, random_state=seed).fit(train) for seed in range(args.seeds)
    ]
    size = f"{fitted[0].cost_.bytes:,}"
    show(f"HadamRNN, mean of {args.seeds}", [forecaster.predict(past) for forecaster in fitted])
    show(f"in integers, mean of {args.seeds}", [each.predict_integer(past) for each in fitted], size)
    for name, squared in PUBLISHED.items():
        print(f"{name + ', published':<28}{squared:>14.3f}")
    return 0


def windows(hours: Floats, start: int, end: int) -> tuple[Floats, Floats]:
    """Return the past `(n, 96, 7)` and the next hours `(n, 96, 7)` of every forecast within start to end."""
    rows = np.lib.stride_tricks.sliding_window_view(hours[start - PAST : end], PAST + NEXT, axis=0)
    rows = rows.transpose(0, 2, 1)
    return rows[:, :PAST], rows[:, PAST:]


if __name__ == "__main__":
    try:
        sys.exit(main())
    except InputError as error:
        print(f"{Path(__file__).name}: {error}", file=sys.stderr)
        sys.exit(2)

"""Random reservoirs, and a second implementation of their arithmetic in plain Python numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hadamrnn.reservoir import Features, Group, IntegerReservoir, Reservoir, Units


def draw_network(rng: np.random.Generator, **given: Any) -> Reservoir:
    """Return a description with several groups of all sorts."""
    groups = tuple(
        Group(
            width=1 << int(rng.integers(0, 5)),
            dilation=1 << int(rng.integers(0, 4)),
            is_difference=bool(rng.integers(2)),
            segments=int(rng.choice([1, 3])),
            input_shift=int(rng.integers(0, 9)),
            blocks=int(rng.integers(1, 4)),
        )
        for _ in range(rng.integers(1, 5))
    )
    values = {
        "input_size": int(rng.integers(1, 4)),
        "output_size": int(rng.integers(1, 5)),
        "weight_bits": int(rng.integers(2, 9)),
        "input_bits": int(rng.integers(2, 17)),
        "seq_length": int(rng.integers(1, 80)),
    }
    return Reservoir(**{**values, "groups": groups, **given})


def draw_units(rng: np.random.Generator, network: Reservoir) -> Units:
    blocks, units = network.num_blocks, network.hidden_size
    return Units(
        network,
        rng.integers(0, network.input_size, blocks),
        rng.choice([-1, 1], units),
        rng.integers(-8, 8, units),
    )


def draw_features(rng: np.random.Generator, network: Reservoir, most: int = 3) -> Features:
    unit = np.repeat(np.arange(network.hidden_size), rng.integers(0, most + 1, network.hidden_size))
    segments = np.repeat([group.segments for group in network.groups], [g.units for g in network.groups])
    spread = rng.choice([30, 1000, 30000], len(unit))
    return Features(
        network,
        unit,
        (rng.normal(size=len(unit)) * spread).clip(-(1 << 15), (1 << 15) - 1).astype(int),
        rng.integers(0, segments[unit]),
    )


def draw_codes(rng: np.random.Generator, network: Reservoir, n: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return codes of small, large and extreme series, and their lengths."""
    high = 1 << network.input_bits - 1
    time = network.seq_length
    scale = rng.choice([high / 8, high / 2, 4 * high], (n, 1, 1))
    x = (rng.normal(size=(n, time, network.input_size)) * scale).astype(int)
    x[:: max(n // 2, 1)] = np.where(rng.integers(0, 2, (1, time, network.input_size)), high - 1, -high)
    return x, rng.integers(0, time + 1, n)


def draw_reservoir(rng: np.random.Generator, *, raw: bool = True, **given: Any) -> IntegerReservoir:
    """Return a complete network; with `raw` it encodes raw codes, some of them compressed."""
    network = draw_network(rng, **given)
    features = draw_features(rng, network)
    half = 1 << network.weight_bits - 1
    inputs = network.input_size
    encoding: Any = {
        "raw_offset": rng.integers(-100, 100, inputs),
        "raw_multiplier": rng.integers(1, 0xFFFF, inputs),
        "raw_shift": rng.integers(8, 20, inputs),
    }
    if raw and rng.integers(2):
        encoding["raw_knee"] = rng.integers(0, 5, inputs)
    return IntegerReservoir(
        network,
        draw_units(rng, network),
        features,
        rng.integers(0, 16, len(features)),
        rng.integers(-half, half, (network.output_size, len(features))),
        rng.integers(-(1 << 15), 1 << 15, network.output_size),
        int(rng.integers(0, 12)),
        input_scale=2.0,
        logit_scale=0.001,
        **(encoding if raw else {}),
        metadata={"class_names": '["no", "yes"]'} if network.output_size <= 2 else {},
    )


def plain_logits(model: IntegerReservoir, x: NDArray[Any], length: int) -> list[int]:
    """Return the logits of one series of codes within input_bits."""
    network, features = model.network, model.features
    counts = plain_counts(model.units, features, x, length)
    logits = [int(bias) << model.output_bias_shift for bias in model.output_bias_int]
    group_of = np.repeat(np.arange(len(network.groups)), [group.units for group in network.groups])
    for f, count in enumerate(counts):
        group = network.groups[group_of[features.unit[f]]]
        whole = network.seq_length // group.width - group.start
        numbers = range(max(length // group.width - group.start, 0))
        thirds = [3 * n // whole if group.segments == 3 else 0 for n in numbers]
        rate = 2**30 // max(thirds.count(int(features.segment[f])), 1)
        shift = 15 + int(model.exponents[f])
        code = (2 * count * rate + 2**shift) // 2 ** (shift + 1)
        for k in range(network.output_size):
            logits[k] += code * int(model.output_weight_int[k, f])
    return logits


def plain_counts(units: Units, features: Features, x: NDArray[Any], length: int) -> list[int]:
    """Return the counts of one series `(time, channels)` of codes within input_bits."""
    network = units.network
    counts = [0] * len(features)
    unit = 0
    for group in network.groups:
        m, d = group.width, group.dilation
        v = [
            [
                (2 * sum(x[j * m + i, c].item() for i in range(m)) + m) // (2 * m)
                for c in range(network.input_size)
            ]
            for j in range(length // m)
        ]
        whole = network.seq_length // m - group.start
        states: dict[int, list[int]] = {}
        for j in range(group.start, len(v)):
            u = [a - b for a, b in zip(v[j], v[j - d], strict=True)] if group.is_difference else v[j]
            before, states[j] = states.get(j - d, [0] * group.units), []
            third = 3 * (j - group.start) // whole if group.segments == 3 else 0
            for i in range(group.units):
                total = sum(
                    (-1) ** bin(i % 8 & k).count("1")
                    * int(units.signs[unit + i - i % 8 + k])
                    * before[i - i % 8 + k]
                    for k in range(8)
                )
                block = (unit + i) // 8
                weight = int(units.input_weight_int[unit + i]) << group.input_shift
                a = (total + 2) // 4 + weight * u[units.channel[block]]
                states[j].append(min(max(a, -(1 << 15)), (1 << 15) - 1))
            for f in range(len(features)):
                own = features.unit[f] - unit
                if 0 <= own < group.units and features.segment[f] == third:
                    counts[f] += states[j][own] > features.threshold[f]
        unit += group.units
    return counts

"""Why Hadamard's structure matters: binary recurrent weights with and without it, on the copy task.

    python -m hadamrnn.paper.naive_binary --delay 100 --steps 500

All contenders have the same hidden size, steps, batches and grid of learning rates. Each takes the rate with
the best validation; the test set is read once, at that rate. Start at `compare`.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from hadamrnn.baselines.orthogonal import NaiveBinaryRNN
from hadamrnn.data import Splits, load_task
from hadamrnn.files import write_atomically
from hadamrnn.nn.model import SequenceModel
from hadamrnn.training.config import resolve_config
from hadamrnn.training.evaluate import evaluate
from hadamrnn.training.loop import fit
from hadamrnn.training.models import build
from hadamrnn.training.trainer import Diverged

HELD_OUT = 500  # samples of validation and of test
RATES = (1e-2, 3e-3, 1e-3, 3e-4)
# The signs of HadamRNN are held at their random start, as in its best recipe for this task.
CONTENDERS = {
    "HadamRNN, held signs": ("hadamrnn", True),
    "naive binary, learnt signs": ("naive_binary_rnn", False),
    "naive binary, held signs": ("naive_binary_rnn", True),
}


@dataclass(frozen=True)
class Contest:
    """What all contenders have in common."""

    delay: int = 100
    steps: int = 500
    hidden_size: int = 128
    batch_size: int = 64
    weight_bits: int = 4
    gradient_clip: float = 1.0
    seed: int = 0


@dataclass(frozen=True)
class RateTrial:
    """One run; `validation` is None if it diverged."""

    learning_rate: float
    validation: float | None
    diverged: str | None


@dataclass(frozen=True)
class Contender:
    """A contender at its best learning rate; the test cross-entropy is None if every rate diverged."""

    name: str
    learning_rate: float | None
    test: float | None
    trials: tuple[RateTrial, ...]


def compare(
    budget: Contest, rates: Sequence[float] = RATES, tell: Callable[[str], None] = lambda line: None
) -> list[Contender]:
    """Train every contender and return the outcomes."""
    train_size = budget.steps * budget.batch_size
    splits = load_task(
        "copy", delay=budget.delay, train_size=train_size, validation_size=HELD_OUT, test_size=HELD_OUT
    )
    return [_best(name, splits, budget, rates, tell) for name in CONTENDERS]


def guessing(delay: int, sentence_length: int = 10) -> float:
    """Return the cross-entropy of a network that knows when to answer but not what.

    >>> round(guessing(1000), 4)
    0.0204
    """
    return sentence_length * math.log(8) / (delay + 2 * sentence_length)


def _best(
    name: str, splits: Splits, budget: Contest, rates: Sequence[float], tell: Callable[[str], None]
) -> Contender:
    trials, best, best_model = [], None, None
    for rate in rates:
        trial, model = _try(name, splits, budget, rate)
        figure = f"diverged ({trial.diverged})" if trial.validation is None else f"{trial.validation:.2e}"
        tell(f"{name}, learning rate {rate:g}: {figure}")
        trials.append(trial)
        better = trial.validation is not None and (best is None or trial.validation < (best.validation or 0))
        if better:
            best, best_model = trial, model
    test = None if best_model is None else evaluate(best_model, splits.test, splits.metric)
    return Contender(name, None if best is None else best.learning_rate, test, tuple(trials))


def _try(name: str, splits: Splits, budget: Contest, rate: float) -> tuple[RateTrial, SequenceModel | None]:
    model_name, held = CONTENDERS[name]
    settings = {name: value for name, value in asdict(budget).items() if name != "delay"}
    settings |= {"model": model_name, "learning_rate": rate, "evaluate_every": max(1, budget.steps // 4)}
    config = resolve_config("copy", preset="quick", overrides=settings)
    model = build(config, splits)
    if held and isinstance(model.recurrent, NaiveBinaryRNN):
        model.recurrent.latent_signs.requires_grad_(False)
    try:
        outcome = fit(model, splits, config)
    except Diverged as error:
        return RateTrial(rate, None, str(error)), None
    return RateTrial(rate, outcome.best_metric, None), outcome.model


def write(budget: Contest, contenders: Sequence[Contender], folder: Path) -> Path:
    """Write the comparison as JSON and return its path."""
    path = folder / f"naive_binary.copy{budget.delay}.json"
    values = {
        "format": "hadamrnn comparison",
        "version": 1,
        "budget": asdict(budget),
        "guessing": guessing(budget.delay),
        "contenders": [asdict(contender) for contender in contenders],
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(path, (json.dumps(values, indent=1) + "\n").encode())
    return path


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Binary recurrent weights with and without Hadamard's structure."
    )
    parser.add_argument("--delay", type=int, default=Contest.delay)
    parser.add_argument("--steps", type=int, default=Contest.steps)
    parser.add_argument("--rates", type=float, nargs="+", default=RATES)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder of the figures")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    budget = Contest(delay=args.delay, steps=args.steps)
    contenders = compare(budget, args.rates, print)
    print(f"guessing: {guessing(budget.delay):.2e}")
    for each in contenders:
        print(
            f"{each.name}: {'diverged' if each.test is None else f'{each.test:.2e}'} at {each.learning_rate}"
        )
    print(f"wrote {write(budget, contenders, args.out)}")


if __name__ == "__main__":
    main()

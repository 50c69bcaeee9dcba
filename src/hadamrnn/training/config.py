"""What a training run is, in one frozen dataclass, and where its values come from.

Sources, later ones win: a preset, a YAML file, the command line. `resolve_config` joins them.
Nothing here imports torch: the command line reads the fields to make its options.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from hadamrnn.errors import InputError
from hadamrnn.files import parse_yaml, read_regular
from hadamrnn.network import Network, network_values, option, read_network
from hadamrnn.training.presets import DEFAULT_PRESET, bits_values, model_values, preset_values

DECAYS = ("none", "exponential", "cosine")
DTYPES = ("float32", "float64")
MAX_YAML_BYTES = 1 << 16


@dataclass(frozen=True)
class TrainingConfig:
    """One run: a task, a network and a recipe. `epochs` or `steps` says how long it is.

    The task completes the network (its inputs and outputs) when the data is there.

    >>> make_config(task="digits", epochs=3, hidden_size=64).network.hidden_size
    64
    """

    task: str
    network: Network = field(default_factory=Network)
    preset: str | None = option(None, "where the values started from: paper, quick or best")
    task_options: dict[str, Any] = field(default_factory=dict)
    embedding_size: int | None = option(None, "width of the embedding; none takes the task's")
    epochs: int | None = option(None, "passes through the training set")
    steps: int | None = option(None, "optimizer steps, in place of epochs")
    evaluate_every: int | None = option(None, "steps between validations; none is once an epoch")
    batch_size: int = option(64, "samples a step and process")
    balanced: bool = option(False, "draw every class equally often")
    learning_rate: float = option(1e-3, "of Adam, at the start")
    decay: str = option("cosine", "of the learning rate: none, exponential (by the epoch) or cosine")
    decay_factor: float = option(0.98, "of the exponential decay, for each epoch")
    adam_beta2: float = option(0.999, "Adam's memory of squared gradients; less where the loss falls fast")
    sign_learning_rate: float | None = option(None, "of the signs; none is the learning rate")
    sign_freeze_epoch: float | None = option(None, "when signs stop: 0 holds them, none never")
    negative_signs: float | None = option(
        None, "share of the signs that start at -1; none draws every one. 0 makes W its own inverse"
    )
    input_noise: float = option(0.0, "standard deviation of what is added to numbers, anew in each step")
    input_dropout: float = option(0.0, "share of the input (numbers, or embedded words) that a step hides")
    embedding_scale: float = option(1.0, "standard deviation of the embedding at the start")
    gradient_clip: float | None = option(None, "largest norm of the gradient; none does not clip")
    weight_clip: float | None = option(
        None, "largest entry of U and of V, in root mean squares of its matrix; none does not clip"
    )
    weight_average: float | None = option(
        None, "keep an exponential average of the weights with this factor a step, as 0.999"
    )
    patience: int | None = option(
        None, "validations without progress that end the run, counted once a cosine has fallen; none never"
    )
    tolerance: float = option(0.0, "what the validation metric must gain to count as progress")
    seed: int = option(0, "of initial weights, order of samples and dropout")
    dtype: str = option("float32", "float32 or float64")
    threads: int | None = option(None, "CPU threads of each process; none is torch's choice")

    def __post_init__(self) -> None:
        for name, hint in _hints(TrainingConfig).items():
            object.__setattr__(self, name, coerce(name, getattr(self, name), hint))
        if (self.epochs is None) == (self.steps is None):
            raise InputError(
                f"Exactly one of epochs and steps must be given, got {self.epochs} and {self.steps}."
            )
        counts = ("epochs", "steps", "evaluate_every", "batch_size", "threads", "embedding_size", "patience")
        for name in counts:
            _check(name, getattr(self, name), lambda value: value >= 1, "at least 1")
        for name in ("learning_rate", "decay_factor", "gradient_clip", "embedding_scale"):
            _check(name, getattr(self, name), lambda value: 0 < value < float("inf"), "positive")
        _check("weight_clip", self.weight_clip, lambda value: 1 < value < float("inf"), "above 1")
        for name in ("sign_learning_rate", "sign_freeze_epoch", "input_noise", "tolerance"):
            _check(name, getattr(self, name), lambda value: 0 <= value < float("inf"), "0 or more")
        for name in ("weight_average", "adam_beta2"):
            _check(name, getattr(self, name), lambda value: 0 < value < 1, "between 0 and 1")
        _check("input_dropout", self.input_dropout, lambda value: 0 <= value < 1, "at least 0 and under 1")
        _check("negative_signs", self.negative_signs, lambda value: 0 <= value <= 1, "in 0..1")
        _check("seed", self.seed, lambda value: 0 <= value < 2**32, "in 0..2**32 - 1")
        _check("decay", self.decay, lambda value: value in DECAYS, f"one of {', '.join(DECAYS)}")
        _check("dtype", self.dtype, lambda value: value in DTYPES, f"one of {', '.join(DTYPES)}")


def _check(name: str, value: Any, holds: Any, rule: str) -> None:
    if value is not None and not holds(value):
        raise InputError(f"{name} must be {rule}, got {value!r}.")


def _hints(kind: type) -> dict[str, Any]:
    """Return the type of every field, in order."""
    return typing.get_type_hints(kind)


def _options(kind: type) -> dict[str, dataclasses.Field[Any]]:
    return {each.name: each for each in dataclasses.fields(kind) if "help" in each.metadata}


# What a user may set, by name: the recipe's settings, then the network's. Presets, YAML files, the command
# line and results name them side by side.
OPTIONS: dict[str, dataclasses.Field[Any]] = {**_options(TrainingConfig), **_options(Network)}
NETWORK_NAMES = (*_options(Network), "model_options")
SETTINGS = ("task", "task_options", "model_options", *OPTIONS)
_HINTS = {**_hints(TrainingConfig), **_hints(Network)}


def make_config(**values: Any) -> TrainingConfig:
    """Return the configuration of these settings, the network's among them.

    `network` may hold a whole description, as in config.yaml; single settings win over it.

    >>> make_config(task="copy", steps=10, weight_bits="ternary").network.weight_bits
    'ternary'
    """
    check_names(values)
    described = values.pop("network", None)
    chosen = {name: values.pop(name) for name in NETWORK_NAMES if name in values}
    for name in chosen.keys() & OPTIONS.keys():
        chosen[name] = coerce(name, chosen[name], _HINTS[name])
    network = Network() if described is None else read_network(described)
    return TrainingConfig(network=replace(network, **chosen), **values)


def config_values(config: TrainingConfig) -> dict[str, Any]:
    """Return every setting by name, the network's among the others: what `make_config` takes."""
    values = dataclasses.asdict(config)
    network = values.pop("network")
    return {**{name: network[name] for name in NETWORK_NAMES}, **values}


def resolve_config(
    task: str | None = None,
    *,
    preset: str | None = None,
    file: str | Path | None = None,
    overrides: Mapping[str, object] | None = None,
) -> TrainingConfig:
    """Return the configuration that a preset, a YAML file and single values make, in this order.

    A preset is a recipe for HadamRNN; `bits_values` says what few bits change in it, `model_values` what
    another kind of network does.

    >>> resolve_config("pmnist", preset="paper", overrides={"epochs": 2}).batch_size
    64
    """
    written = _flat(read_yaml(file)) if file is not None else {}
    single = dict(overrides or {})
    for layer in (written, single):
        check_names(layer)
    named = task or written.get("task")
    if not named:
        raise InputError("A task is needed: name one, or give a configuration file that does.")
    if task and written.get("task") not in (None, task):
        raise InputError(f"{file} is for the task {written['task']}, got {task}. Leave one of them out.")
    chosen = preset or written.get("preset") or DEFAULT_PRESET
    model = str(single.get("model") or written.get("model"))
    recipe = preset_values(str(named), str(chosen))
    bits = {"weight_bits": Network.weight_bits, **recipe, **written, **single}["weight_bits"]
    few_bits = bits_values(str(chosen), bits)
    merged: dict[str, Any] = {}
    for layer in (recipe, few_bits, model_values(model), written, single):
        merged = _join(merged, layer)
    return make_config(**{**merged, "task": named, "preset": chosen})


def _flat(values: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a file side by side; what the task says of the network is left to the task."""
    network = values.get("network") or {}
    if not isinstance(network, Mapping):
        raise InputError(f"network must be names with values, got {network!r}.")
    others = {name: value for name, value in values.items() if name != "network"}
    return {**{name: network[name] for name in NETWORK_NAMES if name in network}, **others}


def _join(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return both, `above` winning; to set epochs unsets steps and the other way round."""
    joined = {**below, **above}
    for name, other in (("epochs", "steps"), ("steps", "epochs")):
        if above.get(name) is not None and above.get(other) is None:
            joined[other] = None
    for name in ("task_options", "model_options"):
        options = [layer.get(name) or {} for layer in (below, above)]
        if not all(isinstance(layer, Mapping) for layer in options):
            raise InputError(f"{name} must be names with values, got {above[name]!r}.")
        joined[name] = {**options[0], **options[1]}
    return joined


def read_yaml(path: str | Path) -> dict[str, Any]:
    """Return the names and values of a YAML file."""
    values = parse_yaml(read_regular(path, MAX_YAML_BYTES).decode(errors="replace"), path)
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise InputError(f"{path} must hold names with values, as in `epochs: 10`, got {values!r:.60}.")
    return {str(name): value for name, value in values.items()}


def read_config(path: str | Path) -> TrainingConfig:
    """Return the configuration that `write_config` wrote."""
    values = read_yaml(path)
    check_names(values)
    if "task" not in values:
        raise InputError(f"{path} must name its task.")
    return make_config(**values)


def config_yaml(config: TrainingConfig) -> bytes:
    """Return the text of a file that `read_config` turns back into `config`."""
    import yaml

    values = {**dataclasses.asdict(config), "network": network_values(config.network)}
    return str(yaml.safe_dump(values, sort_keys=False)).encode()


def check_names(values: Mapping[str, object]) -> None:
    """Refuse names that are no setting."""
    for name in values:
        if name != "network" and name not in SETTINGS:
            nearest = get_close_matches(str(name), SETTINGS, n=1, cutoff=0.0)[0]
            raise InputError(f"There is no setting {name!r}. The nearest valid name is {nearest!r}.")


def parse_value(name: str, text: str) -> object:
    """Return what `text`, from the command line, means for the setting `name`; `none` is None."""
    import yaml

    try:
        value = None if text.lower() == "none" and name != "decay" else yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InputError(f"{name} cannot be read from {text!r}.") from error
    return coerce(name, value, _HINTS[name])


def coerce(name: str, value: object, hint: Any) -> Any:
    """Return `value` as `hint` has it: whole numbers pass as floats, and so does text as in 1e-3.

    >>> coerce("learning_rate", "1e-3", float), coerce("weight_bits", "ternary", int | str | None)
    (0.001, 'ternary')
    """
    kinds = typing.get_args(hint) if isinstance(hint, types.UnionType) else (typing.get_origin(hint) or hint,)
    if type(value) in kinds or (value is None and types.NoneType in kinds):
        return value
    if float in kinds and isinstance(value, (int, str)) and not isinstance(value, bool):
        try:
            return float(value)
        except (ValueError, OverflowError):
            pass
    wanted = " or ".join("none" if kind is types.NoneType else kind.__name__ for kind in kinds)
    raise InputError(f"{name} must be {wanted}, got {value!r}.")

"""Build the configuration of a training run from a preset, a file and single settings.

`resolve_config` joins a preset, a YAML file and the command line, of which later ones win. Nothing here
imports torch, because the command line derives its options from the fields.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

from hadamrnn.architecture import MAX_SIZE, Architecture
from hadamrnn.data.tasks import find_task
from hadamrnn.errors import InputError, check_name, did_you_mean, short
from hadamrnn.files import parse_yaml, read_regular
from hadamrnn.network import HADAMRNN, Network, architecture
from hadamrnn.settings import (
    Count,
    NotNegative,
    Positive,
    Range,
    Seed,
    Share,
    Threads,
    coerce,
    field_types,
    option,
    validate_fields,
)

Between0And1 = Annotated[float, Range(0, 1, "()")]
Dropout = Annotated[float, Range(0, 1, "[)")]
MAX_YAML_BYTES = 1 << 16
ONE_WIDTH = {"hidden_size", "num_layers"}  # setting one of these unsets `layer_sizes`
# Settings that all recipes of a preset share. Only the paper's recipes train the signs: a flip changes every
# power of W and, if position matters, undoes the training of U and V.
COMMON: dict[str, dict[str, Any]] = {
    "paper": {"decay": "exponential"},
    "best": {"sign_freeze_epoch": 0.0},
    "quick": {"sign_freeze_epoch": 0.0},
}
PRESETS = tuple(COMMON)
DEFAULT_PRESET = "quick"
# The grid covers the largest weight. With few grid points and one large weight, most others round to zero.
# pMNIST, 512 units, 2 bits, validation after 8 epochs: 90.7 % without clipping, 94.2 % with it.
FEW_BITS: dict[str, dict[str, Any]] = {
    "ternary": {"weight_clip": 1.5},
    "2": {"weight_clip": 1.5},
    "3": {"weight_clip": 2.0},
}


@dataclass(frozen=True)
class TrainingConfig:
    """The configuration of a run: a task, a network and a recipe, with a length in `epochs` or `steps`.

    Loading the task's data completes the network (its inputs and outputs).

    >>> make_config(task="digits", epochs=3, hidden_size=64).network.hidden_size
    64
    """

    task: str
    network: Architecture = field(default_factory=Network)
    preset: str | None = option(None, "source of the values: paper, quick or best")
    task_options: dict[str, Any] = field(default_factory=dict)
    embedding_size: Annotated[int, Range(1, MAX_SIZE)] | None = option(
        None, "width of the embedding; none uses the task's"
    )
    epochs: Annotated[int, Range(1, 10**6)] | None = option(None, "passes through the training set")
    steps: Count | None = option(None, "optimizer steps, instead of epochs")
    min_steps: Count | None = option(None, "train for more epochs if these have fewer steps")
    evaluate_every: Count | None = option(None, "steps between validations; none validates once per epoch")
    batch_size: Annotated[int, Range(1, 2**20)] = option(64, "samples per step in each process")
    balanced: bool = option(False, "sample every class equally often")
    learning_rate: Positive = option(1e-3, "initial learning rate of Adam")
    decay: Literal["none", "exponential", "cosine"] = option(
        "cosine", "schedule of the learning rate: none, exponential (per epoch) or cosine"
    )
    decay_factor: Positive = option(0.98, "factor of the exponential decay, per epoch")
    adam_beta2: Between0And1 = option(
        0.999, "Adam's beta2, the decay of squared gradients; lower it if the loss falls fast"
    )
    weight_decay: NotNegative = option(0.0, "weight decay of AdamW")
    sign_learning_rate: NotNegative | None = option(
        None, "learning rate of the signs; none uses learning_rate"
    )
    sign_freeze_epoch: NotNegative | None = option(
        None, "epoch at which signs stop learning; 0 freezes them from the start, none never does"
    )
    negative_signs: Share | None = option(
        None, "fraction of signs that start at -1; none makes each sign random; 0 makes W its own inverse"
    )
    input_noise: NotNegative = option(0.0, "standard deviation of noise added to numeric inputs in each step")
    input_dropout: Dropout = option(
        0.0, "fraction of the input (numbers, or embedded words) dropped in each step"
    )
    time_shift: Annotated[int, Range(0, 10**6)] = option(
        0, "largest random shift of a sample in time, in steps"
    )
    time_mask: Annotated[int, Range(0, 10**6)] = option(0, "most consecutive steps to mask")
    channel_mask: Annotated[int, Range(0, MAX_SIZE)] = option(0, "most adjacent channels to mask")
    channel_gain: NotNegative = option(
        0.0, "standard deviation of the logarithm of a random gain for each channel"
    )
    channel_offset: NotNegative | None = option(
        0.0,
        "standard deviation of a random offset for each channel; none lets validation choose between 1, "
        "level_offset 1, and neither (the last two without masked channels)",
    )
    level_offset: NotNegative = option(
        0.0, "standard deviation of a random offset that is the same for all channels"
    )
    class_mixing: Share = option(
        0.0, "largest fraction of another sample of the same class to mix into each sample"
    )
    rotation: NotNegative = option(0.0, "standard deviation, in degrees, of random rotations of each sensor")
    embedding_scale: Positive = option(1.0, "initial standard deviation of the embedding")
    gradient_clip: Positive | None = option(None, "largest norm of the gradient; none does not clip")
    weight_clip: Annotated[float, Range(1, 3e38, "(]")] | None = option(
        None, "largest entry of U and of V, relative to the matrix's root mean square; none does not clip"
    )
    weight_average: Between0And1 | None = option(
        None, "use an exponential average of the weights, with this factor per step, such as 0.999"
    )
    keep: Literal["best", "last"] = option("best", "final weights: best by validation, or last")
    patience: Count | None = option(
        None,
        "stop after this many validations without progress (with a cosine, only near its end); none: never",
    )
    tolerance: NotNegative = option(0.0, "least gain of the validation metric that counts as progress")
    seed: Seed = option(0, "seed of initial weights, order of samples and dropout")
    dtype: Literal["float32", "float64"] = option("float32", "float32 or float64")
    threads: Threads | None = option(None, "CPU threads of each process; none lets torch choose")

    def __post_init__(self) -> None:
        validate_fields(self)
        if (self.epochs is None) == (self.steps is None):
            raise InputError(
                f"Exactly one of epochs and steps must be given, got {self.epochs} and {self.steps}."
            )


def _options(kind: type) -> dict[str, dataclasses.Field[Any]]:
    return {each.name: each for each in dataclasses.fields(kind) if "help" in each.metadata}


# All settings of a user by name: the recipe's, then the network's. Presets, YAML files, the command line
# and results list them together, with the kind of network as `model`.
OPTIONS: dict[str, dataclasses.Field[Any]] = {**_options(TrainingConfig), **_options(Network)}
SETTINGS = ("task", "task_options", *_options(TrainingConfig))
SETTING_TYPES = {**field_types(TrainingConfig), **field_types(Network)}


def make_config(**values: Any) -> TrainingConfig:
    """Build the configuration from these settings, including the network's, as in config.yaml.

    >>> make_config(task="copy", steps=10, weight_bits="ternary").network.weight_bits
    'ternary'
    """
    recipe = {name: values.pop(name) for name in SETTINGS if name in values}
    network = network_of(str(values.pop("model", HADAMRNN)), values)
    return TrainingConfig(network=network, **{"task": None, **recipe})


def network_of(model: str, values: Mapping[str, Any]) -> Architecture:
    """Return a network of this kind with these settings; a single width replaces `layer_sizes`.

    >>> network_of("hadamrnn", {"hidden_size": 64}).hidden_size
    64
    """
    kind = architecture(model)
    own, types = _options(kind), field_types(kind)
    for name in values:
        if name not in own:
            owner = f" of {kind.kind} networks" if name in OPTIONS or kind is not Network else ""
            hint = did_you_mean(name, (*SETTINGS, *own))
            raise InputError(f"There is no setting {short(name)}{owner}.{hint}")
    chosen = {name: coerce(name, value, types[name]) for name, value in values.items()}
    if "layer_sizes" in own and chosen.keys() & ONE_WIDTH:
        chosen.setdefault("layer_sizes", ())
    return kind(**chosen)


def config_values(config: TrainingConfig) -> dict[str, Any]:
    """Return all settings by name, including the network's, as JSON values for `make_config`."""
    values, network = dataclasses.asdict(config), config.network
    chosen = {name: values["network"][name] for name in _options(type(network))}
    del values["network"]
    settings = {"model": network.kind, **chosen, **values}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in settings.items()}


def resolve_config(
    task: str | None = None,
    *,
    preset: str | None = None,
    file: str | Path | None = None,
    overrides: Mapping[str, object] | None = None,
) -> TrainingConfig:
    """Build a configuration from a preset, a YAML file and single values, of which later ones win.

    A preset is a recipe for Hadamard networks. `bits_values` changes it for few bits, and another kind of
    network makes its own changes.

    >>> resolve_config("pmnist", preset="paper", overrides={"epochs": 2}).batch_size
    64
    """
    written = read_yaml(file) if file is not None else {}
    single = dict(overrides or {})
    _check_widths(single)
    named = task or written.get("task")
    if not named:
        raise InputError("A task is needed: name one, or give a configuration file that does.")
    if task and written.get("task") not in (None, task):
        raise InputError(f"{file} is for the task {written['task']}, got {task}. Leave one of them out.")
    chosen = preset or written.get("preset") or DEFAULT_PRESET
    kind = architecture(str(single.get("model") or written.get("model") or HADAMRNN))
    options: dict[str, Any] = {}
    for source in (written, single):
        options.update(coerce("task_options", source.get("task_options") or {}, dict[str, Any]))
    recipe = preset_values(str(named), str(chosen), options)
    bits = {"weight_bits": Network.weight_bits, **recipe, **written, **single}["weight_bits"]
    few_bits = bits_values(str(chosen), bits)
    merged: dict[str, Any] = {}
    for layer in (recipe, few_bits, kind.recipe):
        merged = _join(merged, layer)
    lacking = _options(Network).keys() - _options(kind).keys()
    merged = {name: value for name, value in merged.items() if name not in lacking}
    for layer in (written, single):
        merged = _join(merged, layer)
    return make_config(**{**merged, "task": named, "preset": chosen, "model": kind.kind})


def preset_values(
    task: str, preset: str, options: Mapping[str, Any] = MappingProxyType({})
) -> dict[str, Any]:
    """Return a preset's values for a task; a task without this recipe uses the recipe for arrays.

    Options of the task adapt its recipes, except the paper's.

    >>> preset_values("copy", "paper")["learning_rate"]
    0.0001
    """
    check_name("A preset", preset, PRESETS)
    found = find_task(task)
    recipe = found.recipes[preset] if preset in found.recipes else find_task("npz").recipes[preset]
    adapted = {} if found.adapt is None or preset == "paper" else found.adapt(options)
    return {**COMMON[preset], **recipe, **adapted}


def bits_values(preset: str, weight_bits: object) -> dict[str, Any]:
    """Return the settings to change for weights of few bits; none for the paper's recipes.

    >>> bits_values("best", 2), bits_values("best", 4), bits_values("paper", 2)
    ({'weight_clip': 1.5}, {}, {})
    """
    return {} if preset == "paper" else FEW_BITS.get(str(weight_bits), {})


def _check_widths(settings: Mapping[str, Any]) -> None:
    """Refuse a width or number of layers that contradicts `layer_sizes`."""
    sizes = settings.get("layer_sizes")
    if not isinstance(sizes, list | tuple) or not sizes:
        return
    for name, value in (("hidden_size", sizes[-1]), ("num_layers", len(sizes))):
        if settings.get(name, value) != value:
            raise InputError(
                f"layer_sizes {short(sizes)} gives all widths, got {name} {short(settings[name])} as well. "
                "Leave one of them out."
            )


def _join(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Join two groups of values; `above` wins. Epochs and steps unset each other; both unset min_steps."""
    joined = {**below, **above}
    if "layer_sizes" in below and above.keys() & ONE_WIDTH:
        joined["layer_sizes"] = above.get("layer_sizes", ())
    for name, other in (("epochs", "steps"), ("steps", "epochs")):
        if above.get(name) is not None and above.get(other) is None:
            joined[other] = None
            joined["min_steps"] = above.get("min_steps")
    joined["task_options"] = {**(below.get("task_options") or {}), **(above.get("task_options") or {})}
    return joined


def read_yaml(path: str | Path) -> dict[str, Any]:
    values = parse_yaml(read_regular(path, MAX_YAML_BYTES).decode(errors="replace"), path)
    settings: dict[str, Any] = coerce(str(path), {} if values is None else values, dict[str, Any])
    return settings


def read_config(path: str | Path) -> TrainingConfig:
    """Read a configuration written by `config_yaml`."""
    return make_config(**read_yaml(path))


def config_yaml(config: TrainingConfig) -> bytes:
    """Return the settings as YAML text for `read_config`.

    The network's inputs and outputs come from the task, so they are not settings and are omitted.
    """
    import yaml

    return str(yaml.safe_dump(config_values(config), sort_keys=False)).encode()

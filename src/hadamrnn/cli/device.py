"""Define the options that describe a device and how much of it a network may use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from hadamrnn.cli.arguments import check_unused
from hadamrnn.data.options import Rate
from hadamrnn.settings import Count, Range, option

if TYPE_CHECKING:
    from hadamrnn.fixedpoint.cost import Device
    from hadamrnn.network import Network

Clock = Annotated[float, Range(0, 1e5, "(]")]
CLOCK = 64.0  # in MHz


@dataclass(frozen=True, kw_only=True)
class BudgetOptions:
    """The options for a device's budget; `train` and `search` take the sample rate from the recordings."""

    clock: Clock = option(CLOCK, "budget: MHz of the Cortex-M4 (default 64)")
    max_ram: Count | None = option(None, "budget: bytes of RAM for state, stack and window")
    max_flash: Count | None = option(None, "budget: bytes of flash for code and network")

    def device(self, rate: float | None) -> Device:
        """Return the device for a network that runs this many steps per second."""
        from hadamrnn.fixedpoint.cost import Device

        if rate is None:
            check_unused(self, "without --rate", "clock")
        return Device(rate=rate, clock=self.clock, max_ram=self.max_ram, max_flash=self.max_flash)


@dataclass(frozen=True, kw_only=True)
class DeviceOptions(BudgetOptions):
    """Options for the device that `cost` and `export --report` compare a network with."""

    rate: Rate | None = option(None, "budget: steps of the network per second, for the load of a Cortex-M4")
    window: Count | None = option(None, "budget: steps in a window (default: as in the run, else one hop)")
    hop: Count | None = option(None, "budget: steps from one window to the next (default: half a window)")


BUDGET_FIELDS = tuple(each.name for each in fields(BudgetOptions))
DEVICE_FIELDS = tuple(each.name for each in fields(DeviceOptions))


def device_report(
    options: DeviceOptions, network: Network, step: int | None = None, run: Path | None = None
) -> tuple[dict[str, Any], list[str]]:
    """Return the load of the device as figures and as lines; `step` is a step's counted instructions.

    Without --window and --hop, the windows of `run` are used if it was trained on recordings.
    """
    given = (options.window, options.hop) != (None, None)
    window = options.window or options.hop or 1
    sizes = None if given or run is None else trained_windows(run)
    window, hop = sizes or (window, options.hop or max(window // 2, 1))
    return load_report(options.device(options.rate), network, window, hop, step)


def trained_windows(run: Path) -> tuple[int, int] | None:
    """Return the window and hop, in steps, of a run on recordings; None for other runs."""
    from hadamrnn.data.options import RecordingOptions
    from hadamrnn.files import CONFIG_FILE
    from hadamrnn.streams import window_steps
    from hadamrnn.training.folder import RunFolder

    if not (run / CONFIG_FILE).is_file():  # an integer model file, or a detector
        return None
    config = RunFolder.open(run).config
    if config.task != "recordings":
        return None
    window, hop, _ = window_steps(RecordingOptions.of(config.task_options))
    return window, hop


def load_report(
    device: Device, network: Network, window: int, hop: int, step: int | None = None
) -> tuple[dict[str, Any], list[str]]:
    """Return a device's load as figures and as lines, for windows of `window` steps, `hop` steps apart."""
    from hadamrnn.fixedpoint.cost import Load

    load = Load.of(network, window, hop, step)
    excesses = load.excesses(device)
    figures = {
        "instructions_per_step": round(load.instructions),
        "share": load.share(device),
        "flash": load.flash,
        "ram": load.ram,
        "fits": not excesses,
    }
    how = "estimated" if step is None else "counted"
    return {"device": figures}, [f"device        {load.line(device)} ({how})", *excesses]


def task_device(
    options: BudgetOptions, rate: float | None, task: str, decided: Mapping[str, Any], steps: int
) -> tuple[Device, int, int]:
    """Return the device that a task's data imply, and its window and hop in steps.

    Recordings have `rate` rows per second and the windows of their options, `decided`. For other tasks,
    series of `steps` each are assumed to follow one another.
    """
    from hadamrnn.data.options import RecordingOptions
    from hadamrnn.streams import window_steps

    if task != "recordings":
        return options.device(rate), steps, steps
    read = RecordingOptions.of(decided)
    window, hop, rows = window_steps(read)
    rate = rate or read.rate
    return options.device(None if rate is None else rate / rows), window, hop


def is_asked(options: BudgetOptions) -> bool:
    """Return whether any device option was given."""
    names = [each.name for each in fields(options) if each.name in DEVICE_FIELDS and each.name != "clock"]
    return any(getattr(options, name) is not None for name in names) or options.clock != CLOCK

"""Options that describe a device, and the share of it that a network may use."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any

from hadamrnn.cli.arguments import check_unused
from hadamrnn.data.options import Rate
from hadamrnn.settings import Count, Range, option

if TYPE_CHECKING:
    from hadamrnn.network import Network

Clock = Annotated[float, Range(0, 1e5, "(]")]
CLOCK = 64.0  # MHz


@dataclass(frozen=True, kw_only=True)
class DeviceOptions:
    """The device that `cost` and `export --report` compare a network with."""

    rate: Rate | None = option(None, "budget: steps of the network per second; says how busy a Cortex-M4 is")
    clock: Clock = option(CLOCK, "budget: MHz of the Cortex-M4 (default 64)")
    max_ram: Count | None = option(None, "budget: bytes of RAM for state, stack and window")
    max_flash: Count | None = option(None, "budget: bytes of flash for code and network")
    window: Count | None = option(None, "budget: steps of a window (default: one hop)")
    hop: Count | None = option(None, "budget: steps from one window to the next (default: half a window)")


DEVICE_FIELDS = tuple(each.name for each in fields(DeviceOptions))


def device_report(
    options: DeviceOptions, network: Network, step: int | None = None
) -> tuple[dict[str, Any], list[str]]:
    """Return the load of the device as figures and as lines; `step` is the number of counted instructions."""
    from hadamrnn.export.budget import Device, Load

    if options.rate is None:
        check_unused(options, "without --rate", "clock")
    window = options.window or options.hop or 1
    hop = options.hop or max(window // 2, 1)
    device = Device(
        rate=options.rate, clock=options.clock, max_ram=options.max_ram, max_flash=options.max_flash
    )
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


def is_asked(options: DeviceOptions) -> bool:
    """Whether any option of the device was given."""
    given = (options.rate, options.max_ram, options.max_flash, options.window, options.hop)
    return any(each is not None for each in given) or options.clock != CLOCK

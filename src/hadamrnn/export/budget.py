"""The load of a device: per cent of its clock, and bytes. Start at `Load`."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hadamrnn.fixedpoint.blob import ModelData
from hadamrnn.fixedpoint.cost import USUAL_BITS, estimate, estimate_readout
from hadamrnn.fixedpoint.drawn import draw_model
from hadamrnn.fixedpoint.plan import make_plan
from hadamrnn.network import Network

CODE_BYTES, CODE_PER_LAYER = 1200, 900  # hadamrnn.h on a Cortex-M4: the first layer, each further layer
WINDOW_BYTES = 24  # in addition to states and logits


@dataclass(frozen=True, kw_only=True)
class Device:
    """The budget of a network on a Cortex-M4: steps per second, MHz, and bytes; None for no limit."""

    rate: float | None = None
    clock: float = 64.0
    max_ram: int | None = None
    max_flash: int | None = None


@dataclass(frozen=True)
class Load:
    """The cost of a network with its windows: instructions per step of the input, bytes of flash and RAM."""

    instructions: float
    flash: int
    ram: int

    @classmethod
    def of(cls, network: Network, window: int, hop: int, step: int | None = None) -> Load:
        """Return the load of windows of `window` steps every `hop`; `step` is a counted step, else estimated.

        window / hop states read the stream.
        """
        if network.activation_bits is None:
            network = replace(network, activation_bits=USUAL_BITS)
        model = draw_model(network)
        plan, streams = make_plan(model), max(-(-window // hop), 1)
        steps = (estimate(network) if step is None else step) * streams
        return cls(
            instructions=steps + (0 if network.every_output else estimate_readout(network) / hop),
            flash=len(ModelData(model).blob) + CODE_BYTES + CODE_PER_LAYER * (network.num_layers - 1),
            ram=streams * plan.state_bytes + plan.work_bytes + 4 * network.output_size + WINDOW_BYTES,
        )

    def share(self, device: Device) -> float | None:
        """Return the share of the clock, at one instruction per cycle; None without a rate."""
        return None if device.rate is None else self.instructions * device.rate / (device.clock * 1e6)

    def excesses(self, device: Device) -> list[str]:
        """Return what the device lacks, in words; empty if it keeps up."""
        share, found = self.share(device), []
        if share is not None and share > 1:
            most = device.clock * 1e6 / self.instructions
            found.append(
                f"the device cannot keep up: at most {most:,.0f} steps per second, not {device.rate:g}"
            )
        for name, taken, most_bytes in (
            ("RAM", self.ram, device.max_ram),
            ("flash", self.flash, device.max_flash),
        ):
            if most_bytes is not None and taken > most_bytes:
                found.append(
                    f"the device has too little {name}: {taken:,} bytes are needed, not {most_bytes:,}"
                )
        return found

    def line(self, device: Device) -> str:
        """Return the load as people read it.

        >>> Load(50_000.0, 4300, 920).line(Device(rate=400))
        '31 % of a 64 MHz Cortex-M4, 4.2 kB flash, 0.9 kB RAM including its window'
        """
        share = self.share(device)
        percent = "" if share is None else f"{100 * share:.2g}" if share < 0.1 else f"{100 * share:,.0f}"
        busy = "" if share is None else f"{percent} % of a {device.clock:g} MHz Cortex-M4, "
        return f"{busy}{self.flash / 1024:.1f} kB flash, {self.ram / 1024:.1f} kB RAM including its window"

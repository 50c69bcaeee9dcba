"""How an integer model is reported: by `quantize`, and by `export` if it quantizes a run first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hadamrnn.quantization.results import Quantization

# Up to here there is no advice: the paper's networks lose as much at 12 bits.
BEARABLE_LOSS = 0.003  # of accuracy
BEARABLE_RATIO, SMALL_CROSS_ENTROPY = 2.0, 3e-7


def quantize_figures(found: Quantization) -> dict[str, Any]:
    """Return a quantization as --json prints it."""
    from hadamrnn.fixedpoint.cost import network_size
    from hadamrnn.fixedpoint.encoding import input_meaning

    figures: dict[str, Any] = {"metric": found.metric, "split": found.split}
    figures |= {"activation_bits": found.model.activation_bits, "inputs": input_meaning(found.model)}
    if found.saturation is not None:
        figures |= {"float": found.float_value, "integer": found.integer_value}
        figures |= found.saturation.figures()
    return figures | {
        "file": str(found.file),
        "payload_bytes": found.size.payload,
        "extra_bytes": found.size.extra,
        "header_bytes": found.size.header,
        "kilobytes": round(found.size.payload / 1024, 4),
        "paper_kilobytes": round(network_size(found.model.network).kilobytes, 4),
    }


def quantize_lines(figures: dict[str, Any]) -> list[str]:
    from hadamrnn.training.progress import show_metric

    metrics = []
    if "float" in figures:
        metrics = [
            f"float     {show_metric(figures['metric'], figures['float'])} over {figures['split']}",
            f"integer   {show_metric(figures['metric'], figures['integer'])}, "
            f"{figures['saturations']} states and {figures['input_saturations']} inputs saturated",
            *_advice(figures),
        ]
    extra = f", {figures['extra_bytes'] / 1024:.2f} kB of tables beside it" if figures["extra_bytes"] else ""
    return [
        *metrics,
        f"weights   {figures['kilobytes']:.2f} kB (the paper's formula: {figures['paper_kilobytes']:.2f} kB)"
        f"{extra}, header {figures['header_bytes']} bytes",
        f"inputs    {figures['inputs']}",
        f"written   {figures['file']}",
    ]


def _advice(figures: dict[str, Any]) -> list[str]:
    """Return what to do about a metric that rounding has spoilt; nothing where it has not."""
    exact, rounded, bits = figures["float"], figures["integer"], figures["activation_bits"]
    if figures["metric"] == "accuracy":
        lost, spoilt = f"{100 * (exact - rounded):.2f} points", exact - rounded > BEARABLE_LOSS
    else:
        spoilt = rounded > max(BEARABLE_RATIO * exact, SMALL_CROSS_ENTROPY)
        lost = f"{rounded - exact:.2g} of {figures['metric'].replace('_', '-')}"
    more = f"--activation-bits {min(bits + 2, 16)} or " if bits < 16 else ""
    return [f"advice    {bits}-bit states cost {lost}: try {more}--finetune"] if spoilt else []

"""A program for Frama-C's Eva: a step and a window of an exported network, from any state with any input.

It is the step of a proof by induction. From any state within its bits, with sums within the longest sequence,
and for any input: no signed sum overflows, no access leaves its array, and the next state is again within
its bits. `CHECK` divides by the truth of a condition, so Eva reports a false one. Signs, weights, biases,
thresholds, gains and offsets take any value that fits their bits (`symbolic_weights`), so the proof covers
every network of these sizes and shifts.
"""

from __future__ import annotations

from hadamrnn.fixedpoint.blob import ModelData, stored_bytes
from hadamrnn.fixedpoint.integers import signed_range
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.fixedpoint.plan import LayerPlan, Plan, make_plan

PRELUDE = """
#include "__fc_builtin.h"
#define __builtin_assume_aligned(p, n) (p)

#include "net.c"
#include "net_window.c"

static int32_t any(int32_t low, int32_t high)
{
    return (int32_t)Frama_C_long_interval(low, high);
}

static volatile int checked; /* a division whose result nobody reads would be left out */
#define CHECK(holds) (checked = 1 / ((holds) ? 1 : 0))
"""
WINDOW = """
static void prove_window(void)
{{
    static net_window window;
    static net_slot slots[2];
    CHECK(net_window_init(&window, slots, 3 * {hop}, {hop}) == HADAMRNN_OK);
    for (int t = 0; t < {pushes}; t++) {{
{push}
        CHECK(status <= HADAMRNN_BAD_WINDOW);
    }}
    const uint16_t label = net_window_class(&window);
    CHECK((label < {classes}u) || (label == HADAMRNN_NO_CLASS));
}}
"""


def proof_program(model: IntegerModel) -> str:
    """Return the text of a program beside the export of `model` under the name `net`."""
    steps = "".join(f"    prove_step({', '.join(map(str, phases))});\n" for phases in _phases(model))
    parameters = ", ".join(f"uint16_t phase{i}" for i in range(_strided_layers(model))) or "void"
    body = [
        "    static net_state state;",
        "    any_data();",
        *_state(model),
        *_input(model, "    "),
        "    (void)net_step(&state, input);",
        *_after(model),
        "    int32_t logits[NET_OUTPUT_SIZE];",
        "    net_logits(&state, logits);",
        f"    CHECK(net_classify(&state) < {max(model.output_size, 2)}u);",
        *_full(model),
    ]
    return (
        f"{PRELUDE}\n{_data(model)}\nstatic void prove_step({parameters})\n{{\n"
        + "\n".join(body)
        + f"\n}}\n{_window(model)}\nint main(void)\n{{\n{steps}    prove_window();\n    return 0;\n}}\n"
    )


def symbolic_weights(header: str) -> str:
    """Return the text of NAME_weights.h with data that a program may change."""
    return header.replace("static const uint8_t", "static uint8_t", 1)


def _data(model: IntegerModel) -> str:
    """Return the function that sets the data of the network to any values that fit their bits."""
    low, high = signed_range(model.activation_bits)
    each = stored_bytes(model.activation_bits)
    lines = []
    for section in ModelData(model).sections:
        kind = section.comment.split(": ")[-1].split(",")[0]
        if kind in ("u", "U", "V"):
            lines.append(
                _each(len(section.content), f"net_data[{section.offset} + i] = (uint8_t)any(0, 255);")
            )
        elif kind in ("b_i", "b_o", "thresholds", "gains", "offsets"):
            count = len(section.content) // each
            cell = f"((int{8 * each}_t *)(void *)&net_data[{section.offset}])[i]"
            lines.append(_each(count, f"{cell} = (int{8 * each}_t)any({low}, {high});"))
    return "static void any_data(void)\n{\n" + "\n".join(lines) + "\n}\n"


def _phases(model: IntegerModel) -> list[tuple[int, ...]]:
    """Return the possible phases of the layers of a stride; () if they keep no sums."""
    found: list[tuple[int, ...]] = [()]
    for _ in range(_strided_layers(model)):
        found = [(*phases, phase) for phases in found for phase in range(model.network.stride)]
    return found


def _strided_layers(model: IntegerModel) -> int:
    return len(model.layers) - 1 if model.network.stride > 1 else 0


def _hidden(planned: LayerPlan) -> str:
    """Return entry i of a layer's state."""
    return f"state.narrow[{planned.cells} + i]"


def _bounds(model: IntegerModel) -> tuple[int, int]:
    low, high = signed_range(model.activation_bits)
    return (0 if model.network.recurrence == "relu" else low), high


def _each(count: int, what: str) -> str:
    return f"    for (int i = 0; i < {count}; i++) {{ {what} }}"


def _state(model: IntegerModel) -> list[str]:
    """Fill in any reachable state."""
    plan, (low, high) = make_plan(model), _bounds(model)
    lines = ["    (void)memset(&state, 0, sizeof state);"]
    for planned in plan.layers:
        lines.append(_each(planned.layer.hidden_size, f"{_hidden(planned)} = (int16_t)any({low}, {high});"))
    for index in range(_strided_layers(model)):
        planned = plan.layers[index]
        lines.append(f"    state.narrow[{plan.phases + index}] = (int16_t)phase{index};")
        most = 1 << (planned.layer.output_bits or 1) - 1
        value = f"(int16_t)(any({-most}, {most - 1}) * (int32_t)phase{index})"
        lines.append(_each(planned.layer.hidden_size, f"state.narrow[{planned.sums} + i] = {value};"))
    if plan.is_pooled:
        lines += _pool(model, plan)
    if model.longest:
        lines.append(f"    state.counters.inputs = (uint16_t)any(0, {model.longest - 1});")
    return [*lines, "    state.counters.saturations = (uint32_t)any(0, INT32_MAX);"]


def _pool(model: IntegerModel, plan: Plan) -> list[str]:
    """Fill in any pools that are possible before one more step."""
    before, (low, high) = max(model.longest - 1, 0), signed_range(model.activation_bits)
    counters = plan.pool_wide - plan.counts
    return [
        _each(plan.counts, f"state.wide[i] = any(0, {before << model.activation_bits});"),
        _each(counters, f"state.wide[{plan.counts} + i] = any(0, {before});"),
        _each(plan.pool_narrow, f"state.narrow[i] = (int16_t)any({low}, {high});"),
        f"    state.counters.pooled = (uint16_t)any(0, {before or 65535});",
    ]


def _input(model: IntegerModel, indent: str) -> list[str]:
    """Fill in any input, within its range or outside."""
    if model.input_kind != "dense":
        return [f"{indent}const uint32_t input = (uint32_t)any(INT32_MIN, INT32_MAX);"]
    return [
        f"{indent}int32_t raw[NET_INPUT_SIZE];",
        f"{indent}int16_t input[NET_INPUT_SIZE];",
        f"{indent}for (int j = 0; j < {model.input_size}; j++) {{ raw[j] = any(INT32_MIN, INT32_MAX); }}",
        f"{indent}(void)net_encode(raw, input);",
        f"{indent}for (int j = 0; j < {model.input_size}; j++) {{ input[j] = (int16_t)any(-32768, 32767); }}",
    ]


def _after(model: IntegerModel) -> list[str]:
    """Check that the next state satisfies the assumptions of the proof."""
    plan, (low, high) = make_plan(model), _bounds(model)
    lines = []
    for planned in plan.layers:
        h = _hidden(planned)
        lines.append(_each(planned.layer.hidden_size, f"CHECK(({low} <= {h}) && ({h} <= {high}));"))
    for index in range(_strided_layers(model)):
        planned = plan.layers[index]
        most, phase = 1 << (planned.layer.output_bits or 1) - 1, f"state.narrow[{plan.phases + index}]"
        lines.append(f"    CHECK((0 <= {phase}) && ({phase} < (int)NET_STRIDE));")
        total, reach = f"(int32_t)state.narrow[{planned.sums} + i]", f"{most} * (int32_t){phase}"
        lines.append(
            _each(planned.layer.hidden_size, f"CHECK((-({reach}) <= {total}) && ({total} <= {reach}));")
        )
    bound = model.longest << model.activation_bits
    lines.append(_each(plan.counts, f"CHECK((0 <= state.wide[i]) && (state.wide[i] <= {bound}));"))
    return lines


def _full(model: IntegerModel) -> list[str]:
    """Check a step once the sums are full."""
    if not model.longest:
        return []
    known = "input" if model.input_kind == "dense" else "0"
    return [
        "    state.counters.inputs = NET_LONGEST;",
        f"    CHECK(net_step(&state, {known}) == HADAMRNN_FULL);",
    ]


def _window(model: IntegerModel) -> str:
    """Push any inputs through a window of three hops."""
    indent = " " * 8
    push = _input(model, indent)
    argument = "raw" if model.input_kind == "dense" else "input"
    push.append(f"{indent}const uint8_t status = net_window_push(&window, {argument});")
    return WINDOW.format(push="\n".join(push), hop=1, pushes=5, classes=max(model.output_size, 2))

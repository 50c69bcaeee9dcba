"""Any type, autocast, method and derivative gives the values of the dense float64 loop, or is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from hadamrnn.errors import InputError
from hadamrnn.kernels import backend, methods
from hadamrnn.kernels.backend import native_is_loaded
from hadamrnn.kernels.loss import cross_entropy, loss_and_gradient
from hadamrnn.kernels.recurrence import DIFFERENTIABLE
from hadamrnn.kernels.scan import forward
from hadamrnn.network import Network
from hadamrnn.nn.cell import HadamCell
from hadamrnn.nn.interface import Tokens
from hadamrnn.nn.linear import QuantizedLinear
from hadamrnn.nn.model import SequenceModel
from hadamrnn.nn.rnn import HadamRNN
from hadamrnn.nn.stack import HadamStack
from hadamrnn.nn.weight import recurrent_weight
from tests.kernels.problems import make_case

BATCH, TIME, HIDDEN_SIZE = 2, 6, 8
NARROW, WIDE = 3, 20  # projected inside the native loop, and outside
REALS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
OTHERS = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.bool, torch.complex64)
# torch loads a deprecated part of itself for some forward derivatives.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")

AUTOCAST = (None, torch.bfloat16, torch.float16)
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 6e-2}


METHODS = ("auto", "torch", "scan", "kernel")


def force(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Force one method for every recurrence that it supports: natively unless it is "torch"."""
    if method == "torch":
        monkeypatch.setattr(backend, "native_is_loaded", lambda: False)
    elif method == "scan":
        monkeypatch.setattr(methods, "kernel_is_possible", lambda recurrence: False)
    elif method == "kernel":
        monkeypatch.setattr(methods, "kernel_cost", lambda recurrence: 0.0)


def autocast(dtype: torch.dtype | None) -> Any:
    return nullcontext() if dtype is None else torch.autocast("cpu", dtype)


def cells(layer: HadamStack) -> Iterator[HadamCell]:
    for cell in layer.cells:
        assert isinstance(cell, HadamCell)
        yield cell


def dense_states(x: Tensor, h: Tensor, signs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return every h_t of h_t = W(u) h_(t-1) + U x_t + b_i, written out with dense products."""
    matrix = recurrent_weight(signs, HIDDEN_SIZE)
    states = []
    for x_t in x.unbind(1):
        h = h @ matrix.T + x_t @ weight.T + bias
        states.append(h)
    return torch.stack(states, 1)


def reference(layer: HadamStack, x: Tensor, h_0: Tensor | None = None) -> Tensor:
    """Return the outputs of all steps in float64."""
    states = x.double()
    for index, cell in enumerate(cells(layer)):
        h = torch.zeros(len(x), HIDDEN_SIZE).double() if h_0 is None else h_0[index].double()
        assert cell.input_bias is not None
        weights = (cell.signs(), cell.quantized_weight(), cell.input_bias)
        states = dense_states(states.relu() if index else states, h, *(weight.double() for weight in weights))
    return states.detach()


def assert_near(found: Tensor, expected: Tensor, dtype: torch.dtype, label: object = "") -> None:
    tolerance = TOLERANCE[dtype]
    torch.testing.assert_close(
        found.double(), expected.double(), rtol=tolerance, atol=tolerance, msg=lambda text: f"{label}: {text}"
    )


def draw(dtype: torch.dtype, *shape: int) -> Tensor:
    return (3 * torch.randn(*shape)).to(dtype) if dtype != torch.bool else torch.randn(*shape) > 0


def fits(layer: torch.dtype, given: torch.dtype, cast: torch.dtype | None) -> bool:
    """Whether a layer accepts such a tensor: its own type, and under autocast any below float64."""
    below = REALS[1:]
    return given == layer or (cast is not None and given in below and layer in below)


@pytest.mark.parametrize("cast", AUTOCAST, ids=str)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.filterwarnings("ignore:Casting complex values")
def test_every_input_gives_the_reference_or_is_refused(
    method: str, cast: torch.dtype | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    force(method, monkeypatch)
    for dtype, num_layers, width in product(REALS, (1, 2), (NARROW, WIDE)):
        layer = HadamRNN(width, HIDDEN_SIZE, num_layers, batch_first=True, dtype=dtype)
        for given, given_h_0 in product((*REALS, *OTHERS), (None, *REALS, torch.int64)):
            x = draw(given, BATCH, TIME, width)
            h_0 = None if given_h_0 is None else draw(given_h_0, num_layers, BATCH, HIDDEN_SIZE)
            label = f"layer {dtype} x {num_layers}, {width} inputs of {given}, h_0 {given_h_0}"
            with autocast(cast):
                if not all(fits(dtype, kind, cast) for kind in (given, given_h_0 or dtype)):
                    with pytest.raises(InputError, match=rf"must be {dtype} like the layer's weights"):
                        layer.last_state(x, h_0)
                    continue
                last = layer.last_state(x, h_0)
                output = layer(x, h_0)[0]
            expected = reference(layer, x, h_0)
            assert last.dtype == output.dtype == dtype, label
            assert_near(last[-1], expected[:, -1], dtype, label)
            assert_near(output, expected.relu(), dtype, label)


@pytest.mark.parametrize("cast", AUTOCAST, ids=str)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("embedded", [False, True])
def test_tokens_and_the_read_out_give_the_reference(
    embedded: bool, method: str, cast: torch.dtype | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    force(method, monkeypatch)
    ids, targets = torch.randint(NARROW, (BATCH, TIME)), torch.randint(4, (BATCH, TIME))
    for dtype, num_layers, every_output in product(REALS, (1, 2), (False, True)):
        network = Network(NARROW, HIDDEN_SIZE, 4, num_layers=num_layers, every_output=every_output)
        kind: dict[str, Any] = {"input_kind": "one_hot"}
        if embedded:
            kind = {"input_kind": "embedded", "vocabulary_size": NARROW}
        model = SequenceModel(replace(network, **kind)).to(dtype)
        vectors = torch.eye(NARROW) if model.embedding is None else model.embedding.weight.detach()
        states = reference(model.hadamard_layers, vectors[ids]).relu()
        readout = model.readout
        assert readout.bias is not None
        expected = states @ readout.quantized_weight().double().T + readout.bias.double()
        expected = (expected if every_output else expected[:, -1]).detach()
        wanted = targets if every_output else targets[:, -1]
        with autocast(cast):
            logits, loss = model(ids), model.loss(ids, wanted)
        label = f"{dtype}, {num_layers} layers, every output {every_output}"
        assert_near(logits, expected, dtype, label)
        assert_near(
            loss, nn.functional.cross_entropy(expected.flatten(0, -2), wanted.flatten()), dtype, label
        )


@pytest.mark.parametrize("cast", AUTOCAST, ids=str)
def test_streaming_and_linear_layers_give_the_reference_or_refuse(cast: torch.dtype | None) -> None:
    torch.manual_seed(0)
    for dtype, given in product(REALS, (*REALS, torch.int64)):
        layer = HadamRNN(NARROW, HIDDEN_SIZE, 2, batch_first=True, dtype=dtype)
        x = draw(given, BATCH, 1, NARROW)
        with autocast(cast):
            if not fits(dtype, given, cast):
                with pytest.raises(InputError, match=rf"must be {dtype} like the layer's weights"):
                    layer.step(x[:, 0])
                continue
            output, _ = layer.step(x[:, 0])
            projection = QuantizedLinear(NARROW, 4, dtype=dtype)
            found = projection(x)
        assert_near(output, reference(layer, x)[:, 0].relu(), dtype)
        exact = nn.Linear(NARROW, 4, dtype=torch.float64)
        exact.load_state_dict({"weight": projection.quantized_weight(), "bias": projection.bias})
        assert_near(found, exact(x.double()), dtype)


def test_other_types_of_embedding_and_read_out_are_refused() -> None:
    layer = HadamRNN(NARROW, HIDDEN_SIZE, batch_first=True)
    ids = torch.zeros(BATCH, TIME, dtype=torch.int64)
    with pytest.raises(InputError, match=r"The embedding must be torch\.float32"):
        layer(Tokens(ids, nn.Embedding(4, NARROW, dtype=torch.float64)))
    with pytest.raises(InputError, match=r"The read-out's weight must be torch\.float32"):
        layer.every_readout(torch.zeros(BATCH, TIME, NARROW), torch.zeros(4, HIDDEN_SIZE).double(), None)
    with pytest.raises(InputError, match=r"dense .*, got torch\.sparse_coo"):
        layer(torch.zeros(BATCH, TIME, NARROW).to_sparse())
    with pytest.raises(InputError, match=r"on cpu .* on meta"):
        layer(torch.zeros(BATCH, TIME, NARROW, device="meta"))


Function = Callable[..., Tensor]


def weigh(output: Tensor) -> Tensor:
    """Return a scalar in which every entry has a different weight and no second derivative vanishes."""
    weights = torch.linspace(-1, 1, output.numel(), dtype=output.dtype).reshape(output.shape)
    return (weights * output + output**3).sum()


def backward(function: Function, *inputs: Tensor) -> Any:
    leaves = [value.clone().requires_grad_() for value in inputs]
    return torch.autograd.grad(weigh(function(*leaves)), leaves)


def double_backward(function: Function, *inputs: Tensor) -> Any:
    leaves = [value.clone().requires_grad_() for value in inputs]
    gradients = torch.autograd.grad(weigh(function(*leaves)), leaves, create_graph=True)
    return torch.autograd.grad(torch.stack([weigh(gradient) for gradient in gradients]).sum(), leaves)


def jvp(function: Function, *inputs: Tensor) -> Any:
    return torch.func.jvp(function, inputs, tuple(value.cos() for value in inputs))


def dual_numbers(function: Function, *inputs: Tensor) -> Any:
    with forward_ad.dual_level():
        duals = [forward_ad.make_dual(value, value.cos()) for value in inputs]
        return tuple(forward_ad.unpack_dual(function(*duals)))


def jacfwd(function: Function, *inputs: Tensor) -> Any:
    return torch.func.jacfwd(function, argnums=tuple(range(len(inputs))))(*inputs)


def jacrev(function: Function, *inputs: Tensor) -> Any:
    return torch.func.jacrev(function, argnums=tuple(range(len(inputs))))(*inputs)


def hessian(function: Function, *inputs: Tensor) -> Any:
    return torch.func.hessian(lambda x: weigh(function(x, *inputs[1:])))(inputs[0])


def vmap(function: Function, *inputs: Tensor) -> Any:
    return torch.func.vmap(function)(*(torch.stack((value, value.sin())) for value in inputs))


PARAMETERS = ("cells.0.latent_signs", "cells.0.input_weight", "cells.0.input_bias")
MODES = (backward, double_backward, jvp, dual_numbers, jacfwd, jacrev, hessian, vmap)


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.__name__)
@pytest.mark.parametrize("method", METHODS)
def test_every_kind_of_derivative_is_the_references(
    method: str, mode: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    force(method, monkeypatch)
    for width, dtype, cast in (
        (NARROW, torch.float64, None),
        (WIDE, torch.float64, None),
        (NARROW, torch.float32, torch.bfloat16),
    ):
        layer = HadamRNN(width, HIDDEN_SIZE, weight_bits=None, batch_first=True)
        latent, *weights = (layer.get_parameter(name).detach().to(dtype) for name in PARAMETERS)
        x, h_0 = torch.randn(1, 3, width, dtype=dtype), torch.randn(1, HIDDEN_SIZE, dtype=dtype)

        def last(x: Tensor, h: Tensor, *values: Tensor, layer: HadamRNN = layer, cast: Any = cast) -> Tensor:
            parameters = {f"layer.{name}": value for name, value in zip(PARAMETERS, values, strict=True)}
            with autocast(cast):
                return torch.as_tensor(
                    torch.func.functional_call(_LastState(layer), parameters, (x, h[None]))
                )

        def exact(x: Tensor, h: Tensor, latent: Tensor, *weights: Tensor) -> Tensor:
            signs = torch.where(latent >= 0, 1.0, -1.0) + (latent - latent.detach())  # straight through
            return dense_states(x, h, signs, *weights)[:, -1]

        found = mode(last, x, h_0, latent, *weights)
        expected = mode(exact, *(value.double() for value in (x, h_0, latent, *weights)))
        rtol, atol = (1e-9, 1e-9) if dtype == torch.float64 else (1e-3, 1e-3)
        torch.testing.assert_close(found, expected, rtol=rtol, atol=atol, check_dtype=False)


class _LastState(nn.Module):
    """`last_state` of one layer as a module, so that functional_call can call it."""

    def __init__(self, layer: HadamRNN) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor, h_0: Tensor) -> Tensor:
        return self.layer.last_state(x, h_0)[0]


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.__name__)
def test_every_kind_of_derivative_of_the_loss_is_torchs(mode: Callable[..., Any]) -> None:
    torch.manual_seed(0)
    logits = torch.randn(5, 4, dtype=torch.float64)
    targets = torch.tensor([0, 3, 2, 1, 1])
    found = mode(lambda values: cross_entropy(values, targets), logits)
    expected = mode(lambda values: nn.functional.cross_entropy(values, targets), logits)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.__name__)
def test_every_kind_of_derivative_passes_the_fused_read_out(mode: Callable[..., Any]) -> None:
    torch.manual_seed(0)
    layer = HadamRNN(NARROW, HIDDEN_SIZE, batch_first=True, weight_bits=None, dtype=torch.float64)
    (cell,) = cells(layer)
    assert cell.input_bias is not None
    weights = [weight.detach() for weight in (cell.signs(), cell.input_weight, cell.input_bias)]
    start = torch.zeros(1, HIDDEN_SIZE, dtype=torch.float64)
    x, readout = (
        torch.randn(1, 3, NARROW, dtype=torch.float64),
        torch.randn(2, HIDDEN_SIZE, dtype=torch.float64),
    )
    for parameter in layer.parameters():
        parameter.requires_grad_(False)

    found = mode(lambda x, v: layer.every_readout(x, v, None), x, readout)
    expected = mode(lambda x, v: dense_states(x, start, *weights).relu() @ v.T, x, readout)
    torch.testing.assert_close(found, expected)


LAYERS: list[dict[str, Any]] = [
    {},
    {"num_layers": 2},
    {"recurrence": "relu"},
    {"bidirectional": True},
    {"num_blocks": 2, "leak": (1, 2)},
    {"num_layers": 2, "num_blocks": 2, "leak": (1, 0), "normalize": True},
]


@pytest.mark.parametrize("options", LAYERS, ids=lambda options: "-".join(options))
def test_second_derivatives_pass_gradgradcheck(options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    layer = HadamRNN(2, 4, batch_first=True, dtype=torch.float64, **options)
    layer(torch.randn(8, 5, 2, dtype=torch.float64))  # the statistics of a normalisation
    layer.eval()
    x = torch.randn(2, 3, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda x: layer(x)[0], (x,))
    assert torch.autograd.gradcheck(lambda x: layer(x)[0], (x,), check_forward_ad=True)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # torch's exporter uses a deprecated part of itself
@pytest.mark.parametrize(("width", "num_layers"), [(NARROW, 1), (WIDE, 1), (NARROW, 2)])
def test_torch_export_leaves_the_batch_size_open(width: int, num_layers: int) -> None:
    layer = HadamRNN(width, HIDDEN_SIZE, num_layers, batch_first=True)
    batch = torch.export.Dim("batch", min=1, max=1024)
    program = torch.export.export(layer, (torch.randn(3, TIME, width),), dynamic_shapes=({0: batch},))
    for size in (1, 3, 11):
        x = torch.randn(size, TIME, width)
        torch.testing.assert_close(program.module()(x), layer(x))


FAMILY = Network(
    NARROW,
    8,
    3,
    num_layers=2,
    num_blocks=2,
    weight_bits=None,
    leak=(1, 2),
    readouts=("last", "mean", "max"),
    thresholds=2,
    normalize=True,
    skip=True,
)


def family_model(dtype: torch.dtype) -> SequenceModel:
    """Return a network with leaks, pools and several layers, in evaluation mode."""
    torch.manual_seed(0)
    model = SequenceModel(FAMILY).to(dtype)
    assert isinstance(model, SequenceModel)
    model(torch.randn(8, TIME, NARROW, dtype=dtype))
    return model.eval()


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.__name__)
def test_every_kind_of_derivative_of_the_family_is_that_of_plain_torch(
    mode: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = family_model(torch.float64)
    x = torch.randn(2, 3, NARROW, dtype=torch.float64)
    found = mode(model, x)
    monkeypatch.setattr(backend, "native_is_loaded", lambda: False)
    torch.testing.assert_close(found, mode(model, x))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # torch's exporter uses a deprecated part of itself
def test_torch_export_leaves_the_batch_size_of_the_family_open() -> None:
    model = family_model(torch.float32)
    batch = torch.export.Dim("batch", min=1, max=1024)
    program = torch.export.export(model, (torch.randn(3, TIME, NARROW),), dynamic_shapes=({0: batch},))
    for size in (1, 16, 40):
        x = torch.randn(size, TIME, NARROW)
        torch.testing.assert_close(program.module()(x), model(x))


@pytest.mark.filterwarnings("ignore")  # torch's compiler uses a deprecated part of itself
def test_a_compiled_forward_derivative_is_the_eager_one() -> None:
    layer = HadamRNN(NARROW, HIDDEN_SIZE, batch_first=True)
    x = torch.randn(BATCH, TIME, NARROW)

    def tangent(x: Tensor) -> Tensor:
        return torch.as_tensor(torch.func.jvp(lambda x: layer(x)[0], (x,), (x.cos(),))[1])

    compiled = torch.compile(tangent, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), tangent(x))


WRONG_ARRAYS: dict[str, Callable[[Tensor], Tensor]] = {
    "another float": lambda tensor: tensor.float(),
    "half": lambda tensor: tensor.half(),
    "integers": lambda tensor: tensor.int(),
    "too small": lambda tensor: tensor[..., :-1],
    "too few rows": lambda tensor: tensor[:-1],
    "no dimension": lambda tensor: tensor.flatten()[0],
    "another device": lambda tensor: tensor.to("meta"),
    "sparse": lambda tensor: tensor.to_sparse(),
}


@pytest.mark.skipif(not native_is_loaded(), reason="the native library is not built")
@pytest.mark.parametrize("wrong", WRONG_ARRAYS)
@pytest.mark.parametrize("kind", ["dense", "wide", "tokens"])
def test_no_wrong_array_passes_the_door_to_c(kind: str, wrong: str) -> None:
    case = make_case(HIDDEN_SIZE, 4, kind=kind, with_h_0=True, with_lengths=True)
    readout = torch.ones(3, HIDDEN_SIZE, dtype=torch.float64)
    case = replace(case, output_weight=readout, output_bias=readout[:, 0])
    for name in (*DIFFERENTIABLE, "ids", "lengths"):
        value = getattr(case, name)
        # Fewer steps or channels of x are another valid input, fewer rows of a table another valid table.
        if value is None or (wrong.startswith("too") and name in ("x", "ids", "weight", "output_weight")):
            continue
        change: Any = {name: WRONG_ARRAYS[wrong](value.detach())}
        with torch.no_grad(), pytest.raises(InputError):
            forward(replace(case, **change))


@pytest.mark.skipif(not native_is_loaded(), reason="the native library is not built")
def test_no_wrong_logits_pass_the_door_to_c() -> None:
    targets = torch.zeros(3, dtype=torch.int64)
    for logits in (torch.zeros(3, 4).half(), torch.zeros(3, 4, 1), torch.zeros(3, 0), torch.zeros(2, 4)):
        with pytest.raises(InputError, match=r"(logits|targets) must|float32 or float64"):
            loss_and_gradient(logits, targets, False)
    for wrong in (targets.int(), targets[:2], targets[:, None]):
        with pytest.raises(InputError, match="targets must be"):
            loss_and_gradient(torch.zeros(3, 4), wrong, False)

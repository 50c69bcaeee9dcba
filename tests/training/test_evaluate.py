from __future__ import annotations

import pytest
import torch

from hadamrnn.data.splits import Split
from hadamrnn.errors import InputError
from hadamrnn.network import Network
from hadamrnn.nn.model import SequenceModel
from hadamrnn.training.evaluate import decide, evaluate, is_better, predict_logits


def model_of(output_size: int, every_output: bool = False) -> SequenceModel:
    torch.manual_seed(0)
    return SequenceModel(Network(2, 8, output_size, every_output=every_output))


@pytest.mark.parametrize("samples", [1, 256, 300])
def test_accuracy_is_the_share_of_right_decisions(samples: int) -> None:
    model = model_of(3)
    x = torch.randn(samples, 5, 2)
    labels = torch.randint(3, (samples,))

    expected = (model(x).argmax(-1) == labels).double().mean()
    assert evaluate(model, Split(x, labels), "accuracy") == pytest.approx(float(expected))


def test_one_logit_decides_by_its_sign() -> None:
    model = model_of(1)
    x = torch.randn(40, 5, 2)
    right = Split(x, (model(x)[:, 0] > 0).long())

    assert evaluate(model, right, "accuracy") == 1.0
    assert decide(torch.tensor([[0.0]])).item() == 0


def test_mean_squared_error_is_over_samples_and_targets() -> None:
    model = model_of(2)
    x, targets = torch.randn(300, 5, 2), torch.randn(300, 2)

    expected = (model(x).detach() - targets).square().mean()
    assert evaluate(model, Split(x, targets), "mse") == pytest.approx(float(expected), rel=1e-5)


def test_cross_entropy_resolves_what_float32_rounds_to_zero() -> None:
    model = model_of(2, every_output=True)
    with torch.no_grad():
        model.readout.weight.zero_()
        assert model.readout.bias is not None
        model.readout.bias.copy_(torch.tensor([30.0, 0.0]))
    x, labels = torch.randn(10, 4, 2), torch.zeros(10, 4, dtype=torch.int64)

    value = evaluate(model, Split(x, labels), "cross_entropy")

    assert value == pytest.approx(torch.tensor(-30.0, dtype=torch.float64).exp().log1p().item(), rel=1e-2)
    in_float32 = torch.nn.functional.cross_entropy(model(x).detach().flatten(0, 1), labels.flatten())
    assert in_float32 == 0.0  # the reason for float64
    assert model.readout.weight.dtype == torch.float32  # a copy was converted


def test_evaluation_leaves_the_mode_and_the_gradients_alone() -> None:
    model = model_of(3).train()
    logits = predict_logits(model, Split(torch.randn(5, 4, 2), None))

    assert model.training and not logits.requires_grad


def test_a_split_without_labels_has_no_metric() -> None:
    with pytest.raises(InputError, match="needs labels"):
        evaluate(model_of(3), Split(torch.randn(5, 4, 2), None), "accuracy")


def test_a_metric_that_is_none_is_refused() -> None:
    split = Split(torch.zeros(2, 1, 1), torch.zeros(2))
    with pytest.raises(InputError, match=r"metric .* got 'acc'"):
        evaluate(lambda x, lengths: x[:, 0], split, "acc")  # type: ignore[arg-type]


def test_accuracies_rise_and_losses_fall() -> None:
    assert is_better("accuracy", 0.9, 0.8) and is_better("mse", 0.8, 0.9) and is_better("accuracy", 0.0, None)
    assert not is_better("accuracy", 0.8, 0.8) and not is_better("cross_entropy", 0.8, 0.8)

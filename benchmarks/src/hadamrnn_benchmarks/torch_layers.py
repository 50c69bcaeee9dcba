"""Time training steps of torch.nn.GRU, torch.nn.RNN and the obvious loop for a workload."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, one_hot

from hadamrnn.network import Network


class ObviousLayer(nn.Module):
    """The obvious implementation, h = h @ W.T + z[:, t]; the plain loop must not be slower than this."""

    def __init__(self, input_size: int, hidden_size: int, num_layers: int, batch_first: bool) -> None:
        super().__init__()
        assert batch_first
        sizes = [input_size, *[hidden_size] * (num_layers - 1)]
        self.projections = nn.ModuleList(nn.Linear(size, hidden_size) for size in sizes)
        self.weights = nn.ParameterList(torch.eye(hidden_size) for _ in sizes)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        for project, weight in zip(self.projections, self.weights, strict=True):
            z = project(x)
            h, states = torch.zeros_like(z[:, 0]), []
            for t in range(x.shape[1]):
                h = h @ weight.T + z[:, t]
                states.append(h)
            x = torch.stack(states, dim=1).relu()
        return x, h


LAYERS: dict[str, type[nn.Module]] = {"gru": nn.GRU, "rnn": nn.RNN, "obvious": ObviousLayer}


class TorchNetwork(nn.Module):
    """A torch layer and a linear read-out of its last state, its mean state, or every state."""

    def __init__(self, layer: str, network: Network) -> None:
        super().__init__()
        self.network = network
        self.embedding: nn.Embedding | None = None
        if network.vocabulary_size is not None:
            self.embedding = nn.Embedding(network.vocabulary_size, network.input_size, network.padding_id)
        sizes = (network.input_size, network.hidden_size, network.num_layers)
        self.layer = LAYERS[layer](*sizes, batch_first=True)
        self.readout = nn.Linear(network.hidden_size, network.output_size)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits `(batch, outputs)`, or `(batch, time, outputs)` if every step is read out."""
        if self.embedding is not None:
            x = self.embedding(x)
        elif self.network.input_kind == "one_hot":
            x = one_hot(x, self.network.input_size).to(self.readout.weight.dtype)
        states = self.layer(x)[0]
        if self.network.is_pooled:
            states = states.mean(1)
        elif not self.network.every_output:
            states = states[:, -1]
        logits: Tensor = self.readout(states)
        return logits


def torch_step(layer: str, network: Network, x: Tensor, target: Tensor) -> Callable[[], None]:
    """Return a function that runs one training step: forward, backward, fused Adam."""
    torch.manual_seed(0)
    model = TorchNetwork(layer, network)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)

    def step() -> None:
        optimizer.zero_grad()
        logits = model(x)
        if network.output_size == 1:
            loss = binary_cross_entropy_with_logits(logits.squeeze(-1), target.to(logits.dtype))
        else:
            loss = cross_entropy(logits.flatten(0, -2), target.flatten())
        loss.backward()
        optimizer.step()

    return step

"""Baselines read tokens as vectors."""

from __future__ import annotations

import torch
from torch import nn

from hadamrnn.nn.interface import Tokens
from hadamrnn_paper.baselines.layer import token_vectors


def test_the_vectors_of_tokens_are_rows_of_the_embedding_or_of_the_identity() -> None:
    ids, embedding = torch.tensor([[3, 0, 2]]), nn.Embedding(4, 5)

    assert torch.equal(token_vectors(Tokens(ids, embedding), 5, torch.float32), embedding.weight[ids])
    assert torch.equal(token_vectors(Tokens(ids), 4, torch.float64), torch.eye(4).double()[ids])
    dense = torch.rand(1, 3, 5)
    assert token_vectors(dense, 5, torch.float32) is dense

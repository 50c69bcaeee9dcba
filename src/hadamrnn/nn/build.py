"""Models of every kind, built from a description and loaded from a file."""

from __future__ import annotations

from hadamrnn.nn.model import SequenceModel as build_model
from hadamrnn.nn.storage import load_model

__all__ = ["build_model", "load_model"]

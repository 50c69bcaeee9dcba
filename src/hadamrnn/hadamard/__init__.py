"""Hadamard matrices: the orders that can be built, and the factors of their fast transforms. numpy only."""

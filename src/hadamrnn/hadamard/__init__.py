"""Hadamard matrices: the orders that can be built, and how their fast transforms split. numpy only."""

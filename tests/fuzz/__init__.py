"""Damaged files, drawn command lines and mixtures of runs: each succeeds or is refused in one line."""

"""Reproduce the paper's tables: their rows as data, the runner that measures them, and the report."""

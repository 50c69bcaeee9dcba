"""Benchmarks: every figure is measured in the same run as a plain implementation."""

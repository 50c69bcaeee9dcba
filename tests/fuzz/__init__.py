"""Damaged files and drawn command lines: each must succeed or be refused in one line. Start at `__main__`."""

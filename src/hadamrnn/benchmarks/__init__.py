"""What the library claims, measured: speed beside the plain loop, and the paper's tables, run and reported."""

"""What the library claims, measured: speed beside the plain loop; the paper's tables, run and reported."""

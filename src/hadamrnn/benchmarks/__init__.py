"""What the library claims, measured: speed and memory of training beside the plain loop."""

"""The signal front end: log energies of frequency bands in integers, from the first sample."""

from hadamrnn.front_end.description import FrontEnd
from hadamrnn.front_end.reference import compute_bands

__all__ = ["FrontEnd", "compute_bands"]

"""Count how often units exceed thresholds at several time scales: reservoirs, in integers. No torch."""

from hadamrnn.reservoir.cost import reservoir_size as reservoir_size
from hadamrnn.reservoir.cost import reservoir_step_cost as reservoir_step_cost
from hadamrnn.reservoir.counting import feature_counts as feature_counts
from hadamrnn.reservoir.counting import sampled_states as sampled_states
from hadamrnn.reservoir.description import Group as Group
from hadamrnn.reservoir.description import Reservoir as Reservoir
from hadamrnn.reservoir.file import load_any as load_any
from hadamrnn.reservoir.model import IntegerReservoir as IntegerReservoir
from hadamrnn.reservoir.reference import feature_codes as feature_codes
from hadamrnn.reservoir.reference import feature_steps as feature_steps
from hadamrnn.reservoir.units import Features as Features
from hadamrnn.reservoir.units import Units as Units

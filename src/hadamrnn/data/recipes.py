"""Settings that several recipes share. A recipe holds what differs from its preset's common settings.

paper   the hyper-parameters of the paper's appendix, to the letter
quick   a first look: under two minutes on two cores
best    the best recipe found
"""

from __future__ import annotations

from typing import Any

Values = dict[str, Any]

# The paper gives sensor tasks no hyper-parameters: MNIST's, for fewer epochs.
PAPER_SENSORS: Values = {"hidden_size": 512, "num_blocks": 2, "epochs": 100}

# Beyond the paper: layers that leak at several rates, normalised in between; V reads the mean and the maximum
# over all steps. On UCI HAR's held-out people (27 to 30) the maximum gains two layers of 64 units 2 points; a
# third layer, one layer of 256 units, noise, and random gains and offsets gain nothing.
STACK: Values = {
    "num_blocks": 8,
    "leak": (1, 2, 3, 4, 5, 6),
    "readouts": ("mean", "max"),
    "normalize": True,
    "learning_rate": 0.003,
    "gradient_clip": 1.0,
    "weight_average": 0.99,
}
SMALL_STACK: Values = {**STACK, "hidden_size": 64, "num_layers": 2, "epochs": 10}

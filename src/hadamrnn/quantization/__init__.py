"""From a trained network to integers: calibrate, lower, fine-tune. Start at `lowering.lower`."""

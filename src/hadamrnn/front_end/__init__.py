"""Compute log energies of frequency bands in integers. Start at `description.FrontEnd`."""

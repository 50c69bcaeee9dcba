"""The best network within a budget of bytes and instructions. Start at `trials.run_trials`, then `finish`."""

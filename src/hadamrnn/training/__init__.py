"""Training: configuration, the loop, checkpoints and run folders. Start at `hadamrnn.training.run`."""

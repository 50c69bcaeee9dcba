"""Train models: configuration, the loop, checkpoints and run directories. Start at `loop.fit`."""

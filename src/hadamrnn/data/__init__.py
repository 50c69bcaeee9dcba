"""Load tasks as `Splits(train, validation, test)` in memory. Start at `tasks.load_task`."""

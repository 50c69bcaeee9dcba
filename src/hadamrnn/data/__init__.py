"""Load tasks: each loader returns `Splits(train, validation, test)`, in memory. Start at `tasks.load_task`."""

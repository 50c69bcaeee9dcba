"""The tasks that only the paper needs. Start at `hadamrnn_paper.data.tasks`."""

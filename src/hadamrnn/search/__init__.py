"""The best network within a budget of bytes and instructions. Start at `trials.run_trials`."""

from hadamrnn.errors import InputError

try:
    import optuna as _  # noqa: F401
except ModuleNotFoundError as error:
    raise InputError(f"A search needs {error.name}: pip install 'hadamrnn[search]'.") from error

"""Search for the best network within a budget of bytes and instructions. Start at `trials.run_trials`."""

from hadamrnn.errors import missing_package

try:
    import optuna as _  # noqa: F401
except ModuleNotFoundError as error:
    raise missing_package("Searches", error.name, "search") from error

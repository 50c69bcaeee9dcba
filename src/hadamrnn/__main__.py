"""The `hadamrnn` command, also as `python -m hadamrnn`."""

import sys

from hadamrnn.interrupts import raise_on_signals, restore_defaults


def main() -> int:
    """Run the command line, with signal handlers set before any slow import."""
    raise_on_signals()
    from hadamrnn import cli

    try:
        return cli.main()
    finally:
        restore_defaults()


if __name__ == "__main__":
    sys.exit(main())

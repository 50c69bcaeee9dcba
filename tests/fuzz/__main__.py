"""`python -m tests.fuzz`: print the outcomes of all cases; exit with 1 if one went wrong."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.fuzz.commands import fuzz_commands
from tests.fuzz.files import fuzz_files
from tests.fuzz.mixtures import fuzz_mixtures


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--files", type=int, default=5000)
    parser.add_argument("--commands", type=int, default=200)
    parser.add_argument("--mixtures", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / "files").mkdir()
        kinds, wrong = fuzz_files(Path(scratch) / "files", args.files, args.seed)
        (Path(scratch) / "commands").mkdir()
        ends, more = fuzz_commands(Path(scratch) / "commands", args.commands, args.seed)
        (Path(scratch) / "mixtures").mkdir()
        mixed, most = fuzz_mixtures(Path(scratch) / "mixtures", args.mixtures, args.seed)
    for name, counts in {**kinds, "commands": ends, "mixtures": mixed}.items():
        print(f"{name:32}", ", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    for line in (*wrong, *more, *most):
        print(line)
    return 1 if wrong or more or most else 0


if __name__ == "__main__":
    sys.exit(main())

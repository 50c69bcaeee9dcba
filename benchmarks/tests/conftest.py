"""The library's shared set-up: seeds, and the command line in this process."""

from tests.conftest import command as command
from tests.conftest import seeded as seeded

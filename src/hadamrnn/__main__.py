"""`python -m hadamrnn` is the `hadamrnn` command."""

import sys

from hadamrnn.cli import main

sys.exit(main())

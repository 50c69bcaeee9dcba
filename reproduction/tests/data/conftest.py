"""The fixtures of the library's data tests: an empty cache, no network access, and real data if present."""

from tests.data.conftest import cache as cache
from tests.data.conftest import fingerprint as fingerprint
from tests.data.conftest import real_data as real_data
from tests.data.conftest import real_splits as real_splits

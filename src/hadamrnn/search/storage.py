"""Where a study is stored: a journal file or a database. Start at `open_storage`."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import unquote

from optuna.exceptions import StorageInternalError
from optuna.storages import BaseStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from hadamrnn.errors import InputError

ATTEMPTS = 10  # to create the tables while other workers do the same
JOURNAL_START = b'{"op_code"'
MASK = "***"
# In a URL: the value of an option named like a password, and the text between the user and the last @.
PASSWORDS = (
    re.compile(r"([?&](?:password|passwd|pwd|token)=)([^&]+)"),
    re.compile(r"(://[^:/@]*:)(.+)(?=@)"),
)
POSTGRESQL = re.compile(r"^postgres(ql)?://")


def open_storage(place: str) -> BaseStorage:
    """Return the storage at `place`: a journal file, also on a shared file system, or a database's URL."""
    try:
        return _open_database(place) if "://" in place else _open_journal(Path(place))
    except Exception as error:  # database drivers raise errors of their own
        raise InputError(f"The storage {mask(place)} cannot be opened: {_reason(error, place)}.") from error


@contextmanager
def storage_errors_in_one_line(place: str) -> Iterator[None]:
    """Raise what a database reports inside this block as an `InputError`."""
    try:
        yield
    except (SQLAlchemyError, StorageInternalError) as error:
        reason = _reason(error.__cause__ or error, place)
        raise InputError(
            f"The storage {mask(place)} failed: {reason}. Repeat the command to continue."
        ) from error


def mask(place: str) -> str:
    """Return a storage's place without its password.

    >>> mask("postgresql://me:a@b@host/db"), mask("mysql://host/db?user=me&password=s3")
    ('postgresql://me:***@host/db', 'mysql://host/db?user=me&password=***')
    """
    for pattern in PASSWORDS:
        place = pattern.sub(rf"\1{MASK}", place)
    return place


def _open_database(url: str) -> RDBStorage:
    # SQLAlchemy's default driver depends on its version.
    url, postgresql = POSTGRESQL.subn("postgresql+psycopg://", url)
    for attempt in range(1, ATTEMPTS + 1):
        try:
            # Without a pool no connection stays open, so none can go stale during a long trial.
            return RDBStorage(url, engine_kwargs={"poolclass": NullPool})
        except ImportError as error:
            extra = "pip install 'hadamrnn[postgresql]'" if postgresql else "install it"
            raise InputError(f"its driver is missing ({error.__cause__ or error}): {extra}") from error
        except DBAPIError as error:
            # A failed connection has no statement. A failed statement means that another worker creates
            # the same tables.
            if error.statement is None or attempt == ATTEMPTS:
                raise
            time.sleep(random.uniform(0.05, 0.5))
    raise AssertionError("the last attempt returns or raises")


def _open_journal(path: Path) -> JournalStorage:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not path.is_file():
        raise InputError("it is not a file")
    with suppress(FileNotFoundError), path.open("rb") as file:
        # optuna treats a single unreadable line as half written and appends to it.
        if file.read(len(JOURNAL_START)) not in (b"", JOURNAL_START):
            raise InputError("it is not the journal of a study")
    return JournalStorage(JournalFileBackend(str(path)))


def _reason(error: BaseException, place: str) -> str:
    """Return the first line of an error, without the password in `place`."""
    first = (str(error).strip() or type(error).__name__).splitlines()[0]
    for _, secret in (found for pattern in PASSWORDS for found in pattern.findall(place)):
        first = first.replace(secret, MASK).replace(unquote(secret), MASK)
    return first[:200]

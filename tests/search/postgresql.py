"""A PostgreSQL server for the tests marked database."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

import pytest

USER, PASSWORD = "tester", "s3cr@t"
PROGRAMS = "/usr/lib/postgresql/*/bin"  # Debian does not put them on the path


@contextmanager
def running_server() -> Iterator[str]:
    """Start a server with an empty cluster and yield `postgresql://USER:PASSWORD@HOST:PORT`.

    Skip if PostgreSQL is missing, unless HADAMRNN_DATABASE is set.
    """
    initdb, control = _program("initdb"), _program("pg_ctl")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        password = folder / "password"
        password.write_text(PASSWORD)
        as_user: list[str] = []
        if os.geteuid() == 0:  # the server refuses to run as root
            shutil.chown(folder, "postgres")
            shutil.chown(password, "postgres")
            as_user = ["runuser", "-u", "postgres", "--"]
        cluster, port = folder / "cluster", _free_port()

        def run(*words: object) -> None:
            line = [*as_user, *map(str, words)]
            subprocess.run(line, check=True, cwd=folder, stdout=subprocess.DEVNULL, timeout=60)

        run(initdb, "-D", cluster, "-U", USER, "--auth=scram-sha-256", "--pwfile", password, "--no-sync")
        options = f"-c listen_addresses=127.0.0.1 -p {port} -k {folder} -c fsync=off"
        run(control, "-D", cluster, "-l", folder / "log", "-w", "-o", options, "start")
        try:
            yield f"postgresql://{USER}:{PASSWORD.replace('@', '%40')}@127.0.0.1:{port}"
        finally:
            run(control, "-D", cluster, "-m", "immediate", "stop")


def _program(name: str) -> Path:
    folders = map(Path, os.environ["PATH"].split(os.pathsep))
    for folder in chain(folders, sorted(Path("/").glob(PROGRAMS[1:]))):
        if (folder / name).is_file():
            return folder / name
    if os.environ.get("HADAMRNN_DATABASE"):
        pytest.fail(f"HADAMRNN_DATABASE is set, but there is no {name}")
    pytest.skip(f"no {name}: make test-database installs PostgreSQL")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port

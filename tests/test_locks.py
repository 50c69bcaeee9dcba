"""Claims: one owner at a time, whatever the timing; only dead owners are replaced."""

from __future__ import annotations

import multiprocessing
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hadamrnn import files
from hadamrnn.errors import InputError
from hadamrnn.files import claim, locked

HOLD = """
import sys, time
from pathlib import Path
from hadamrnn.files import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""
CLAIMED = 'claim(Path(sys.argv[1]), "row")'


@contextmanager
def holder(code: str, folder: Path) -> Iterator[int]:
    """Yield the number of a process that claims something in `folder`; kill it at the end."""
    process = subprocess.Popen([sys.executable, "-c", code, str(folder)], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None and process.stdout.readline() == b"held\n"
        yield process.pid
    finally:
        process.kill()
        process.communicate()


def test_a_folder_is_held_by_one_process_and_a_kill_releases_it(tmp_path: Path) -> None:
    with (
        holder(HOLD, tmp_path) as process,
        pytest.raises(InputError, match=f"process {process}"),
        locked(tmp_path),
    ):
        pass

    with locked(tmp_path):
        with pytest.raises(InputError, match=f"process {os.getpid()}"), locked(tmp_path):
            pass
    with locked(tmp_path):
        pass


def test_a_claim_is_exclusive_and_ends_with_its_block(tmp_path: Path) -> None:
    with claim(tmp_path, "row") as first:
        assert first is not None
        with claim(tmp_path, "row") as second, claim(tmp_path, "row1") as other:
            assert second is None and other is not None
    with claim(tmp_path, "row") as third:
        assert third is not None
    assert list(tmp_path.iterdir()) == []


def test_a_claim_ends_with_an_error_too(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), claim(tmp_path, "row"):
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_a_claim_of_a_killed_process_is_free_at_once(tmp_path: Path) -> None:
    code = HOLD.replace("import locked", "import claim").replace("locked(Path(sys.argv[1]))", CLAIMED)
    with holder(code, tmp_path), claim(tmp_path, "row") as early:
        assert early is None
    with claim(tmp_path, "row") as late:
        assert late is not None


def test_a_claim_of_another_machine_is_taken_over_once_it_is_not_refreshed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "LEASE_SECONDS", 0.5)
    with claim(tmp_path, "row"):
        (marker,) = tmp_path.iterdir()
        text = marker.read_text().replace(f"host={socket.gethostname()}", "host=elsewhere")
    marker.write_text(text)

    with claim(tmp_path, "row") as hasty:
        assert hasty is None
    with claim(tmp_path, "row", patient=True) as patient:
        assert patient is not None


def test_a_refreshed_claim_is_never_taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LEASE_SECONDS", 0.5)
    with claim(tmp_path, "row") as first, claim(tmp_path, "row", patient=True) as second:
        assert first is not None and first.compromise is None and second is None


def test_a_wait_ends_when_it_is_told_to(tmp_path: Path) -> None:
    began = time.monotonic()
    with claim(tmp_path, "row"), claim(tmp_path, "row", patient=True, stop=lambda: True) as second:
        assert second is None and time.monotonic() - began < 10


def test_the_owner_of_a_lost_claim_notices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LEASE_SECONDS", 0.3)
    with claim(tmp_path, "row") as lost:
        assert lost is not None
        (marker,) = tmp_path.iterdir()
        marker.unlink()
        with claim(tmp_path, "row") as taken:
            assert taken is not None
            began = time.monotonic()
            while lost.compromise is None and time.monotonic() - began < 10:
                time.sleep(0.05)
            assert lost.compromise is not None and taken.compromise is None


def take_turns(folder: Path, log: Path, turns: int) -> None:
    """Claim one name `turns` times; during each claim, write `+` then `-`."""
    while turns:
        with claim(folder, "row") as claimed:
            if claimed is not None:
                turns -= 1
                with log.open("ab", buffering=0) as file:
                    file.write(b"+")
                    time.sleep(0.0005)
                    file.write(b"-")


def test_processes_never_hold_a_claim_together(tmp_path: Path) -> None:
    log = tmp_path / "log"
    context = multiprocessing.get_context("forkserver")
    processes = [context.Process(target=take_turns, args=(tmp_path / "locks", log, 20)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()

    written = log.read_text()
    assert all(process.exitcode == 0 for process in processes)
    assert written == "+-" * 3 * 20

"""Claims: one holder at a time, whatever the timing; the dead are succeeded, the living are not."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from hadamrnn.errors import InputError
from hadamrnn.locks import acquire, age, claim, generations, held

HOLD = """
import sys, time
from pathlib import Path
from hadamrnn.locks import held
with held(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_folder_is_held_by_one_process_and_a_kill_releases_it(tmp_path: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
        with pytest.raises(InputError, match=f"process {holder.pid}"), held(tmp_path):
            pass
    finally:
        holder.kill()
        holder.communicate()

    with held(tmp_path):
        with pytest.raises(InputError, match=f"process {os.getpid()}"), held(tmp_path):
            pass
    with held(tmp_path):
        pass


def make_stale(folder: Path) -> None:
    for path in folder.glob("*.lock"):
        os.utime(path, (time.time() - 1000, time.time() - 1000))


def test_a_claim_is_exclusive_and_ends_with_its_block(tmp_path: Path) -> None:
    with claim(tmp_path, "row") as first:
        assert first is not None and not first.lost
        with claim(tmp_path, "row") as second, claim(tmp_path, "row1") as other:
            assert second is None and other is not None
    with claim(tmp_path, "row") as third:
        assert third is not None
    assert list(tmp_path.iterdir()) == []


def test_a_claim_ends_with_an_error_too(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), claim(tmp_path, "row"):
        raise RuntimeError
    assert generations(tmp_path, "row") == []


def test_a_dead_claim_is_taken_over_and_the_old_owner_notices(tmp_path: Path) -> None:
    old = acquire(tmp_path, "row")
    assert old is not None and acquire(tmp_path, "row") is None
    make_stale(tmp_path)
    new = acquire(tmp_path, "row")

    assert new is not None and old.lost and not new.lost
    assert acquire(tmp_path, "row") is None
    old.release()  # what it no longer holds it does not give free
    assert not new.lost
    new.release()
    assert list(tmp_path.iterdir()) == []


def test_who_asks_often_asks_the_heartbeat_and_not_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = acquire(tmp_path, "row")
    assert old is not None
    make_stale(tmp_path)
    assert acquire(tmp_path, "row") is not None
    old.beat()
    monkeypatch.setattr("hadamrnn.locks.generations", None)
    assert old.seen_lost


def test_a_heartbeat_keeps_a_claim_alive(tmp_path: Path) -> None:
    with claim(tmp_path, "row", heartbeat_seconds=0.01) as held:
        assert held is not None
        make_stale(tmp_path)
        waited = time.monotonic()
        while age(held.path) > 100 and time.monotonic() - waited < 10:
            time.sleep(0.01)
        assert acquire(tmp_path, "row") is None


@pytest.mark.parametrize("stale", [False, True])
def test_of_many_that_reach_at_once_one_gets_it(stale: bool, tmp_path: Path) -> None:
    for trial in range(30):
        name = f"row{trial}"
        if stale:
            assert acquire(tmp_path, name) is not None
            make_stale(tmp_path)
        start = threading.Barrier(8)
        held: list[object] = []

        def reach(name: str = name, start: threading.Barrier = start, held: list[object] = held) -> None:
            start.wait()
            found = acquire(tmp_path, name)
            if found is not None:
                held.append(found)

        threads = [threading.Thread(target=reach) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(held) <= 1
        if not held:  # all backed off: the next one gets it
            make_stale(tmp_path)
            assert acquire(tmp_path, name) is not None


def take_turns(folder: Path, log: Path, turns: int) -> None:
    """Claim one name until it was held `turns` times; inside the claim, write `+` then `-`."""
    while turns:
        with claim(folder, "row") as held:
            if held is not None:
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

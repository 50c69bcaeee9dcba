"""Signals: exit status 130 or 143 and one line at any time."""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hadamrnn import cli
from hadamrnn.errors import InputError
from hadamrnn.interrupts import Interrupted, stopped_by_signals

STATUS = {signal.SIGINT: 130, signal.SIGTERM: 143}
DURING_IMPORT = """
import signal, sys
from hadamrnn.interrupts import raise_on_signals
raise_on_signals()
sys.path.insert(0, {folder!r})
try:
    import interrupted
except BaseException:
    print("the import went on")
"""


@pytest.mark.parametrize("number", STATUS)
def test_a_signal_during_an_import_ends_the_process_with_one_line(
    number: signal.Signals, tmp_path: Path
) -> None:
    (tmp_path / "interrupted.py").write_text(f"import signal\nsignal.raise_signal({int(number)})\n")
    code = DURING_IMPORT.format(folder=str(tmp_path))
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert ended.returncode == STATUS[number]
    assert ended.stdout == ""
    assert ended.stderr == f"hadamrnn: stopped by {number.name}; repeat the command to begin again\n"


@pytest.mark.parametrize("error", [KeyboardInterrupt(), Interrupted(signal.SIGTERM, "go on with: x")])
def test_every_command_ends_with_the_status_of_its_signal(
    error: KeyboardInterrupt, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(args: argparse.Namespace) -> None:
        raise error

    class Parser:
        def parse_args(self, argv: object) -> argparse.Namespace:
            return argparse.Namespace(command="any", run=run)

    monkeypatch.setattr(cli, "build_parser", Parser)
    expected = error if isinstance(error, Interrupted) else Interrupted()

    assert cli.main([]) == expected.status
    assert capsys.readouterr().err == f"hadamrnn any: {expected}\n"


@pytest.mark.parametrize("number", STATUS)
def test_a_stretch_of_work_ends_by_itself_and_then_raises(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    done = False
    with pytest.raises(Interrupted, match=f"stopped by {number.name}; go on") as caught:
        with stopped_by_signals(lambda: "go on") as stop:
            assert not stop()
            signal.raise_signal(number)
            done = stop()
    assert done and caught.value.status == STATUS[number]
    assert signal.getsignal(number) is before


def test_a_second_signal_does_not_wait() -> None:
    reached = False
    with pytest.raises(Interrupted, match="SIGTERM"), stopped_by_signals():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
        reached = True
    assert not reached


def test_what_a_stop_leaves_half_done_is_not_the_users_fault() -> None:
    with pytest.raises(Interrupted), stopped_by_signals():
        signal.raise_signal(signal.SIGINT)
        raise InputError("half done")
    with pytest.raises(InputError), stopped_by_signals():
        raise InputError("bad")


@pytest.mark.slow
@pytest.mark.parametrize("number", STATUS)
def test_a_stopped_training_does_not_let_the_next_command_begin(
    number: signal.Signals, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    command = [sys.executable, "-m", "hadamrnn", "train", "digits", "--epochs", "100000", "--quiet"]
    options = ["--hidden-size", "8", "--threads", "1", "--out", str(run)]
    training = subprocess.Popen(
        [*command, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        deadline = time.monotonic() + 120
        while not (run / "metrics.jsonl").is_file() and time.monotonic() < deadline:
            assert training.poll() is None
            time.sleep(0.05)
        training.send_signal(number)
        _, err = training.communicate(timeout=60)
    finally:
        training.kill()

    assert training.returncode == STATUS[number]
    assert err == f"hadamrnn train: stopped by {number.name}; continue with: hadamrnn train --resume {run}\n"
    assert (run / "resume.safetensors").is_file()

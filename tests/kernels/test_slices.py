"""Each slice is taken once, and no thread continues after the caller is interrupted."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis.strategies import integers

from hadamrnn.kernels.call import MAX_SLICES, count_slices
from hadamrnn.kernels.library import run_slices_on


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_every_slice_is_taken_once_whatever_the_threads(threads: int) -> None:
    taken: list[int] = []

    def kernel(args: Any, index: int) -> int:
        taken.append(index)
        return 0

    run_slices_on(threads, kernel, None, 40)

    assert sorted(taken) == list(range(40))


def test_an_interrupt_waits_for_the_helpers_and_takes_no_more_slices() -> None:
    """The helpers use the caller's memory, which is freed once the interrupt arrives."""
    caller, ended, begun = threading.current_thread(), [], threading.Event()

    def kernel(args: Any, index: int) -> int:
        if threading.current_thread() is caller:
            begun.wait(10)
            raise KeyboardInterrupt
        begun.set()
        time.sleep(0.3)
        ended.append(index)
        return 0

    with pytest.raises(KeyboardInterrupt):
        run_slices_on(2, kernel, None, 40)

    assert len(ended) == 1
    time.sleep(0.4)
    assert len(ended) == 1


def test_a_kernel_that_fails_in_a_helper_fails_the_call() -> None:
    caller = threading.current_thread()

    def kernel(args: Any, index: int) -> int:
        time.sleep(0.01)
        return 2 * (threading.current_thread() is not caller)

    with pytest.raises(ValueError, match="refused its sizes"):
        run_slices_on(2, kernel, None, 40)


@given(parts=integers(0, 10**6), work=integers(0, 10**12), grain=integers(1, 10**9))
def test_a_call_is_cut_into_as_few_slices_as_its_work_needs(parts: int, work: int, grain: int) -> None:
    slices = count_slices(parts, work, grain)

    assert 1 <= slices <= max(1, min(parts, MAX_SLICES))
    assert slices == parts or slices & (slices - 1) == 0  # threads get equal shares
    assert slices == 1 or (slices / 2 * grain < work)  # half as many would be too long
    assert slices in (max(1, parts), MAX_SLICES) or slices * grain >= work

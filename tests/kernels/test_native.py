"""The native library: operators, determinism, instruction sets and refused inputs."""

from __future__ import annotations

import ctypes
import hashlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from multiprocessing import get_context

import pytest
import torch
from torch import Tensor

from hadamrnn.errors import InputError
from hadamrnn.kernels import backend, call, scan
from hadamrnn.kernels import library as library_module
from hadamrnn.kernels.library import LossArgs, load_library, native_kernel, native_status
from hadamrnn.kernels.loss import loss_and_gradient
from hadamrnn.kernels.methods import run
from hadamrnn.kernels.recurrence import DIFFERENTIABLE, Recurrence
from hadamrnn.kernels.scan import native_scan
from hadamrnn.network import Network
from hadamrnn.nn.model import SequenceModel
from hadamrnn.nn.rnn import HadamRNN
from tests.kernels.problems import leaves, make_case

pytestmark = pytest.mark.usefixtures("native")


@pytest.mark.parametrize("kind", ["dense", "wide", "tokens"])
@pytest.mark.parametrize("relu", [False, True])
def test_the_scan_passes_opcheck(kind: str, relu: bool) -> None:
    case = make_case(12, 12, kind=kind, relu=relu, with_h_0=True, with_lengths=True)
    weight = torch.randn(3, 12, dtype=torch.float64, requires_grad=True)
    for options in ({}, {"every_output": True}, {"output_weight": weight, "sigma": True}):
        torch.library.opcheck(torch.ops.hadamrnn.scan.default, replace(case, **options).arguments())


def test_gradients_that_are_not_wanted_have_no_numbers_traced_or_not() -> None:
    arguments = make_case(12, 12, kind="dense").arguments()
    kept = [result.detach() for result in torch.ops.hadamrnn.scan(*arguments)]
    wanted = [name in ("weight", "signs") for name in DIFFERENTIABLE]
    given = (*arguments, [None, torch.ones_like(kept[1]), None, None, None], kept, wanted)

    found = torch.ops.hadamrnn.scan_backward(*given)

    assert [gradient.numel() > 0 for gradient in found] == wanted
    torch.library.opcheck(
        torch.ops.hadamrnn.scan_backward.default, given, test_utils=("test_schema", "test_faketensor")
    )


def gradients(case: Recurrence) -> list[Tensor]:
    output, last, *_ = native_scan(case.signs)(*replace(case, every_output=True).arguments())
    return list(torch.autograd.grad(output.square().sum() + last.sum(), leaves(case)))


@pytest.fixture
def threads() -> object:
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.mark.parametrize("kind", ["dense", "tokens"])
def test_bits_do_not_depend_on_the_threads(kind: str, threads: Callable[[int], None]) -> None:
    case = make_case(64, 64, kind=kind, batch=37, time=50, dtype=torch.float32)
    logits, targets = torch.randn(20_000, 9), torch.randint(9, (20_000,))
    threads(1)
    expected, expected_loss = gradients(case), loss_and_gradient(logits, targets, True)
    for count in (2, 5, 1, 3):
        threads(count)
        assert all(map(torch.equal, gradients(case), expected))
        assert all(map(torch.equal, loss_and_gradient(logits, targets, True), expected_loss))


def test_many_python_threads_at_once_give_the_same_bits(threads: Callable[[int], None]) -> None:
    case = make_case(64, 64, batch=9, time=30, dtype=torch.float32)
    expected = gradients(case)
    failures: list[int] = []

    def work(index: int) -> None:
        for count in (1, 2, 4):
            torch.set_num_threads(count)
            if not all(map(torch.equal, gradients(case), expected)):
                failures.append(index)

    workers = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert not failures and not any(worker.is_alive() for worker in workers)


def forked_last_state() -> list[float]:
    case = make_case(16, 16, batch=8, time=20)
    with torch.no_grad():
        _, last, *_ = native_scan(case.signs)(*case.arguments())
    return [float(value) for value in last.flatten()]


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_neither_hangs_nor_changes_the_bits(threads: Callable[[int], None]) -> None:
    threads(2)
    expected = forked_last_state()  # starts the helper threads, which the child does not inherit
    with get_context("fork").Pool(1) as pool:
        assert pool.apply_async(forked_last_state).get(timeout=60) == expected


@pytest.mark.slow
def test_every_instruction_set_computes_the_same() -> None:
    library = load_library()
    assert library is not None
    code = (
        "from tests.kernels.test_native import gradients, make_case\n"
        "for size, block in ((64, 64), (24, 12), (20, 4), (512, 32)):\n"
        "    print(*(float(g.double().norm()) for g in gradients(make_case(size, block))))"
    )
    lines = {
        isa: subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "HADAMRNN_ISA": isa},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        for isa in library.isas
    }
    baseline = torch.tensor([float(word) for word in lines["baseline"]], dtype=torch.float64)
    for words in lines.values():
        found = torch.tensor([float(word) for word in words], dtype=torch.float64)
        torch.testing.assert_close(found, baseline, rtol=1e-10, atol=0)


@pytest.mark.parametrize(
    ("variable", "value", "rule"),
    [
        ("HADAMRNN_ISA", "mmx", "HADAMRNN_ISA must be one of"),
        ("HADAMRNN_NATIVE_LIBRARY", "/nowhere.so", "HADAMRNN_NATIVE_LIBRARY must name a kernel library"),
    ],
)
def test_a_wrong_environment_is_one_line(variable: str, value: str, rule: str) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "hadamrnn", "doctor"],
        env={**os.environ, variable: value},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 2
    assert rule in run.stderr and run.stderr.count("\n") == 1


def test_ids_lengths_and_targets_out_of_range_are_refused() -> None:
    case = make_case(8, 8, kind="tokens")
    assert case.ids is not None
    with pytest.raises(InputError, match=r"ids must lie in 0\.\.4, got"):
        run(replace(case, ids=case.ids + 5))
    with pytest.raises(InputError, match=r"lengths must lie in 0\.\.7, got 8"):
        run(replace(case, lengths=torch.tensor([0, 8, 1])))
    with pytest.raises(InputError, match=r"targets must lie in 0\.\.3, got 4"):
        loss_and_gradient(torch.zeros(2, 4), torch.tensor([0, 4]), False)


def test_the_status_names_the_library() -> None:
    status = native_status()
    library = load_library()
    assert library is not None
    assert (status.backend, status.isa, status.path) == ("native", library.isa, str(library.path))
    assert "baseline" in library.isas


def test_every_slice_is_taken_once_however_many_threads_ask(threads: Callable[[int], None]) -> None:
    taken: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library_module, "range", _switching_range, raising=False)
        threads(8)
        library_module.run_slices_on(8, lambda _, index: taken.append(index) or 0, None, 200)  # type: ignore[func-returns-value]

    assert sorted(taken) == list(range(200))


class _switching_range:
    """A range whose iterator lets other threads run between reading and advancing, as without the GIL."""

    def __init__(self, stop: int) -> None:
        self.value, self.stop = 0, stop

    def __iter__(self) -> _switching_range:
        return self

    def __next__(self) -> int:
        value = self.value
        time.sleep(0)
        if value >= self.stop:
            raise StopIteration
        self.value = value + 1
        return value


def test_a_library_whose_structures_differ_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    library = load_library()
    assert library is not None
    header = library_module.HEADER.replace(b"int64_t batch,", b"int64_t batch, leak,")
    monkeypatch.setattr(library_module, "INTERFACE", hashlib.sha256(header).hexdigest())
    with pytest.raises(OSError, match="make setup"):
        library_module.Library(library.path, None)


def test_the_structures_have_the_members_and_the_types_of_the_header() -> None:
    members: dict[str, object] = {name: kind for name, kind, *_ in library_module.ScanArgs._fields_}
    groups: dict[str, object] = {name: kind for name, kind, *_ in library_module.ReservoirGroupArgs._fields_}

    assert [members[name] for name in ("time", "scale", "ids")] == [
        ctypes.c_int64,
        ctypes.c_double,
        ctypes.c_void_p,
    ]
    assert ctypes.sizeof(library_module.IntegerArgs) == 8 * len(library_module.IntegerArgs._fields_)
    assert groups["ends"] is ctypes.c_int64 * 3


def test_the_loss_of_no_classes_is_refused_in_c_too() -> None:
    losses = torch.zeros(1)
    args = LossArgs(positions=1, classes=0, num_slices=1, losses=losses.data_ptr())
    with pytest.raises(ValueError, match="refused its sizes"):
        library_module.run_slices_on(1, native_kernel("loss", torch.float32), args, 1)


def test_ids_are_looked_at_once_at_the_door_in_a_training_step(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    monkeypatch.setattr(backend, "check_range", lambda name, *_: looked.append(name))
    monkeypatch.setattr(call, "check_range", lambda name, *_: looked.append(name))
    model = SequenceModel(Network(5, 8, 2, input_kind="one_hot"))
    model.loss(torch.randint(5, (3, 7)), torch.tensor([0, 1, 0])).backward()

    assert looked == ["Token ids"]


def test_a_training_step_reaches_c_within_eight_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count from HadamRNN.forward (included) to the kernel, torch's own frames included."""
    depths: list[int] = []

    def counting(kernel: Callable[..., int]) -> Callable[..., int]:
        def call_kernel(*arguments: object) -> int:
            frame, depth = sys._getframe(1), 1
            while frame.f_code is not HadamRNN.forward.__code__:
                assert frame.f_back is not None
                frame, depth = frame.f_back, depth + 1
            depths.append(depth)
            return kernel(*arguments)

        return call_kernel

    found = native_kernel
    monkeypatch.setattr(scan, "native_kernel", lambda *names: counting(found(*names)))
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for options in ({}, {"num_layers": 2, "normalize": True}, {"bidirectional": True}):
            layer = HadamRNN(3, 16, batch_first=True, **options)
            layer(torch.randn(4, 9, 3))[0].sum().backward()
    finally:
        torch.set_num_threads(before)

    assert depths and max(depths) <= 8

"""Find, load and call the native library. No torch here.

The build puts one file, `hadamrnn_kernels.so`, into this package's folder; in an editable install, into the
folder in site-packages, which is also on the package's `__path__`. Nothing is compiled at run time. Without
the library, `load_library` returns None and the layers fall back to torch.

Two environment variables: `HADAMRNN_NATIVE_LIBRARY` names the file to load (`none` loads none), and
`HADAMRNN_ISA` forces one of the library's instruction sets (`baseline`, `avx2`, `avx512`).
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any

from hadamrnn.errors import InputError

LIBRARY_NAME = "hadamrnn_kernels.so"

INPUT_DENSE, INPUT_TOKENS, INPUT_ROWS = range(3)
STATUS_NO_MEMORY = 1

Kernel = Callable[..., int]


def read_structures(header: str) -> dict[str, type[ctypes.Structure]]:
    """Parse the structures of a C header whose members are `int64_t`, `double` and pointers.

    >>> read_structures("typedef struct { int64_t ends[3]; const void *a, *b; } Args;")["Args"]._fields_[1]
    ('a', <class 'ctypes.c_void_p'>)
    """
    found: dict[str, type[ctypes.Structure]] = {}
    text = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    for body, name in re.findall(r"typedef struct {(.*?)} (\w+);", text, re.DOTALL):
        members = [member for line in body.split(";")[:-1] for member in _members(line)]
        found[name] = type(name, (ctypes.Structure,), {"_fields_": members})
    return found


def _members(declaration: str) -> Iterator[tuple[str, Any]]:
    """Yield the name and type of each member that a line declares."""
    kind, members = declaration.replace("const ", "").split(maxsplit=1)
    for member in members.split(","):
        name, _, count = member.strip().rstrip("]").partition("[")
        if name.startswith("*"):
            yield name[1:], ctypes.c_void_p
        else:
            number: Any = {"int64_t": ctypes.c_int64, "double": ctypes.c_double}[kind]
            yield name, number * int(count) if count else number


# The argument structures, read from the header that the library was compiled with.
HEADER = (Path(__file__).parent / "native" / "arguments.h").read_bytes()
INTERFACE = hashlib.sha256(HEADER).hexdigest()
_STRUCTURES = read_structures(HEADER.decode())
ScanArgs = _STRUCTURES["ScanArgs"]
NormArgs = _STRUCTURES["NormArgs"]
ProductArgs = _STRUCTURES["ProductArgs"]
LossArgs = _STRUCTURES["LossArgs"]
IntegerArgs = _STRUCTURES["IntegerArgs"]
FrontEndArgs = _STRUCTURES["FrontEndArgs"]
ReservoirArgs = _STRUCTURES["ReservoirArgs"]
ReservoirGroupArgs = _STRUCTURES["ReservoirGroupArgs"]
# Argument types of the kernels that do not take a structure and a slice number.
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "tile_rows": (),
    "integer_rows": (),
    "reduce": (*(ctypes.c_int64,) * 4, ctypes.c_void_p, ctypes.c_void_p),
}


@dataclass(frozen=True)
class NativeStatus:
    """The backend that runs the recurrence on the CPU, and why."""

    backend: str  # "native" or "torch"
    isa: str | None  # the instruction set in use, if native
    path: str | None  # path of the library
    reason: str  # one line that tells the user why


class Library:
    """The loaded library, bound to one instruction set."""

    def __init__(self, path: Path, isa: str | None) -> None:
        self.path = path
        self._handle = ctypes.CDLL(str(path))
        self._handle.hadamrnn_interface.restype = ctypes.c_char_p
        if self._handle.hadamrnn_interface().decode() != INTERFACE:
            raise OSError(f"{path} was built from other sources, run `make setup` or install again")
        self._handle.hadamrnn_isa.restype = ctypes.c_char_p
        self._handle.hadamrnn_kernel.restype = ctypes.c_void_p
        self._handle.hadamrnn_kernel.argtypes = (ctypes.c_char_p, ctypes.c_char_p)
        self.isas = self._supported_isas()
        if isa is not None and isa not in self.isas:
            raise InputError(
                f"HADAMRNN_ISA must be one of {', '.join(self.isas)} on this machine, got {isa!r}."
            )
        self.isa = isa or self.isas[0]
        self._kernels: dict[str, Kernel] = {}

    def kernel(self, name: str, real: str = "") -> Kernel:
        """Return the kernel `name` for `real` ("float", "double", or "" for the integer network).

        The kernel returns a status, 0 for success.
        """
        full_name = f"{name}_{real}" if real else name
        if full_name not in self._kernels:
            address = self._handle.hadamrnn_kernel(self.isa.encode(), full_name.encode())
            assert address is not None, f"{self.isa} has no {full_name}"
            takes = _SIGNATURES.get(name, (ctypes.c_void_p, ctypes.c_int64))
            self._kernels[full_name] = ctypes.CFUNCTYPE(ctypes.c_int, *takes)(address)
        return self._kernels[full_name]

    def _supported_isas(self) -> list[str]:
        names: list[str] = []
        while name := self._handle.hadamrnn_isa(len(names)):
            names.append(name.decode())
        return names


@cache
def load_library() -> Library | None:
    """Return the native library, or None if it was not built or cannot be loaded."""
    return _load()[0]


def native_kernel(name: str, dtype: object) -> Kernel:
    """Return a kernel for float32 or float64 of torch or numpy; the library must be available."""
    library = load_library()
    real = {"float32": "float", "float64": "double"}.get(str(dtype).removeprefix("torch."))
    if library is None or real is None:
        raise InputError(
            f"The native library computes in float32 or float64, got {dtype}; it is {native_status().reason}."
        )
    return library.kernel(name, real)


def native_status() -> NativeStatus:
    """Return the backend that runs the recurrence on the CPU, with the reason."""
    library, reason = _load()
    if library is None:
        return NativeStatus("torch", None, None, reason)
    return NativeStatus("native", library.isa, str(library.path), reason)


@cache
def _load() -> tuple[Library | None, str]:
    wanted = os.environ.get("HADAMRNN_NATIVE_LIBRARY")
    isa = os.environ.get("HADAMRNN_ISA") or None
    if wanted == "none":
        return None, "HADAMRNN_NATIVE_LIBRARY=none"
    if wanted:
        try:  # The user requested this library, so failure is an error, not a reason to fall back.
            return Library(Path(wanted), isa), "named by HADAMRNN_NATIVE_LIBRARY"
        except OSError as error:
            raise InputError(
                f"HADAMRNN_NATIVE_LIBRARY must name a kernel library, got {wanted!r}: {error}."
            ) from error
    path = _find()
    if path is None:
        return None, "not built; install with a C compiler to get it"
    try:
        return Library(path, isa), "found in the package"
    except OSError as error:
        return None, f"not usable: {error}"


def _find() -> Path | None:
    import hadamrnn.kernels

    files = (Path(folder) / LIBRARY_NAME for folder in hadamrnn.kernels.__path__)
    return next((file for file in files if file.is_file()), None)


_jobs: SimpleQueue[_Job] = SimpleQueue()
_num_helpers = 0
_start_lock = Lock()


def run_slices_on(threads: int, kernel: Kernel, args: ctypes.Structure | None, num_slices: int) -> None:
    """Call `kernel(args, slice)` for every slice, on several threads.

    A slice is a fixed part of the work, so the result does not depend on which thread runs it. ctypes
    releases the interpreter's lock during a call, so plain Python threads suffice. The calling thread works
    too. A forked child discards the helpers, because threads do not survive a fork.

    When this function returns or raises, for example on Ctrl-C, no helper is running, so the caller may free
    the buffers.
    """
    slices = _Slices(num_slices)
    helpers = min(threads, num_slices) - 1
    jobs: list[_Job] = []
    try:
        for _ in range(helpers):
            job = _Job(kernel, args, slices)
            _helpers(helpers).put(job)
            jobs.append(job)
        pointer = None if args is None else ctypes.byref(args)
        while (index := slices.take()) is not None:
            _check_status(kernel(pointer, index))
    finally:
        slices.withdraw()
        _join(jobs)
    for job in jobs:
        if job.error is not None:
            raise job.error


def _join(jobs: list[_Job]) -> None:
    """Wait until all jobs are done, and raise an interrupt only afterwards."""
    interrupts: list[BaseException] = []
    for job in jobs:
        while not job.is_done:
            try:
                job.running.acquire()
            except BaseException as interrupt:
                interrupts.append(interrupt)
    if interrupts:
        raise interrupts[0]


class _Slices:
    """A thread-safe queue of the remaining slices."""

    def __init__(self, count: int) -> None:
        self._left = iter(range(count))
        self._lock = Lock()  # in free-threaded Python, threads cannot share an iterator

    def take(self) -> int | None:
        with self._lock:
            return next(self._left, None)

    def withdraw(self) -> None:
        """Discard the remaining slices."""
        with self._lock:
            self._left = iter(range(0))


class _Job:
    """The share of a helper thread in a call. (Handing over a Future takes longer than a small kernel.)"""

    def __init__(self, kernel: Kernel, args: ctypes.Structure | None, slices: _Slices) -> None:
        self._kernel, self._args, self._slices = kernel, args, slices
        self.error: BaseException | None = None
        self.is_done = False
        self.running = Lock()
        self.running.acquire()

    def run(self) -> None:
        """Take slices until none is left."""
        pointer = None if self._args is None else ctypes.byref(self._args)
        try:
            while (index := self._slices.take()) is not None:
                _check_status(self._kernel(pointer, index))
        except BaseException as error:
            self.error = error
        self.is_done = True
        self.running.release()


def _check_status(status: int) -> None:
    if status == STATUS_NO_MEMORY:
        raise MemoryError("the native kernel could not allocate its work space")
    if status:
        raise ValueError(f"the native kernel refused its sizes (status {status})")


def _helpers(count: int) -> SimpleQueue[_Job]:
    """Return the queue of the helpers, of which there are at least `count`."""
    global _num_helpers
    with _start_lock:
        while _num_helpers < count:
            Thread(target=_serve, args=(_jobs,), name="hadamrnn", daemon=True).start()
            _num_helpers += 1
        return _jobs


def _serve(jobs: SimpleQueue[_Job]) -> None:
    while True:
        jobs.get().run()


def _forget() -> None:
    global _jobs, _num_helpers, _start_lock
    _jobs, _num_helpers, _start_lock = SimpleQueue(), 0, Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)

"""Find and load the native library; mirror its structures. No torch here.

The build puts one file, `hadamrnn_kernels.so`, into this package's folder; in an editable install that is the
folder in site-packages, which is also on the package's `__path__`. Nothing is ever compiled at run time:
without the library `load_library` returns None and the layers fall back to torch.

Environment: `HADAMRNN_NATIVE_LIBRARY` names the file to load (`none`: do not load any), `HADAMRNN_ISA`
forces one of the library's instruction sets (`baseline`, `avx2`, `avx512`).
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from hadamrnn.errors import InputError

LIBRARY_NAME = "hadamrnn_kernels.so"
ABI_VERSION = 16

INPUT_DENSE, INPUT_TOKENS, INPUT_ROWS = range(3)
STATUS_NO_MEMORY = 1

Kernel = Callable[..., int]


def _fields(kind: Any, names: str) -> tuple[tuple[str, Any], ...]:
    return tuple((name, kind) for name in names.split())


class ScanArgs(ctypes.Structure):
    """`ScanArgs` of native/arguments.h, which explains every field."""

    _fields_ = (
        *_fields(ctypes.c_int64, "batch time hidden input_size num_ids output_size num_thresholds"),
        *_fields(ctypes.c_int64, "sylvester num_factors input_kind relu replay sigma segment num_slices"),
        ("scale", ctypes.c_double),
        *_fields(ctypes.c_void_p, "factor_orders factors factors_transposed signs x ids weight bias h_0"),
        *_fields(ctypes.c_void_p, "lengths output_weight output_bias thresholds"),
        *_fields(ctypes.c_void_p, "output logits last checkpoints"),
        *_fields(ctypes.c_void_p, "mean positive max mean_bits positive_bits max_steps"),
        *_fields(ctypes.c_void_p, "grad_output grad_logits grad_last grad_mean grad_positive grad_max"),
        *_fields(ctypes.c_void_p, "grad_x grad_h_0 grad_weight grad_bias grad_signs"),
        *_fields(ctypes.c_void_p, "grad_output_weight grad_output_bias"),
    )


class ProductArgs(ctypes.Structure):
    """`ProductArgs` of native/arguments.h."""

    _fields_ = (
        *_fields(ctypes.c_int64, "rows columns depth a_row a_step num_slices"),
        *_fields(ctypes.c_void_p, "a b bias c"),
    )


class LossArgs(ctypes.Structure):
    """`LossArgs` of native/arguments.h."""

    _fields_ = (
        *_fields(ctypes.c_int64, "positions classes num_slices"),
        *_fields(ctypes.c_void_p, "logits targets losses grad_logits"),
        ("scale", ctypes.c_double),
    )


class NormArgs(ctypes.Structure):
    """`NormArgs` of native/arguments.h."""

    _fields_ = (
        *_fields(ctypes.c_int64, "batch time size num_slices"),
        *_fields(ctypes.c_void_p, "lengths h skip scale shift sums y grad_y mean slope offset grad_h"),
    )


class IntegerArgs(ctypes.Structure):
    """`IntegerArgs` of native/arguments.h."""

    _fields_ = (
        *_fields(ctypes.c_int64, "batch time every_output"),
        ("blob", ctypes.c_void_p),
        ("blob_bytes", ctypes.c_int64),
        *_fields(ctypes.c_void_p, "x ids table lengths logits saturations"),
    )


class FrontEndArgs(ctypes.Structure):
    """`FrontEndArgs` of native/arguments.h."""

    _fields_ = (
        *_fields(ctypes.c_int64, "count frame hop log2_size bands is_mel noise_shift"),
        *_fields(ctypes.c_void_p, "window cosines edges weights log2 samples codes"),
    )


class ReservoirGroupArgs(ctypes.Structure):
    """`ReservoirGroupArgs` of native/arguments.h."""

    _fields_ = (
        *_fields(
            ctypes.c_int64, "log2_width dilation is_difference input_shift is_segmented blocks features"
        ),
        ("ends", ctypes.c_int64 * 3),
        *_fields(ctypes.c_int64, "first_block first_feature first_segment sampled"),
        ("states", ctypes.c_void_p),
    )


class ReservoirArgs(ctypes.Structure):
    """`ReservoirArgs` of native/arguments.h."""

    _fields_ = (
        *_fields(ctypes.c_int64, "batch time channels num_groups channel_bytes features every"),
        *_fields(ctypes.c_void_p, "groups block unit threshold segment x lengths counts saturations"),
    )


MIRRORS: dict[str, type[ctypes.Structure]] = {
    "scan_args": ScanArgs,
    "norm_args": NormArgs,
    "product_args": ProductArgs,
    "loss_args": LossArgs,
    "integer_args": IntegerArgs,
    "front_end_args": FrontEndArgs,
    "reservoir_args": ReservoirArgs,
    "reservoir_group_args": ReservoirGroupArgs,
}
# Argument types of the kernels that do not take a structure and the number of a slice.
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "tile_rows": (),
    "integer_rows": (),
    "reduce": (*(ctypes.c_int64,) * 4, ctypes.c_void_p, ctypes.c_void_p),
}


@dataclass(frozen=True)
class NativeStatus:
    """The backend of the recurrence on the CPU, and the reason for it."""

    backend: str  # "native" or "torch"
    isa: str | None  # the instruction set in use, native only
    path: str | None  # path of the library
    reason: str  # one line for the user


class Library:
    """The loaded library, bound to one instruction set."""

    def __init__(self, path: Path, isa: str | None) -> None:
        self.path = path
        self._handle = ctypes.CDLL(str(path))
        version = self._handle.hadamrnn_abi_version()
        if version != ABI_VERSION:
            raise OSError(f"{path} has kernel interface {version}, this package needs {ABI_VERSION}")
        for name, mirror in MIRRORS.items():
            size = getattr(self._handle, f"hadamrnn_{name}_size")
            size.restype = ctypes.c_int64
            if size() != ctypes.sizeof(mirror):
                raise OSError(f"{path} has {name} of {size()} bytes, this package {ctypes.sizeof(mirror)}")
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
        """Return the kernel `name` for `real` ("float" or "double", or none for the integer network).

        It returns a status, 0 for success.
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
        try:  # Requested explicitly: failure is an error, not a reason to fall back.
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

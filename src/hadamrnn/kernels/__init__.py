"""Run the native kernels: C source in `native/`, its loader, and one torch operator per kernel.

Start reading at `scan`; `native_status` reports whether the library was found.
"""

from hadamrnn.kernels.library import NativeStatus as NativeStatus
from hadamrnn.kernels.library import native_status as native_status

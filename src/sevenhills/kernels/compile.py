"""The ways in which this project compiles a function, all of them at its first call."""

import numpy as np
from numba import njit

_COMMON = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
_INNER = {**_COMMON, "no_cpython_wrapper": True}

#: Called from Python: without the GIL, dividing like numpy, kept on disk.
kernel = njit(cache=True, **_COMMON)

#: Called from kernels only, and compiled into them.
inner = njit(**_INNER)

#: The same, where a product may be added without being rounded first.
fused_inner = njit(fastmath={"contract"}, **_INNER)

#: The same, where a sum may be reordered so that it vectorises.
summing_inner = njit(fastmath={"reassoc"}, **_INNER)

#: Kernels that are called with the number 0 are compiled twice: for a literal and for an integer.
ZERO = np.int64(0)

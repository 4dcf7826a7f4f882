"""The ways in which this project compiles a function, all of them at its first call."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

_COMMON = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
_INNER = {**_COMMON, "no_cpython_wrapper": True}

#: Called from kernels only, and compiled into them.
inner = njit(**_INNER)

#: The same, where a product may be added without being rounded first.
fused_inner = njit(fastmath={"contract"}, **_INNER)

#: The same, where a sum may be reordered so that it vectorises.
summing_inner = njit(fastmath={"reassoc"}, **_INNER)

#: The same, where nothing is not a number, so that a comparison vectorises.
comparing_inner = njit(fastmath={"nnan", "nsz", "reassoc"}, **_INNER)

#: Kernels that are called with the number 0 are compiled twice: for a literal and for an integer.
ZERO = np.int64(0)


def kernel(function: Callable[..., Any]) -> Any:
    """Compile for calls from Python: without the GIL, dividing like numpy, kept on disk.

    Where no folder can be written to, as in some containers, it is compiled in every process.
    """
    try:
        return njit(cache=True, **_COMMON)(function)
    except RuntimeError:
        return njit(**_COMMON)(function)

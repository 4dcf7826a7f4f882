"""Sums of exponentials whose exponents come from a product of matrices."""

import numpy as np

from .compile import fused_inner, kernel
from .mixture import _LOWEST, _largest, _split_power, _total


@kernel
def add_exponentials(products, halves, shifts, negligible, work, bits, sums):
    """Add ``exp(products + shifts - halves)`` of a block of kernels to the sums at every point.

    Parameters
    ----------
    products : (Q, S)
        The inner products of points and kernels.
    halves, shifts : (Q,), (S,)
        Half the squared lengths of points, and what is added for every kernel.
    negligible : float
        Exponents so far below the largest one do not matter.
    work, bits : (3, S)
        Room to work in: the same memory, as floats and as integers.
    sums : (2, Q)
        The largest exponent met so far, and the sum relative to it; changed.
    """
    size = products.shape[1]
    for i in range(products.shape[0]):
        _exponents(products, i, halves, shifts, work)
        top = _largest(work)
        if not top > sums[0, i] - negligible:
            continue
        if top > sums[0, i]:
            sums[1, i] *= np.exp(sums[0, i] - top)
            sums[0, i] = top
        for s in range(size):
            value = work[0, s] - sums[0, i]
            work[0, s] = value if value > _LOWEST else _LOWEST
        _split_power(work)
        for s in range(size):
            bits[2, s] += bits[1, s] << 52
        sums[1, i] += _total(work)


@fused_inner
def _exponents(products, i, halves, shifts, work):
    for s in range(products.shape[1]):
        work[0, s] = products[i, s] + (shifts[s] - halves[i])

"""Sums of exponentials whose exponents come from a product of matrices."""

import numpy as np

from .compile import fused_inner, inner, kernel
from .gauss_transform import _HIGHEST
from .mixture import _LOG2_E, _LOWEST, _SHIFTER, _largest, _total

_LN2 = 0.6931471805599453


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
        An exponent, and the sum relative to it; changed.
    """
    size = products.shape[1]
    for i in range(products.shape[0]):
        if sums[1, i] == 0.0:
            sums[0, i] = _top_exponent(products, i, shifts, halves[i])
            if sums[0, i] == -np.inf:
                continue
        _exponents(products, i, shifts, halves[i] + sums[0, i], work)
        top = _largest(work)
        if top < -negligible:
            continue
        if top > _HIGHEST:
            sums[1, i] *= np.exp(-top)
            sums[0, i] += top
            _exponents(products, i, shifts, halves[i] + sums[0, i], work)
        _split_power_roughly(work)
        for s in range(size):
            bits[2, s] += bits[1, s] << 52
        sums[1, i] += _total(work)


@inner
def _top_exponent(products, i, shifts, half):
    """Return the largest exponent of a block of kernels."""
    top = -np.inf
    for s in range(products.shape[1]):
        value = products[i, s] + shifts[s] - half
        top = value if value > top else top
    return top


@inner
def _exponents(products, i, shifts, less, work):
    """Write the exponents of a block of kernels, less a number, into ``work[0]``."""
    for s in range(products.shape[1]):
        value = products[i, s] + shifts[s] - less
        work[0, s] = value if value > _LOWEST else _LOWEST


@fused_inner
def _split_power_roughly(work):
    """Write ``exp(work[0])`` as ``work[2]`` times two to the last bits of ``work[1]``.

    With fewer terms than elsewhere, wrong by a part of 7e-12.
    """
    for s in range(work.shape[1]):
        shifted = work[0, s] * _LOG2_E + _SHIFTER
        r = work[0, s] - (shifted - _SHIFTER) * _LN2
        p = 2.7557319223985893e-06 * r + 2.48015873015873e-05
        p = p * r + 0.0001984126984126984
        p = p * r + 0.001388888888888889
        p = p * r + 0.008333333333333333
        p = p * r + 0.041666666666666664
        p = p * r + 0.16666666666666666
        p = p * r + 0.5
        p = p * r + 1.0
        work[1, s] = shifted
        work[2, s] = p * r + 1.0

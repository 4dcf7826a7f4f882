"""Sums of exponentials whose exponents come from a product of matrices."""

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from .compile import fused_inner, inner, kernel, summing_inner
from .gauss_transform import _HIGHEST
from .mixture import _LOG2_E, _LOWEST, _SHIFTER

_LN2 = 0.6931471805599453


@kernel
def add_exponentials(products, halves, shifts, bounds, negligible, sums):
    """Add ``exp(products + shifts - halves)`` of a block of kernels to the sums at every point.

    Parameters
    ----------
    products : (Q, S)
        The inner products of points and kernels.
    halves, shifts : (Q,), (S,)
        Half the squared lengths of points, and the constants of every kernel.
    bounds : (Q,)
        What the exponents are at most.
    negligible : float
        Exponents so far below the largest one do not matter.
    sums : (2, Q)
        An exponent, and the sum relative to it; changed.
    """
    for i in range(products.shape[0]):
        if bounds[i] < sums[0, i] - negligible:
            continue
        if bounds[i] - sums[0, i] > _HIGHEST:
            top = _top_exponent(products, i, shifts, halves[i])
            if sums[1, i] == 0.0 or top - sums[0, i] > _HIGHEST:
                sums[1, i] *= np.exp(sums[0, i] - top) if sums[1, i] > 0.0 else 0.0
                sums[0, i] = top
            if top == -np.inf:
                continue
        sums[1, i] += _sum_exponentials(products, i, shifts, halves[i] + sums[0, i])


@inner
def _top_exponent(products, i, shifts, half):
    """Return the largest exponent of a block of kernels."""
    top = -np.inf
    for s in range(products.shape[1]):
        value = products[i, s] + shifts[s] - half
        top = value if value > top else top
    return top


@summing_inner
def _sum_exponentials(products, i, shifts, less):
    """Return the sum of the exponentials of a block's exponents minus a number."""
    total = 0.0
    for s in range(products.shape[1]):
        value = products[i, s] + shifts[s] - less
        total += _exponential(value if value > _LOWEST else _LOWEST)
    return total


@fused_inner
def _exponential(x):
    """Return ``exp(x)`` with a relative error of 7e-12, by products that are independent."""
    shifted = x * _LOG2_E + _SHIFTER
    r = x - (shifted - _SHIFTER) * _LN2
    r2 = r * r
    r4 = r2 * r2
    p01 = 1.0 + r
    p23 = 0.16666666666666666 * r + 0.5
    p45 = 0.008333333333333333 * r + 0.041666666666666664
    p67 = 0.0001984126984126984 * r + 0.001388888888888889
    p89 = 2.7557319223985893e-06 * r + 2.48015873015873e-05
    p = (p23 * r2 + p01) + r4 * ((p67 * r2 + p45) + r4 * p89)
    return _times_power(p, shifted)


@intrinsic
def _times_power(_context: Any, factor: Any, shifted: Any) -> Any:
    """Return a factor times two to the last bits of another number."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        whole, real = (context.get_value_type(each) for each in (types.int64, types.float64))
        number, power = (builder.bitcast(value, whole) for value in values)
        power = builder.shl(power, context.get_constant(types.int64, 52))
        return builder.bitcast(builder.add(number, power), real)

    return types.float64(types.float64, types.float64), generate

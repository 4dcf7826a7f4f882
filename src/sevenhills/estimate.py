"""A figure with the error that comes from a finite number of samples."""

from math import floor, isfinite, log10, nan, sqrt
from typing import Any, Self

import numpy as np
from scipy.special import ndtri


class Estimate(float):
    """A number that knows its standard error.

    It behaves as the float that it is; arithmetic with it gives plain floats.

    Parameters
    ----------
    value : float
    std_error : float, default=nan
        The standard error, NaN if it is not known.
    n : int, default=1
        The number of terms that went into the value.

    Examples
    --------
    >>> from sevenhills.metrics import Estimate
    >>> figure = Estimate(0.01031, std_error=0.0004, n=6000)
    >>> figure
    0.0103 ± 0.0004
    >>> low, high = figure.interval()
    >>> round(low, 4), round(high, 4)
    (0.0095, 0.0111)
    """

    __slots__ = ("n", "std_error")

    n: int
    std_error: float

    def __new__(cls, value: float, std_error: float = nan, n: int = 1) -> Self:
        """Make the float and attach its error."""
        self = super().__new__(cls, value)
        object.__setattr__(self, "std_error", float(std_error))
        object.__setattr__(self, "n", int(n))
        return self

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"an estimate cannot be changed: {name}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"an estimate cannot be changed: {name}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (float(self), self.std_error, self.n)

    def __repr__(self) -> str:
        value, error = float(self), self.std_error
        if not isfinite(value) or not isfinite(error) or error == 0:
            return f"{value:.6g}" if error != 0 else f"{value:.6g} ± 0"
        # One digit of the error, two if it begins with a one.
        decimals = max(0, -floor(log10(error / 2)))
        if decimals > 12 or abs(value) >= 1e12:
            return f"{value:.6g} ± {error:.2g}"
        return f"{value:.{decimals}f} ± {error:.{decimals}f}"

    __str__ = __repr__

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Return the interval that covers the true figure, taking the error as normal.

        Parameters
        ----------
        confidence : float, default=0.95
            The probability of covering it, between 0 and 1.

        Returns
        -------
        low, high : float
        """
        if not 0 < confidence < 1:
            raise ValueError(f"confidence must lie between 0 and 1, got {confidence!r}")
        width = float(ndtri(0.5 + confidence / 2)) * self.std_error
        return float(self) - width, float(self) + width


def mean_with_error(values: np.ndarray) -> tuple[float, float]:
    """Return the mean of independent values and its standard error, NaN if it is not known."""
    # Log densities may be as low as -1e300: their sum or their squares may overflow.
    with np.errstate(over="ignore", invalid="ignore"):
        mean = float(values.mean())
        return mean, sqrt(variance(values) / len(values)) if isfinite(mean) else nan


def variance(values: np.ndarray) -> float:
    """Return the sample variance, NaN for a single value."""
    if len(values) < 2:
        return nan
    with np.errstate(over="ignore", invalid="ignore"):
        return float(values.var(ddof=1))

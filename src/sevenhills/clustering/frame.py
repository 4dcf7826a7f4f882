"""The row order and the unit of length in which a data set is clustered."""

from dataclasses import dataclass

import numpy as np

#: Squares of numbers beyond this, or below its inverse, may leave the range of floats.
_SQUARABLE = 2.0**300
#: Kernels on samples spread wider than this, or less than its inverse, cannot be represented.
_LARGEST = 2.0**960


@dataclass(frozen=True)
class Frame:
    """How given rows are turned into the rows that are clustered.

    The density must depend neither on the order of the rows nor on the unit in which they are
    measured. So rows are sorted lexicographically, which fixes the mean to the bit, then by their
    distance to the mean, which a rotation does not change; and they are measured in a power of
    two near their spread, which changes no digit but those that scikit-learn's absolute rounding
    of distances to 15 decimals would take away.

    Attributes
    ----------
    rows : ndarray of shape (n_samples,)
        The given row that stands at every place.
    unit : float
        The power of two by which coordinates are divided.
    """

    rows: np.ndarray
    unit: float

    @classmethod
    def of(cls, X: np.ndarray, start: str) -> "Frame":
        """Return the frame of a data set; ``start="first"`` keeps rows and unit as given."""
        unit = _unit_of(X)
        if start == "first":
            return cls(np.arange(len(X)), 1.0 if 1 / _SQUARABLE < unit < _SQUARABLE else unit)
        rows = _lexicographic(X)
        centred = X[rows] / unit
        centred -= centred.sum(axis=0) / len(X)
        distance = np.einsum("ij,ij->i", centred, centred)
        return cls(rows[np.argsort(distance, kind="stable")], unit)

    def enter(self, X: np.ndarray) -> np.ndarray:
        """Return the given rows in the order and unit of the frame."""
        return X[self.rows] / self.unit

    def to_given(self, values: np.ndarray) -> np.ndarray:
        """Return values that belong to the frame's rows in the order of the given rows."""
        out = np.empty_like(values)
        out[self.rows] = values
        return out


def _unit_of(X: np.ndarray) -> float:
    """Return the power of two next to the largest deviation from the middle of the range."""
    low, high = X.min(axis=0), X.max(axis=0)
    spread = float(np.max(0.5 * high - 0.5 * low))
    if spread == 0:
        return 1.0
    if not 1 / _LARGEST < spread < _LARGEST:
        raise ValueError(
            f"X has a spread of {spread:.3g}, beyond what kernels can represent; measure it in a "
            "unit nearer to its spread"
        )
    return float(2.0 ** np.frexp(spread)[1])


def _lexicographic(X: np.ndarray) -> np.ndarray:
    """Sort rows by the first feature, then the second, and so on."""
    rows = np.argsort(X[:, 0], kind="stable")
    first = X[rows, 0]
    if X.shape[1] > 1 and (first[1:] == first[:-1]).any():
        rows = np.lexsort(X.T[::-1])
    return rows

"""How far samples are from the truth, in the unit of the data."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .cells import Cases


@dataclass(frozen=True, eq=False)
class Displacements:
    """Distances of samples from one truth of every case.

    Attributes
    ----------
    average, final : ndarray of shape (C, K)
        Over the steps of the truth, and at its last step; infinite for samples that take no part.
    """

    average: np.ndarray
    final: np.ndarray

    @classmethod
    def of(cls, cases: Cases, future: int) -> "Displacements":
        """Return the distances of all samples from one of the truths."""
        horizons = cases.horizons[:, future]
        apart = np.sqrt(((cases.paths - cases.truths[:, future, None]) ** 2).sum(axis=-1))
        there = np.arange(apart.shape[2]) < horizons[:, None, None]
        reaching = cases.reaching(future)
        total = np.where(there & reaching[:, :, None], apart, 0.0).sum(axis=2)
        last = np.maximum(horizons - 1, 0)[:, None, None]
        final = np.take_along_axis(apart, last, axis=2)[:, :, 0]
        average = total / np.maximum(horizons, 1)[:, None]
        return cls(np.where(reaching, average, np.inf), np.where(reaching, final, np.inf))

    def measures(self, ks: Sequence[int], miss_threshold: float) -> dict[str, np.ndarray]:
        """Return every measure (C,) of displacement, NaN where there is no truth.

        Parameters
        ----------
        ks : sequence of int
            Numbers of samples, the first of those that take part, to choose the nearest among.
        miss_threshold : float
            A truth whose last step is farther than this from the nearest sample is missed.
        """
        out = {"ade": _mean(self.average), "fde": _mean(self.final)}
        place = np.cumsum(np.isfinite(self.average), axis=1)
        for k in ks:
            first = place <= k
            for name, values in (("ade", self.average), ("fde", self.final)):
                nearest = np.where(first, values, np.inf).min(axis=1)
                out[f"min_{name}_{k}"] = np.where(np.isfinite(nearest), nearest, np.nan)
        nearest = out[f"min_fde_{max(ks)}"]
        out["miss_rate"] = np.where(np.isnan(nearest), np.nan, nearest > miss_threshold)
        return out


def _mean(values: np.ndarray) -> np.ndarray:
    there = np.isfinite(values)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(there, values, 0.0).sum(axis=1) / there.sum(axis=1))

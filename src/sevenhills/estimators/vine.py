"""Vine copulas: margins, and how they depend on each other, pair by pair."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import effective_n_jobs

from ..clustering import Frame
from ..density import Regions
from ..extras import import_extra
from ..validation import (
    check_count,
    check_queries,
    freeze,
    random_generator,
)
from .base import DensityEstimator

_SEEDS = 5
#: More samples than this take minutes.
_MOST_SAMPLES = 500_000


def _repetitions(weights: np.ndarray) -> np.ndarray:
    """Round weights to whole numbers, up or down so that partial sums are off by a half at most.

    If there are more rows than samples, there are taken to be as many samples as rows.
    """
    total = float(weights.sum())
    if total > _MOST_SAMPLES:
        raise ValueError(
            f"sample_weight adds up to {total:.3g} samples, more than a vine can take "
            f"({_MOST_SAMPLES})"
        )
    scaled = weights * max(1.0, len(weights) / total)
    sums = np.floor(np.cumsum(scaled) + 0.5).astype(np.int64)
    return np.diff(sums, prepend=0)


@dataclass(frozen=True, eq=False, repr=False)
class VineCopula(Regions):
    """A density made of margins and a vine of pair copulas.

    Parameters
    ----------
    vine : pyvinecopulib.Vinedist
        The distribution in standardised coordinates.
    centre : ndarray of shape (n_features,)
    unit : float
        What samples were reduced by before fitting.
    """

    vine: Any
    centre: np.ndarray
    unit: float

    def __post_init__(self) -> None:
        freeze(self, "centre")

    @property
    def n_features(self) -> int:
        """The dimension of the space."""
        return len(self.centre)

    def __repr__(self) -> str:
        return f"VineCopula(n_features={self.n_features})"

    def logpdf(self, X: Any, n_jobs: int | None = None) -> np.ndarray:
        """Return the log density at every row of ``X``, minus infinity far from the samples.

        ``n_jobs`` is not used.
        """
        X = check_queries(X, self.n_features)
        with np.errstate(over="ignore", invalid="ignore"):
            Y = (X - self.centre) / self.unit
        inside = np.isfinite(Y).all(axis=1)
        out = np.full(len(X), -np.inf)
        if inside.any():
            with np.errstate(divide="ignore"):
                out[inside] = self.vine.logpdf(Y[inside])
        return out - self.n_features * np.log(self.unit)

    def sample(self, n_samples: int = 1, random_state: Any = None) -> np.ndarray:
        """Draw independent samples."""
        n_samples = check_count(n_samples, "n_samples")
        seeds = random_generator(random_state).randint(0, 2**31 - 1, size=_SEEDS).tolist()
        if n_samples == 0:
            return np.empty((0, self.n_features))
        return np.asarray(self.vine.sample(n_samples, seeds=seeds)) * self.unit + self.centre


class VineDensity(DensityEstimator):
    r"""Kernel densities for the margins, and a vine of pair copulas for their dependence.

    .. math:: p(x) = c\big(F_1(x_1), \ldots, F_M(x_M)\big) \prod_m p_m(x_m)

    The copula :math:`c` is a simplified vine of non-parametric pair copulas. The work is done by
    the library pyvinecopulib: ``pip install 'sevenhills[vine]'``. Far from all samples the library
    extrapolates, and the density may rise again. It has no weights that count samples; so samples
    are repeated as often as they weigh, and weights that are not whole numbers are rounded in such
    a way that their sum stays as it is; rows that weigh next to nothing are rounded away.

    Parameters
    ----------
    truncation : int, default=20
        The number of trees of the vine; beyond it pairs count as independent.
    n_jobs : int, optional
        Number of threads for fitting; one by default.

    Attributes
    ----------
    density_ : VineCopula
        The fitted density.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        If the samples came with names that are strings.

    References
    ----------
    T. Nagler, C. Czado: Evading the curse of dimensionality in nonparametric density estimation
    with simplified vine copulas. Journal of Multivariate Analysis, 2016.

    Examples
    --------
    >>> from sevenhills import VineDensity, datasets
    >>> train, test = datasets.load("varied").split(run=0)
    >>> round(VineDensity().fit(train).score(test), 1)
    -4.3
    """

    density_: VineCopula

    def __init__(self, *, truncation: int = 20, n_jobs: int | None = None) -> None:
        self.truncation = truncation
        self.n_jobs = n_jobs

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_count(self.truncation, "truncation")

    def _fit(self, X: np.ndarray, weights: np.ndarray | None) -> None:
        if len(X) < 2:
            raise ValueError("X has n_samples = 1; a vine needs at least 2")
        library = import_extra("pyvinecopulib", "vine", "VineDensity needs pyvinecopulib")
        controls = library.FitControlsVinecop(
            family_set=[library.families.tll],
            trunc_lvl=int(self.truncation),
            num_threads=effective_n_jobs(self.n_jobs),
        )
        frame = Frame.of(X, weights)
        if len(frame.rows) == 1:
            raise ValueError(f"the samples have no spread (n_samples = {len(X)})")
        points = np.repeat(frame.enter(X), _repetitions(frame.weights), axis=0)
        centre = points.mean(axis=0)
        try:
            vine = library.Vinedist.from_data(points - centre, controls)
        except RuntimeError as error:
            raise ValueError(f"a vine cannot be fitted to these samples: {error}") from error
        self.density_ = VineCopula(vine, centre * frame.unit, frame.unit)

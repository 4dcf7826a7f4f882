"""Vine copulas: kernel densities of the margins, and a copula for every pair of features."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import effective_n_jobs

from ..covariance import weighted_moments
from ..density import Density, KernelMixture
from ..extras import import_extra
from ..validation import (
    check_count,
    check_field,
    check_permutation,
    check_queries,
    freeze,
    random_generator,
)
from .base import DensityEstimator, points_with_spread
from .support import Support

_SEEDS = 5
#: Upper bound on the samples of a fit; more take minutes.
_MAX_SAMPLES = 500_000
#: Weight of the background in samples, and its width relative to the samples.
_BACKGROUND, _WIDER = 0.1, 2.0


def _repetitions(weights: np.ndarray) -> np.ndarray:
    """Round weights to whole numbers such that partial sums are off by at most one half.

    If rows outnumber samples, weights are scaled up to one sample per row on average.
    """
    total = float(weights.sum())
    if total > _MAX_SAMPLES:
        raise ValueError(
            f"sample_weight adds up to {total:.3g} samples, but a vine takes at most "
            f"{_MAX_SAMPLES}; scale the weights down or pass fewer samples"
        )
    scaled = weights * max(1.0, len(weights) / total)
    sums = np.floor(np.cumsum(scaled) + 0.5).astype(np.int64)
    return np.diff(sums, prepend=0)


@dataclass(frozen=True, eq=False, repr=False)
class VineCopula(Density):
    r"""A density made of margins and a vine of pair copulas, and a wide Gaussian background.

    .. math:: p(x) = (1 - \varepsilon) \, p_{\text{vine}}(x) + \varepsilon \, N(x; \mu, \Sigma)

    The ``vine`` (a ``pyvinecopulib.Vinedist``) and the ``background`` are in coordinates relative
    to ``center``, in multiples of ``unit``. ``features`` has the feature of every dimension of the
    vine. ``background_weight`` is :math:`\varepsilon`.
    """

    vine: Any
    center: np.ndarray
    unit: float
    features: np.ndarray
    background: KernelMixture | None = None
    background_weight: float = 0.0

    def __post_init__(self) -> None:
        freeze(self, "center", "features")

    def _validate(self) -> None:
        """Raise an error if the fields contradict each other, as those of a file might."""
        if self.vine.dim != self.n_features:
            raise ValueError(f"vine must have {self.n_features} features, got {self.vine.dim}")
        check_permutation(self.features, "features")
        check_field(self.features, "features", "i", (self.n_features,))
        if self.unit <= 0 or not 0 <= self.background_weight < 1:
            raise ValueError("unit must be positive, and background_weight from 0 to below 1")
        if self.background is not None and self.background.n_features != self.n_features:
            raise ValueError(f"background must have {self.n_features} features")

    @property
    def n_features(self) -> int:
        """The dimension of the space."""
        return len(self.center)

    def __repr__(self) -> str:
        return f"VineCopula(n_features={self.n_features})"

    def logpdf(self, X: Any, n_jobs: int | None = None) -> np.ndarray:
        """Return the log density at every row of ``X``; the background uses ``n_jobs`` threads."""
        X = check_queries(X, self.n_features)
        with np.errstate(over="ignore", invalid="ignore"):
            Y = (X - self.center) / self.unit
        inside = np.isfinite(Y).all(axis=1)
        out = np.full(len(X), -np.inf)
        if inside.any():
            with np.errstate(divide="ignore"):
                out[inside] = self.vine.logpdf(Y[inside][:, self.features])
            if self.background is not None:
                weight = self.background_weight
                wide = np.log(weight) + self.background.logpdf(Y[inside], n_jobs)
                out[inside] = np.logaddexp(np.log1p(-weight) + out[inside], wide)
        return out - self.n_features * np.log(self.unit)

    def sample(self, n_samples: int = 1, random_state: Any = None) -> np.ndarray:
        """Draw independent samples."""
        n_samples = check_count(n_samples, "n_samples")
        rng = random_generator(random_state)
        seeds = rng.randint(0, 2**31 - 1, size=_SEEDS).tolist()
        out = np.empty((n_samples, self.n_features))
        if n_samples == 0:
            return out
        out[:, self.features] = self.vine.sample(n_samples, seeds=seeds)
        if self.background is not None:
            rows = np.flatnonzero(rng.uniform(size=n_samples) < self.background_weight)
            out[rows] = self.background.sample(len(rows), rng)
        return out * self.unit + self.center


def _background(X: np.ndarray, weights: np.ndarray) -> KernelMixture:
    """Return a Gaussian wider than the samples; constant features get the mean variance."""
    mean, covariance = weighted_moments(X, weights)
    variances = np.diag(covariance)
    stds = np.sqrt(np.where(variances > 0, variances, variances.mean()))
    transform = np.diag(1 / (_WIDER * stds))
    return KernelMixture(np.ones(1), mean[None], np.array([0, 1]), transform[None])


class VineDensity(DensityEstimator):
    r"""Kernel densities for the margins, and a vine of pair copulas for their dependence.

    .. math:: p(x) = (1 - \varepsilon) \, c\big(F_1(x_1), \ldots, F_M(x_M)\big) \prod_m p_m(x_m)
                     + \varepsilon \, N(x; \mu, \Sigma)

    The copula :math:`c` is a simplified vine of nonparametric pair copulas, fitted by the library
    pyvinecopulib: ``pip install 'sevenhills[vine]'``. Its density is zero some standard deviations
    away from the samples. A Gaussian background with their mean and twice their standard
    deviations is therefore added, with the weight of a tenth of a sample,
    :math:`\varepsilon = 0.1 / (N + 0.1)`. Beyond the samples the library extrapolates, and the
    density may rise again. Rows are repeated by their weights. Fractional weights are rounded such
    that their sum is kept; rows of very small weight are dropped.

    Parameters
    ----------
    truncation : int, default=20
        The number of trees of the vine; pairs in further trees are independent.
    n_jobs : int, optional
        Number of threads for fitting; one by default.

    Attributes
    ----------
    density_ : VineCopula
        The fitted density.

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

    def _density_class(self) -> type[Density]:
        return VineCopula

    def _fit(self, X: np.ndarray, weights: np.ndarray | None, support: Support) -> None:
        points = points_with_spread(X, weights, "a vine")
        library = import_extra("pyvinecopulib", "vine", "VineDensity needs pyvinecopulib")
        controls = library.FitControlsVinecop(
            family_set=[library.families.tll],
            trunc_lvl=int(self.truncation),
            num_threads=effective_n_jobs(self.n_jobs),
        )
        repeated = np.repeat(points.X, _repetitions(points.weights), axis=0)
        center = repeated.mean(axis=0)
        try:
            # Ties between pairs of features are broken in the same way for every order of features.
            vine = library.Vinedist.from_data((repeated - center)[:, points.features], controls)
        except RuntimeError as error:
            raise ValueError(f"a vine cannot be fitted to these samples: {error}") from error
        self.density_ = VineCopula(
            vine,
            center * points.unit,
            points.unit,
            points.features,
            _background(points.X - center, points.weights),
            _BACKGROUND / (float(points.weights.sum()) + _BACKGROUND),
        )

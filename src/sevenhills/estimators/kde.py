"""Kernel density estimates with one bandwidth, as in scipy and scikit-learn."""

import numbers
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..clustering import Points
from ..density import KernelMixture
from ..folds import deal_in_turn
from ..progress import part, tracked
from ..validation import check_choice, check_count, check_min_std, check_positive
from ..whitening import AUTO_SHARE, Grouping, feature_stds, principal_axes, silverman
from .base import DensityEstimator
from .support import Support

#: Directions whose standard deviation is below this fraction of the largest have no spread except
#: for rounding errors.
_NO_SPREAD = 1e-7
#: The bandwidths to try, as multiples of Silverman's for the standard deviation of the samples.
_FACTORS = np.geomspace(0.02, 2.0, 21)


class GaussianKDE(DensityEstimator):
    r"""Gaussian kernel density estimate with the covariance of the samples, as ``gaussian_kde``.

    .. math:: p(x) = \frac{1}{N} \sum_i N(x; x_i, b^2 S)

    with the sample covariance :math:`S` (``ddof=1``). The density equals that of scipy's
    ``gaussian_kde``, but a singular covariance is allowed.

    Parameters
    ----------
    bw_method : {"scott", "silverman"} or float, default="scott"
        The factor :math:`b`: :math:`N^{-1/(M+4)}`, Silverman's rule, or a number.
    min_std : float or "auto", default="auto"
        The standard deviation of the samples along directions in which they have no spread, in
        data units. "auto" is 0.01 times the standard deviation of the features that make up the
        direction, or of all samples for a constant feature.
    support : None, "auto" or dict, default=None
        The bounds and circles of features, as in :class:`ROME`.
    n_jobs : int, optional
        Number of threads; one by default.

    Attributes
    ----------
    density_ : KernelMixture
        The fitted density.
    factor_ : float
        The factor that was used.
    support_ : tuple of :class:`~sevenhills.estimators.FeatureSupport`
        The maps of the features in ``support``, and the number of samples at their bounds.

    Examples
    --------
    >>> from scipy.stats import gaussian_kde
    >>> from sevenhills import GaussianKDE, datasets
    >>> X = datasets.load("aniso").sample(500, random_state=0)
    >>> ours = GaussianKDE().fit(X).score_samples(X[:1])
    >>> bool(abs(ours[0] - gaussian_kde(X.T).logpdf(X[0])[0]) < 1e-9)
    True
    """

    density_: KernelMixture
    factor_: float

    def __init__(
        self,
        *,
        bw_method: str | float = "scott",
        min_std: float | str = "auto",
        support: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.bw_method = bw_method
        self.min_std = min_std
        self.support = support
        self.n_jobs = n_jobs

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_min_std(self.min_std)
        if isinstance(self.bw_method, numbers.Real):
            check_positive(self.bw_method, "bw_method")
        else:
            check_choice(self.bw_method, "bw_method", ("scott", "silverman"))

    def _fit(self, X: np.ndarray, weights: np.ndarray | None, support: Support) -> None:
        X = support.latent(X)
        points = Points.from_samples(X, weights)
        if len(points.rows) == 1 and isinstance(self.min_std, str):
            raise ValueError(
                f"the samples have no spread (n_samples = {len(X)}), so min_std cannot be 'auto'; "
                "pass the standard deviation to give them as a number"
            )
        total = float(points.weights.sum())
        factor = self._resolve_factor(total, X.shape[1])
        whole = Grouping.from_points(points)
        units = _feature_units(whole)
        # Features are scaled first, so that directions without spread do not depend on units.
        axes, stds = principal_axes(whole.deviations / units, whole.weights, whole.offsets)
        scales = factor * self._scales(stds[0], axes[0], units, points.unit)
        transform = axes[0].T / scales / units[:, None] / points.unit
        log_det = -np.log(scales * units * points.unit).sum()
        self.density_ = _kernels(X[points.rows], points.weights, transform, log_det)
        self.factor_ = factor

    def _scales(
        self, stds: np.ndarray, axes: np.ndarray, units: np.ndarray, unit: float
    ) -> np.ndarray:
        """Return standard deviations without zeros among them, in units of the features."""
        flat = stds <= _NO_SPREAD * stds.max()
        if not flat.any():
            return stds
        if isinstance(self.min_std, str):
            return np.where(flat, AUTO_SHARE, stds)
        if self.min_std == 0:
            raise ValueError("X has no spread in some direction; pass a min_std above 0")
        return np.where(flat, self.min_std / unit / np.linalg.norm(axes * units, axis=1), stds)

    def _resolve_factor(self, n_samples: float, n_features: int) -> float:
        if not isinstance(self.bw_method, str):
            return float(self.bw_method)
        if self.bw_method == "scott":
            return float(n_samples ** (-1 / (n_features + 4)))
        return silverman(n_samples, n_features)


def _feature_units(whole: Grouping) -> np.ndarray:
    """Return the standard deviation of every feature, or of all samples where there is none."""
    stds = feature_stds(whole.deviations, whole.weights, whole.offsets)[0]
    return np.where(stds > 0, stds, whole.spread() or 1.0)


class KernelDensityCV(DensityEstimator):
    r"""Kernel density estimate with one bandwidth, chosen by cross-validation.

    .. math:: p(x) = \frac{1}{N} \sum_i N(x; x_i, b^2 I)

    It corresponds to scikit-learn's ``KernelDensity`` in a grid search over the bandwidth, with
    exact tails. Samples are dealt out to folds in the order of their distance to the mean, so that
    the order of rows does not matter. Copies of a row may be in different folds, as new samples may
    repeat old ones.

    Parameters
    ----------
    bandwidths : sequence of float or "auto", default="auto"
        The bandwidths to try, in data units. "auto" tries 21 between 0.02 and 2 times Silverman's
        for the standard deviation of the samples.
    n_splits : int, default=5
        The number of folds of the cross-validation.
    support : None, "auto" or dict, default=None
        The bounds and circles of features, as in :class:`ROME`.
    n_jobs : int, optional
        Number of threads; one by default.

    Attributes
    ----------
    density_ : KernelMixture
        The fitted density.
    bandwidth_ : float
        The bandwidth of the highest held-out likelihood, in data units.
    bandwidths_ : ndarray
        All bandwidths that were tried.
    scores_ : ndarray
        The mean held-out log density of each bandwidth.
    support_ : tuple of :class:`~sevenhills.estimators.FeatureSupport`
        The maps of the features in ``support``, and the number of samples at their bounds.

    Examples
    --------
    >>> from sevenhills import KernelDensityCV, datasets
    >>> X = datasets.load("two_moons").sample(500, random_state=0)
    >>> kde = KernelDensityCV().fit(X)
    >>> 0.03 < kde.bandwidth_ < 0.12
    True
    """

    density_: KernelMixture
    bandwidth_: float
    bandwidths_: np.ndarray
    scores_: np.ndarray

    def __init__(
        self,
        *,
        bandwidths: Sequence[float] | str = "auto",
        n_splits: int = 5,
        support: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.bandwidths = bandwidths
        self.n_splits = n_splits
        self.support = support
        self.n_jobs = n_jobs

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_count(self.n_splits, "n_splits", least=2)
        if isinstance(self.bandwidths, str):
            check_choice(self.bandwidths, "bandwidths", ("auto",))
        else:
            self._given_bandwidths()

    def _fit(self, X: np.ndarray, weights: np.ndarray | None, support: Support) -> None:
        if len(X) < 2:
            raise ValueError("X has n_samples = 1; cross-validation needs at least 2")
        X = support.latent(X)
        points = Points.from_samples(X, weights)
        rows = X[points.rows]
        bandwidths = self._resolve_bandwidths(points)
        held = deal_in_turn(points.weights, int(self.n_splits))
        held = held[held.any(axis=1)] / points.weights.sum()
        with part("bandwidths"):
            scores = np.array(
                [self._score_of(rows, held, each) for each in tracked(bandwidths.tolist())]
            )
        bandwidth = float(bandwidths[int(np.argmax(scores))])
        self.density_ = _round_kernels(rows, points.weights, bandwidth)
        self.bandwidth_, self.bandwidths_, self.scores_ = bandwidth, bandwidths, scores

    def _score_of(self, points: np.ndarray, held: np.ndarray, bandwidth: float) -> float:
        """Return the mean log density of every fold under the kernels of the others."""
        seen = held.sum(axis=0) - held
        total = 0.0
        for here, others in zip(held, seen, strict=True):
            kernels = _round_kernels(points[others > 0], others[others > 0], bandwidth)
            scores = kernels.logpdf(points[here > 0], n_jobs=self.n_jobs)
            total += float(here[here > 0] @ scores)
        return total

    def _resolve_bandwidths(self, points: Points) -> np.ndarray:
        if isinstance(self.bandwidths, str):
            spread = Grouping.from_points(points).spread() * points.unit
            if spread == 0:
                raise ValueError(
                    f"the samples have no spread (n_samples = {len(points.of_rows)}), so "
                    "bandwidths cannot be 'auto'; pass them as numbers"
                )
            return spread * silverman(points.weights.sum(), points.X.shape[1]) * _FACTORS
        return self._given_bandwidths()

    def _given_bandwidths(self) -> np.ndarray:
        if isinstance(self.bandwidths, bytes) or not isinstance(self.bandwidths, Iterable):
            raise TypeError(f"bandwidths must be 'auto' or numbers, got {self.bandwidths!r}")
        out = np.array([check_positive(each, "bandwidths") for each in self.bandwidths])
        if len(out) == 0:
            raise ValueError("bandwidths must not be empty")
        return out


def _round_kernels(points: np.ndarray, weights: np.ndarray, bandwidth: float) -> KernelMixture:
    n_features = points.shape[1]
    return _kernels(
        points, weights, np.eye(n_features) / bandwidth, -n_features * np.log(bandwidth)
    )


def _kernels(
    points: np.ndarray, weights: np.ndarray, transform: np.ndarray, log_det: float
) -> KernelMixture:
    """Return kernels on points that share one transform."""
    return KernelMixture(
        weights=weights / weights.sum(),
        means=points,
        offsets=np.array([0, len(points)]),
        transforms=transform[None],
        log_dets=np.array([log_det]),
    )

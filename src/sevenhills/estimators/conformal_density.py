"""Conformal prediction: regions and p-values that hold for new samples."""

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import column_or_1d

from ..density import Density, KernelMixture
from ..density.pieces import Piece, interval_pieces, polygon_pieces
from ..density.regions import LevelSet
from ..folds import hold_out, mixed_generator
from ..progress import step
from ..validation import (
    check_confidence,
    check_count,
    check_numbers,
    check_samples,
    check_weights,
)
from .base import Fit, cloned_fit

#: Scores that differ by less, relatively, are equal: the last digits depend on the order of sums.
_SAME = 1e-9
#: A p-value that exceeds a level by less is equal to it.
_ROUNDING = 1e-12
#: Scores are clipped to this magnitude before margins are bisected, which needs this many steps.
_FAR, _MAX_BISECTIONS = 1e9, 90
#: Lines of grids on which regions of one and two features are found.
_N_GRID = {1: 4096, 2: 256}

#: A function that returns one number, such as a log density, for every row.
OfRows = Callable[[np.ndarray], np.ndarray]


def conformal(
    estimator: Any,
    X: Any,
    *,
    cv: int | float | None = 5,
    sample_weight: Any = None,
    groups: Any = None,
    ratio: Callable[[np.ndarray], Any] | None = None,
    random_state: Any = 0,
) -> "ConformalDensity":
    r"""Calibrate a density, so that its regions hold a given share of new samples.

    The highest-density region of an estimate holds less than its confidence of new samples, above
    all in many dimensions. Here the log density of a new sample is compared with those of samples
    that the estimate has not seen, :math:`s_1, \ldots, s_n`:

    .. math:: p(x) = \frac{1 + \#\{i : s_i \le \log \hat{p}(x)\}}{n + 1}

    If the new sample and the others are exchangeable, :math:`P(p(x) \le \alpha) \le \alpha`,
    whatever the distribution and however poor the estimate.

    Parameters
    ----------
    estimator : estimator or density
        Any estimator with ``fit`` and ``score_samples``. With ``cv=None`` it must be fitted; a
        :class:`~sevenhills.density.Density` will do, too.
    X : array-like of shape (n_samples, n_features)
        The samples.
    cv : int, float or None, default=5
        How samples are held out:

        ==================  =====================================  =============================
        ``cv``              calibration                            share of new samples in a
                                                                   region, at least
        ==================  =====================================  =============================
        None                all of ``X``, which the fitted         :math:`1 - \alpha`
                            estimator must not have seen
        share, as 0.5       this share of ``X``; the estimator is  :math:`1 - \alpha`
                            fitted to the others ("split")
        number, as 5        all of ``X``, each fold by a fit to    about :math:`1 - 2 \alpha`, in
                            the other folds ("cross-conformal")    practice :math:`1 - \alpha`
        ``len(X)``          the same, leaving out one sample       :math:`1 - 2 \alpha`, in
                                                                   practice :math:`1 - \alpha`
        ==================  =====================================  =============================

        The shares are averages over samples and new samples, not those of every :math:`x`.
        ``guarantee(confidence)`` is the bound of the last column.
    sample_weight : array-like of shape (n_samples,), optional
        The number of samples that every row stands for. Counts are dealt out to folds one by one.
    groups : array-like of shape (n_samples,), optional
        Labels of rows that belong together, such as repeated measurements. Groups are held out as
        a whole and have the same weight, and p-values are those of a row of a new group.
    ratio : callable, optional
        For new samples from another distribution (covariate shift): a function that returns the
        ratio of the new density to that of ``X``, up to a factor, at rows of an array.
    random_state : int, RandomState instance or None, default=0
        Seeds the folds.

    Returns
    -------
    ConformalDensity

    References
    ----------
    .. [1] J. Lei, J. Robins, L. Wasserman: Distribution-free prediction sets. Journal of the
       American Statistical Association, 2013.
    .. [2] V. Vovk: Cross-conformal predictors. Annals of Mathematics and Artificial Intelligence,
       2015.
    .. [3] R. F. Barber, E. J. Candès, A. Ramdas, R. J. Tibshirani: Predictive inference with the
       jackknife+. Annals of Statistics, 2021.
    .. [4] Y. Lee, R. F. Barber, R. Willett: Distribution-free inference with hierarchical data.
       2023. (``groups``)
    .. [5] R. J. Tibshirani, R. F. Barber, E. J. Candès, A. Ramdas: Conformal prediction under
       covariate shift. NeurIPS, 2019. (``ratio``)

    Examples
    --------
    >>> from sevenhills import ROME, conformal, datasets
    >>> moons = datasets.load("two_moons").sample(499, random_state=0)
    >>> calibrated = conformal(ROME(), moons)
    >>> calibrated.contains([[0.0, 1.0], [0.5, 0.25], [0.0, 5.0]], confidence=0.9)
    array([ True, False, False])
    >>> calibrated.p_value([[0.0, 5.0]])  # far away, 1 / (n_samples + 1)
    array([0.002])
    >>> round(calibrated.guarantee(0.9), 2)
    0.79
    """
    if cv is not None:
        check_cv(cv)
    out = ConformalDensity()
    X = check_samples(out, X, reset=True)
    weights, groups = check_weights(sample_weight, len(X)), _check_groups(groups, len(X))
    if ratio is not None and not callable(ratio):
        raise TypeError(f"ratio must be a function of rows, got {ratio!r}")
    rows = _Rows.from_samples(X, weights, groups)
    names = getattr(out, "feature_names_in_", None)
    if cv is None:
        _check_fitted(estimator, names)
        models, held_out = [estimator], rows.own[None]
    else:
        fit = cloned_fit(estimator, names)
        held_out = rows.held_out(cv, mixed_generator(random_state, rows.X))
        models = rows.fits(fit, held_out)
    out._X, out._ratio = rows.X, ratio
    out.estimator_ = models[-1]
    out.held_out_scores_ = np.full(len(X), np.nan)
    out.folds_, out.held_out_scores_[rows.order] = rows.scored(
        models[: len(held_out)], held_out, ratio
    )
    if out._mass == 0:
        raise ValueError("ratio is zero at all samples that are held out")
    return out


class Fold(NamedTuple):
    """A fit, and the log densities of samples that it has not seen, ascending."""

    score: OfRows  #: the log density of the fit
    scores: np.ndarray
    masses: np.ndarray  #: the sums of the weights of the first 0, 1, ... scores
    n_samples: float  #: their number, or that of their groups

    def mass_below(self, scores: np.ndarray) -> np.ndarray:
        """Return the weight of the samples whose log densities are not above others."""
        return self.masses[np.searchsorted(self.scores, scores, side="right")]


class ConformalDensity(BaseEstimator):
    """A density with regions and p-values that hold for new samples; see :func:`conformal`.

    In methods, ``X`` is array-like of shape (n_samples, n_features), and ``confidence`` a
    probability between 0 and 1.

    Attributes
    ----------
    estimator_ : estimator or density
        The fit to all samples; with a split or ``cv=None``, the fit that is calibrated.
    folds_ : tuple of Fold
        The fits, each with the log densities of the samples that it has not seen.
    held_out_scores_ : ndarray of shape (n_samples,)
        The log density of every row of the samples by a fit that has not seen it, NaN for rows
        that were not held out. Of a row that stands for several samples it is the highest.
    """

    estimator_: Any
    folds_: tuple[Fold, ...]
    held_out_scores_: np.ndarray
    _X: np.ndarray
    _ratio: OfRows | None

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return f"ConformalDensity(n_folds={len(self.folds_)}, n_samples={self.n_samples})"

    @property
    def n_samples(self) -> int:
        """The number of samples that were held out, or of their groups."""
        return round(sum(fold.n_samples for fold in self.folds_))

    def log_density(self, X: Any) -> np.ndarray:
        """Return the log density at every row of ``X``, by the fit to all samples."""
        return _score_of(self.estimator_)(check_samples(self, X, reset=False))

    def p_value(self, X: Any) -> np.ndarray:
        """Return the p-value of every row, of the hypothesis that it is a sample like the others.

        It is between ``1 / (n_samples + 1)`` and 1, unless there is a ``ratio``. Equal log
        densities count as lower, so that p-values are never too small.
        """
        return self._p_value(*self._scored(X))

    def rank(self, scores: np.ndarray) -> np.ndarray:
        """Return the share of held-out samples whose log densities are not above others."""
        return self._mass_below([_raised(scores)] * len(self.folds_)) / self._mass

    def hdr_probability(self, X: Any) -> np.ndarray:
        """Return the confidence of the smallest region that contains each row, ``1 - p_value``."""
        return 1.0 - self.p_value(X)

    def contains(self, X: Any, confidence: float = 0.9) -> np.ndarray:
        """Return whether each row of ``X`` is in the region of a confidence."""
        alpha = 1.0 - check_confidence(confidence)
        return self.p_value(X) > alpha + _ROUNDING

    def region(self, confidence: float = 0.9) -> "Region":
        """Return the region that holds a share ``confidence`` of new samples."""
        return Region(self, check_confidence(confidence))

    def guarantee(self, confidence: float = 0.9) -> float:
        """Return the share of new samples that a region holds at least, on average.

        It is proved for rows of equal weights, and for groups; with a ``ratio``, only for a single
        fit, and if the ratio is right.
        """
        alpha = 1.0 - check_confidence(confidence)
        n, k = self.n_samples, len(self.folds_)
        if k == 1:
            return confidence
        # The mean of the folds' p-values, times two, is a p-value; see [3] of conformal() as well.
        shares = [2 * (alpha * (n + 1) + k - 1) / (n + k)]
        if n > 0 and n % k == 0:
            shares.append(2 * alpha + (1 - k / n) / (k + 1))
        return max(0.0, 1.0 - min(shares))

    def margin(self, X: Any, confidence: float = 0.9) -> np.ndarray:
        """Return how far each row is inside of a region, in nats; negative outside.

        It is the largest number by which all log densities of a row can be lowered so that the row
        stays in the region; infinite if the region has all rows because there are few samples.
        """
        return self._margin(*self._scored(X), 1.0 - check_confidence(confidence))

    def compare(self, X: Any, alpha: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the p-value and the margin of every row, for the region of ``1 - alpha``."""
        scored = self._scored(X)
        return self._p_value(*scored), self._margin(*scored, alpha)

    def _scored(self, X: Any) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return the weight of every new row, and its log densities by the fits."""
        X = check_samples(self, X, reset=False)
        own = np.ones(len(X)) if self._ratio is None else _ratios(self._ratio, X)
        return own, [_raised(fold.score(X)) for fold in self.folds_]

    def _p_value(self, own: np.ndarray, scores: list[np.ndarray]) -> np.ndarray:
        return np.asarray((own + self._mass_below(scores)) / (own + self._mass))

    def _margin(self, own: np.ndarray, scores: list[np.ndarray], alpha: float) -> np.ndarray:
        least = (alpha + _ROUNDING) * (own + self._mass) - own
        low = np.min(scores, axis=0) - max(fold.scores[-1] for fold in self.folds_)
        high = np.max(scores, axis=0) - min(fold.scores[0] for fold in self.folds_)
        for _ in range(_MAX_BISECTIONS):
            middle = 0.5 * (low + high)
            if ((middle == low) | (middle == high)).all():
                break
            inside = self._mass_below([each - middle for each in scores]) > least
            low, high = np.where(inside, middle, low), np.where(inside, high, middle)
        return np.where(least < 0, np.inf, low)

    def _mass_below(self, scores: list[np.ndarray]) -> np.ndarray:
        """Return the weight of the held-out samples whose log densities are not above others."""
        pairs = zip(self.folds_, scores, strict=True)
        return np.asarray(sum(fold.mass_below(each) for fold, each in pairs))

    @property
    def _mass(self) -> float:
        """The weight of all calibration samples."""
        return float(sum(fold.masses[-1] for fold in self.folds_))


class Region:
    """The samples whose p-values are above a level; see :meth:`ConformalDensity.region`.

    Attributes
    ----------
    confidence : float
        The share of new samples in the region.
    level : float
        The log density at the boundary, for one fit; for several folds, which have a boundary
        together, the log density that ``1 - confidence`` of the held-out samples are below.
    """

    def __init__(self, density: ConformalDensity, confidence: float) -> None:
        self._density, self.confidence = density, confidence
        alpha = 1.0 - confidence + _ROUNDING
        n_samples = float(sum(fold.n_samples for fold in density.folds_))
        if alpha * (n_samples + 1) < 1:
            raise ValueError(
                f"confidence = {confidence:g} needs at least {int(np.ceil(1 / alpha - 1))} "
                f"samples, got {n_samples:g}"
            )
        scores = np.concatenate([fold.scores for fold in density.folds_])
        masses = np.concatenate([np.diff(fold.masses) for fold in density.folds_])
        order = np.argsort(scores, kind="stable")
        shares = np.cumsum(masses[order]) / density._mass
        rank = np.searchsorted(shares, (alpha * (n_samples + 1) - 1) / n_samples, side="right")
        self.level = float(scores[order[np.minimum(rank, len(order) - 1)]])

    def contains(self, X: Any) -> np.ndarray:
        """Return whether each row of ``X`` is in the region."""
        return self._density.contains(X, self.confidence)

    def pieces(self, n_grid: int | None = None) -> list[Piece]:
        """Return the connected pieces of a region of one or two features.

        Pieces with a higher mode come first. A piece that fits between the lines of the grid may
        be missed. Two features need contourpy, which comes with matplotlib.

        Parameters
        ----------
        n_grid : int, optional
            The number of grid lines; 4096 for one feature and 256 for each of two by default.

        Returns
        -------
        list of Piece
            An interval on a circle may pass the end of the turn.

        Examples
        --------
        >>> from sevenhills import KernelMixture, conformal
        >>> two = KernelMixture.from_covariances([0.7, 0.3], [[0.0], [9.0]], [[1.0]])
        >>> unseen = two.sample(999, random_state=0)
        >>> for piece in conformal(two, unseen, cv=None).region(0.9).pieces():
        ...     print(piece.outline.round(1), piece.modes.round(1))
        [-1.9  1.9] [[0.]]
        [ 7.6 10.4] [[9.]]
        """
        X, density = self._density._X, _density_of(self._density.estimator_)
        n_features = X.shape[1]
        if n_features > 2:
            raise ValueError(
                f"pieces are those of 1 or 2 features, but the density has {n_features}; use "
                "contains(X)"
            )
        n_grid = _N_GRID[n_features] if n_grid is None else check_count(n_grid, "n_grid", least=4)
        frame = np.repeat([[-np.inf], [np.inf]], n_features, axis=1)
        if density is not None:
            X, frame = density.unrolled(X), density.frame
        found, modes = LevelSet(self._height, 0.0, frame), self._modes(density)
        if n_features == 2:
            return polygon_pieces(found.contours(X, n_grid), modes)
        intervals = found.intervals(X, n_grid)
        if density is not None:
            intervals = density._joined(intervals)
        return interval_pieces(intervals, modes, float(np.ptp(frame)))

    def _height(self, X: np.ndarray) -> np.ndarray:
        return np.minimum(self._density.margin(X, self.confidence), _FAR)

    def _modes(self, density: Density | None) -> np.ndarray:
        """Return the modes of the density in the region, the highest first."""
        if not isinstance(density, KernelMixture):
            return np.empty((0, self._density._X.shape[1]))
        locations = density.unrolled(density.modes().locations)
        locations = locations[np.argsort(-density.logpdf(locations), kind="stable")]
        return locations[self.contains(locations)]


class _Rows(NamedTuple):
    """Samples to be held out, sorted: the order in which they were given does not matter."""

    X: np.ndarray
    weights: np.ndarray | None
    groups: np.ndarray | None  #: the number of the group of every row
    order: np.ndarray  #: the rows of the data; those of weight zero are no samples

    @classmethod
    def from_samples(
        cls, X: np.ndarray, weights: np.ndarray | None, groups: np.ndarray | None
    ) -> "_Rows":
        order = np.lexsort(X.T[::-1] if weights is None else [weights, *X.T[::-1]])
        if weights is not None:
            order = order[weights[order] > 0]
            weights = weights[order]
        if groups is not None:
            groups = np.unique(groups[order], return_inverse=True)[1]
        return cls(X[order], weights, groups, order)

    @property
    def own(self) -> np.ndarray:
        """The number of samples that every row stands for."""
        return np.ones(len(self.X)) if self.weights is None else self.weights

    @property
    def units(self) -> np.ndarray:
        """The weight of one sample of every row; those of a group add up to one."""
        if self.groups is None:
            return np.ones(len(self.X))
        return 1.0 / np.bincount(self.groups, self.own)[self.groups]

    def held_out(self, cv: Any, rng: np.random.RandomState) -> np.ndarray:
        """Return the weight of every row (columns) that each fold (rows) holds out."""
        if len(self.X) < 2:
            raise ValueError("X has n_samples = 1; at least 2 are needed to hold one out")
        if self.groups is None:
            return hold_out(self.own, cv, rng)
        if self.groups.max() == 0:
            raise ValueError("groups has one label; at least 2 groups are needed to hold one out")
        return hold_out(np.ones(self.groups.max() + 1), cv, rng)[:, self.groups] * self.own

    def fits(self, fit: Fit, held_out: np.ndarray) -> list[Any]:
        """Return fits without every fold and, if there are several folds, one to all samples."""
        n_fits, found = len(held_out) + (len(held_out) > 1), []
        for f, held in enumerate(held_out):
            with step(f"fold {f + 1} of {len(held_out)}", f, n_fits):
                found.append(self.fit_without(fit, held))
        if n_fits > len(held_out):
            with step("all samples", n_fits - 1, n_fits):
                found.append(fit(self.X, self.weights))
        return found

    def fit_without(self, fit: Fit, held: np.ndarray) -> Any:
        """Fit an estimator to the samples that are not held out."""
        left = self.own - held
        rows = left > 0
        try:
            return fit(self.X[rows], None if self.weights is None else left[rows])
        except ValueError as error:
            raise ValueError(f"X cannot be fitted without the held-out samples: {error}") from error

    def scored(
        self, models: list[Any], held_out: np.ndarray, ratio: OfRows | None
    ) -> tuple[tuple[Fold, ...], np.ndarray]:
        """Return the folds, and the highest log density of every row that is held out."""
        folds, highest = [], np.full(len(self.X), np.nan)
        units = self.units if ratio is None else self.units * _ratios(ratio, self.X)
        for model, held in zip(models, held_out, strict=True):
            rows, score = np.flatnonzero(held), _score_of(model)
            scores = np.asarray(score(self.X[rows]), dtype=np.float64)
            highest[rows] = np.fmax(highest[rows], scores)
            order = np.argsort(scores, kind="stable")
            masses = np.append(0.0, np.cumsum((held * units)[rows[order]]))
            scores = np.clip(scores[order], -_FAR, _FAR)
            folds.append(Fold(score, scores, masses, float(held @ self.units)))
        return tuple(folds), highest


def _score_of(model: Any) -> OfRows:
    """Return the log density of a fitted estimator or of a density, as a function of rows."""
    density = _density_of(model)
    return model.score_samples if density is None else density.logpdf


def _density_of(model: Any) -> Density | None:
    density = getattr(model, "density_", model)
    return density if isinstance(density, Density) else None


def _raised(scores: np.ndarray) -> np.ndarray:
    """Return scores that are not below equal ones because of rounding."""
    scores = np.clip(scores, -_FAR, _FAR)
    return np.asarray(scores + _SAME * (1.0 + np.abs(scores)))


def _ratios(ratio: OfRows, X: np.ndarray) -> np.ndarray:
    out = check_numbers(ratio(X), "ratio(X)")
    if out.shape != (len(X),) or not (np.isfinite(out) & (out >= 0)).all():
        raise ValueError(
            f"ratio must return one finite number for each of {len(X)} rows, not below zero"
        )
    return out


# Arguments


def check_cv(cv: Any, name: str = "cv") -> None:
    """Raise an error unless a value is a number of folds or a share."""
    if not isinstance(cv, Real) or isinstance(cv, bool):
        raise TypeError(f"{name} must be a number of folds or a share, got {cv!r}")
    if not (0 < float(cv) < 1 or (isinstance(cv, Integral) and int(cv) >= 2)):
        raise ValueError(
            f"{name} must be a whole number of at least 2 folds, or a share between 0 and 1, got "
            f"{cv!r}"
        )


def _check_fitted(model: Any, names: Any) -> None:
    """Raise an error unless a model has a density, of features with the same names."""
    is_scorer = _density_of(model) is not None or hasattr(model, "score_samples")
    if isinstance(model, type) or not is_scorer:
        raise TypeError(
            f"estimator must be a density or a fitted estimator if cv is None, got {model!r}"
        )
    known = getattr(model, "feature_names_in_", getattr(model, "feature_names", None))
    if known is not None and names is not None and list(known) != list(names):
        raise ValueError(f"X has the features {list(names)}, but estimator has {list(known)}")


def _check_groups(groups: Any, n_samples: int) -> np.ndarray | None:
    if groups is None:
        return None
    labels = column_or_1d(groups)
    if len(labels) != n_samples:
        raise ValueError(
            f"groups must have one label for each of {n_samples} rows, got {len(labels)}"
        )
    return labels

"""Regression by a joint density of features and targets."""

from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_array
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from ..density import KernelMixture
from ..density.conditionals import Conditionals
from ..folds import deal_in_turn, mixed_generator
from ..progress import part, step
from ..validation import (
    check_choice,
    check_confidence,
    check_count,
    check_n_jobs,
    check_samples,
    check_weights,
    clear_errors,
    random_generator,
    unchanged_on_failure,
    without_tensors,
)
from .base import Fit, cloned_fit
from .defaults import default_estimator

#: Draws per row that give the regions of several targets.
_N_DRAWS = 1000
#: Rounding error of a sum of weights.
_ROUNDING = 1e-9


class Calibration(NamedTuple):
    """Scores of rows that were not seen in a fit, each from 0 to 1."""

    region: np.ndarray  #: (n,) the mass of the conditional density where it is higher than at y
    interval: np.ndarray  #: (n, n_targets) the mass of the central interval that ends at y
    weights: np.ndarray  #: (n,)

    def masses(self, kind: str, confidence: float) -> np.ndarray:
        """Return the mass, of every target if there are several, that holds new rows."""
        scores = getattr(self, kind)
        columns = [
            _upper_quantile(each, self.weights, confidence) for each in np.atleast_2d(scores.T)
        ]
        return np.array(columns)


class Regions:
    """Calibrated highest-density regions of the targets, one for every row.

    They are made by :meth:`DensityRegressor.predict_region`. A region is everything where the
    conditional density is higher than on its boundary, and may have several parts.

    Attributes
    ----------
    conditionals : Conditionals
        The conditional densities of the rows.
    mass : float
        The probability of the regions under these densities, after calibration.
    """

    def __init__(self, conditionals: Conditionals, mass: float, seed: int, n_jobs: int | None):
        self.conditionals, self.mass = conditionals, mass
        self._draws = _N_DRAWS, seed, n_jobs

    def __len__(self) -> int:
        return len(self.conditionals)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n_rows={len(self)}, mass={self.mass:.3g})"

    @property
    def is_bounded(self) -> bool:
        """Whether there were enough rows for a calibration with bounded regions."""
        return self.mass < 1

    def intervals(self) -> list[np.ndarray]:
        """Return the intervals (n_intervals, 2) of every row, ascending, for one target."""
        if self.is_bounded:
            return self.conditionals.hdr_intervals(self.mass, self._draws[-1])
        return list(np.tile(self.conditionals.maps[0].bounds, (len(self), 1, 1)))

    def contains(self, Y: Any) -> np.ndarray:
        """Return for every row whether its region contains a point.

        Parameters
        ----------
        Y : array-like of shape (n_rows,) or (n_rows, n_targets)
        """
        return np.asarray(self.conditionals.hdr_probability(Y, *self._draws) <= self.mass)

    def size(self) -> np.ndarray:
        """Return the total lengths, areas or volumes (n_rows,); estimates for several targets."""
        if self.is_bounded:
            return self.conditionals.hdr_size(self.mass, *self._draws)
        return np.full(len(self), np.inf)

    def outlines(self, row: int) -> list[np.ndarray]:
        """Return the outlines (n_vertices, 2) of the region of a row, for two targets."""
        if not self.is_bounded:
            return []
        return list(self.conditionals[row].hdr_contours(self.mass))


class DensityRegressor(RegressorMixin, BaseEstimator):
    r"""The distribution of targets given features, from one joint density of both.

    .. math:: p(y \mid x) = \frac{p(x, y)}{\int p(x, y) \, dy}

    The conditional density may have several modes, be skewed and change its width with the
    features. It gives means, quantiles, intervals, regions, draws and log densities of one target
    or of several, dependent ones.

    Parameters
    ----------
    estimator : estimator, optional
        The estimator of the joint density, which must fit a mixture of kernels. Its features are
        those of ``X``, followed by the targets. By default :class:`AutoROME` for tables of up to
        50,000 values (rows times features and targets), and
        ``ROME(scale="auto", shrinkage="auto")`` for larger ones.
    point : {"mean", "median", "mode"}, default="mean"
        What ``predict`` returns: the mean of the conditional density, the median of every target,
        or the highest mode, which is of all targets together.
    cv : int, iterable of splits or None, default=5
        The number of folds that calibrate intervals and regions, or pairs of training and test
        rows that hold out every row at most once. None leaves intervals and regions as the density
        has them until :meth:`calibrate` is called.
    random_state : int, RandomState instance or None, default=0
        Seeds the folds, and the draws that give the regions of several targets.
    n_jobs : int, optional
        The number of threads over folds and rows.

    Attributes
    ----------
    density_ : KernelMixture
        The joint density, of the features followed by the targets.
    estimator_ : estimator
        The clone of ``estimator`` that is fitted to all rows.
    n_targets_ : int
        The number of targets.
    calibration_ : Calibration or None
        The scores of held-out rows.

    Notes
    -----
    Intervals and regions are conformal. Rows that a fit has not seen get a score: the mass of
    the conditional density where it is higher than at the target [1]_ or, for intervals, the mass
    of the central interval that ends at the target. The interval or region of a new row has a mass
    that covers the given share of the scores.

    After :meth:`calibrate` with :math:`n` rows that were not seen in the fit, and are exchangeable
    with new rows, a region contains the target of a new row with a probability of at least
    ``confidence``, on average over all rows; for a single value of the features there is no
    guarantee. The scores of ``cv`` folds are those of densities that were fitted to fewer rows, and
    are applied to the density of all rows. The probability is then close to ``confidence`` in
    practice, but nothing is proved. Intervals of several targets are calibrated one by one: each
    holds its target with that probability, not all together.

    References
    ----------
    .. [1] R. Izbicki, G. Shimizu, R. B. Stern: CD-split and HPD-split: efficient conformal regions
       in high dimensions. Journal of Machine Learning Research, 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from sevenhills import DensityRegressor
    >>> rng = np.random.RandomState(0)
    >>> X = rng.uniform(1, 3, size=(300, 1))
    >>> y = rng.choice([-1, 1], size=300) * X[:, 0] + 0.1 * rng.standard_normal(300)
    >>> model = DensityRegressor().fit(X, y)
    >>> [len(each) for each in model.predict_region([[1.5], [2.5]]).intervals()]
    [2, 2]
    """

    density_: KernelMixture
    estimator_: Any
    n_targets_: int
    calibration_: Calibration | None

    def __init__(
        self,
        estimator: Any = None,
        *,
        point: str = "mean",
        cv: Any = 5,
        random_state: Any = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.point = point
        self.cv = cv
        self.random_state = random_state
        self.n_jobs = n_jobs

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.regressor_tags.poor_score = True  # the score is a log density, not R^2
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the joint density, and calibrate intervals and regions.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        sample_weight : array-like of shape (n_samples,), optional
            The number of samples that every row stands for, if the estimator takes weights.

        Returns
        -------
        self
            If fitting fails, the regressor is as it was before.
        """
        with unchanged_on_failure(self):
            self._check_parameters()
            given = y
            X = check_samples(self, X, reset=True)
            y = _check_targets(self, given, X)
            weights = check_weights(sample_weight, len(X))
            self._is_flat, self.n_targets_ = y.ndim == 1, y.reshape(len(y), -1).shape[1]
            self._fit(np.column_stack([X, y]), weights, self._names(given))
        return self

    def _check_parameters(self) -> None:
        check_choice(self.point, "point", ("mean", "median", "mode"))
        if self.cv is not None and not np.iterable(self.cv):
            check_count(self.cv, "cv", least=2)
        check_n_jobs(self.n_jobs)

    def _names(self, y: Any) -> tuple[str, ...] | None:
        """Return the names of features and targets, None if the features do not have any."""
        if not hasattr(self, "feature_names_in_"):
            return None
        names = list(getattr(y, "columns", [getattr(y, "name", None)]))
        if len(names) != self.n_targets_ or not all(isinstance(name, str) for name in names):
            names = ["y"] if self.n_targets_ == 1 else [f"y{j}" for j in range(self.n_targets_)]
        joint = (*self.feature_names_in_.tolist(), *names)
        if len(set(joint)) < len(joint):
            raise ValueError(f"features and targets must have different names, got {list(joint)}")
        return joint

    def _fit(self, joint: np.ndarray, weights: np.ndarray | None, names: Any) -> None:
        recipe = default_estimator(*joint.shape) if self.estimator is None else self.estimator
        fit = cloned_fit(recipe, names)
        rng = random_generator(self.random_state)
        with part("all samples", 0.0, 1.0 if self.cv is None else 0.2):
            self.estimator_ = fit(joint, weights)
        self.density_ = _density_of(self.estimator_)._replace(feature_names=names)
        self.calibration_ = None
        folds = None
        if np.iterable(self.cv):
            folds = _given_folds(joint, weights, self.cv)
        elif self.cv is not None:
            folds = _dealt_folds(joint, weights, self.cv, rng)
        self._seed = int(rng.randint(2**31))
        if folds is not None:
            with part("", 0.2, 1.0):
                self.calibration_ = self._cross_calibration(fit, folds, weights is None)

    def _cross_calibration(self, fit: Fit, folds: "_Folds", unweighted: bool) -> Calibration:
        """Return the scores of rows that folds hold out."""
        rows, totals, held_out = folds
        n_folds = len(held_out)

        def scores(f: int, own: np.ndarray) -> Calibration:
            left, out = totals - own, own > 0
            kept = left > _ROUNDING * totals
            train = (rows[kept], left[kept])
            if unweighted:
                train = np.repeat(rows, np.rint(left).astype(np.int64), axis=0), None
            try:
                with step(f"fold {f + 1} of {n_folds}", f, n_folds):
                    model = fit(*train)
            except ValueError as error:
                raise ValueError(
                    f"the samples cannot be fitted without one of {n_folds} folds: {error}; "
                    "with cv=None no rows are held out"
                ) from error
            return self._scores(_density_of(model), rows[out], own[out])

        threads = Parallel(n_jobs=self.n_jobs, prefer="threads")
        parts = threads(delayed(scores)(f, own) for f, own in enumerate(held_out) if own.any())
        return Calibration(*(np.concatenate(each) for each in zip(*parts, strict=True)))

    def _scores(
        self, density: KernelMixture, joint: np.ndarray, weights: np.ndarray
    ) -> Calibration:
        """Return the scores of rows under a density."""
        X, Y = np.split(joint, [-self.n_targets_], axis=1)
        found = _given(density, X)
        region = found.hdr_probability(Y, _N_DRAWS, self._seed, self.n_jobs)
        below = [
            _given(density, X, target).cdf(values, self.n_jobs) for target, values in enumerate(Y.T)
        ]
        return Calibration(region, np.abs(2 * np.transpose(below) - 1), weights)

    def calibrate(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Calibrate intervals and regions by rows that were not seen in the fit.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        sample_weight : array-like of shape (n_samples,), optional
            The number of samples that every row stands for.

        Returns
        -------
        self
        """
        X, Y = self._check_both(X, y)
        weights = check_weights(sample_weight, len(X))
        weights = np.ones(len(X)) if weights is None else weights
        self.calibration_ = self._scores(self.density_, np.column_stack([X, Y]), weights)
        return self

    # Predictions

    def conditionals(self, X: Any) -> Conditionals:
        """Return the conditional densities of the targets given the rows of ``X``."""
        check_is_fitted(self)
        return _given(self.density_, check_samples(self, X, reset=False))

    def predict(self, X: Any) -> np.ndarray:
        """Return the mean, the medians or the mode of the targets, as ``point`` says.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_targets)
        """
        check_is_fitted(self)
        if self.point == "median":
            return self.predict_quantile(X, 0.5)
        found = self.conditionals(X)
        return self._shaped((found.mean if self.point == "mean" else found.mode)(self.n_jobs))

    def predict_quantile(self, X: Any, q: Any) -> np.ndarray:
        """Return quantiles of every target; they are not calibrated.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        q : float or array-like of shape (n_quantiles,)
            Probabilities.

        Returns
        -------
        ndarray of shape (n_samples, [n_targets,] [n_quantiles])
        """
        return self._shaped(
            np.stack([each.ppf(q, self.n_jobs) for each in self._targets(X)], axis=1)
        )

    def predict_interval(self, X: Any, confidence: float = 0.9) -> np.ndarray:
        """Return a calibrated central interval of every target.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        confidence : float, default=0.9
            The share of new rows of which the interval shall hold the target.

        Returns
        -------
        ndarray of shape (n_samples, 2) or (n_samples, n_targets, 2)
            Infinite if there were too few rows to calibrate.
        """
        found = self._targets(X)
        masses = self._masses("interval", confidence)
        ends = [
            each.ppf([0.5 - 0.5 * mass, 0.5 + 0.5 * mass], self.n_jobs)
            for each, mass in zip(found, masses, strict=True)
        ]
        return self._shaped(np.stack(ends, axis=1))

    def predict_region(self, X: Any, confidence: float = 0.9) -> Regions:
        """Return the calibrated highest-density regions of all targets together.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        confidence : float, default=0.9
            The share of new rows of which the region shall hold the targets.

        Returns
        -------
        Regions
        """
        found, (mass,) = self.conditionals(X), self._masses("region", confidence)[:1]
        return Regions(found, float(mass), self._seed, self.n_jobs)

    def sample(self, X: Any, n_samples: int = 1, random_state: Any = None) -> np.ndarray:
        """Draw targets of every row, (n_rows, n_samples) or (n_rows, n_samples, n_targets)."""
        drawn = self.conditionals(X).sample(n_samples, random_state, self.n_jobs)
        return drawn[:, :, 0] if self._is_flat else drawn

    def logpdf(self, X: Any, y: Any) -> np.ndarray:
        r"""Return the log density :math:`\log p(y \mid x)` of every row."""
        X, Y = self._check_both(X, y)
        return _given(self.density_, X).logpdf(Y, self.n_jobs)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        r"""Return the mean log density :math:`\log p(y \mid x)`, which is not :math:`R^2`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        float
        """
        scores = self.logpdf(X, y)
        return float(np.average(scores, weights=check_weights(sample_weight, len(scores))))

    def crps(self, X: Any, y: Any) -> np.ndarray:
        """Return the continuous ranked probability score (n_samples,) of one target.

        It is the error of the conditional distribution in the unit of the target, less is better.
        """
        X, Y = self._check_both(X, y)
        return _given(self.density_, X).crps(Y[:, 0] if self.n_targets_ == 1 else Y, self.n_jobs)

    def _check_both(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return checked features, and targets as columns."""
        check_is_fitted(self)
        X = check_samples(self, X, reset=False)
        Y = _check_targets(self, y, X).reshape(len(X), -1)
        if Y.shape[1] != self.n_targets_:
            raise ValueError(f"y has {Y.shape[1]} targets, but the fit had {self.n_targets_}")
        return X, Y

    def _targets(self, X: Any) -> list[Conditionals]:
        """Return the conditional densities of every target by itself."""
        check_is_fitted(self)
        X = check_samples(self, X, reset=False)
        return [_given(self.density_, X, target) for target in range(self.n_targets_)]

    def _shaped(self, values: np.ndarray) -> np.ndarray:
        """Return values (n, n_targets, ...) without the axis of targets if y did not have it."""
        return values[:, 0] if self._is_flat else values

    def _masses(self, kind: str, confidence: float) -> np.ndarray:
        confidence = check_confidence(confidence)
        if self.calibration_ is None:
            return np.full(self.n_targets_, confidence)
        return self.calibration_.masses(kind, confidence)


def _check_targets(regressor: DensityRegressor, y: Any, X: np.ndarray) -> np.ndarray:
    """Return targets as floats of one or two dimensions."""
    if y is None:
        name = type(regressor).__name__
        raise ValueError(f"{name} requires y to be passed, but the target y is None")
    y = without_tensors(y)
    with clear_errors(y.to_frame() if hasattr(y, "to_frame") else y, "y"):
        y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
    check_consistent_length(X, y)
    return np.asarray(y)


def _density_of(fitted: Any) -> KernelMixture:
    density = getattr(fitted, "density_", None)
    if not isinstance(density, KernelMixture):
        raise TypeError(
            f"estimator must fit a mixture of kernels, which {type(fitted).__name__} does not"
        )
    return density


def _given(density: KernelMixture, X: np.ndarray, target: int | None = None) -> Conditionals:
    """Return the conditional densities of all targets, or of one, given features."""
    n_features = X.shape[1]
    if target is not None and density.n_features > n_features + 1:
        density = density.marginal([*range(n_features), n_features + target])
    found: Conditionals = density.conditional(dict(enumerate(X.T)))
    return found


class _Folds(NamedTuple):
    """Rows, and the weights that folds hold out."""

    rows: np.ndarray  #: (n, M)
    weights: np.ndarray  #: (n,)
    held_out: np.ndarray  #: (n_folds, n)


def _dealt_folds(
    joint: np.ndarray, weights: np.ndarray | None, n_folds: int, rng: np.random.RandomState
) -> _Folds:
    """Deal rows out to folds; equal rows are joined first, so that weights are repetitions."""
    rows, of_row = np.unique(joint + 0.0, axis=0, return_inverse=True)
    totals = np.bincount(of_row.ravel(), weights)
    rows, totals = rows[totals > 0], totals[totals > 0]
    order = mixed_generator(rng, rows).permutation(len(rows))
    return _Folds(rows[order], totals[order], deal_in_turn(totals[order], n_folds))


def _given_folds(joint: np.ndarray, weights: np.ndarray | None, splits: Any) -> _Folds:
    """Return folds that hold out the test rows of splits."""
    weights = np.ones(len(joint)) if weights is None else weights
    held_out = np.zeros((len(tests := [test for _, test in splits]), len(joint)))
    for own, test in zip(held_out, tests, strict=True):
        own[test] = weights[test]
    if not held_out.any() or ((held_out > 0).sum(axis=0) > 1).any():
        raise ValueError("cv must hold out some rows, and every row at most once")
    return _Folds(joint, weights, held_out)


def _upper_quantile(scores: np.ndarray, weights: np.ndarray, confidence: float) -> float:
    """Return the score that a new one exceeds with a probability of at most 1 - confidence.

    It is one, the largest score, if there are too few scores.
    """
    order = np.argsort(scores)
    sums = np.cumsum(weights[order])
    at = np.searchsorted(sums, confidence * (sums[-1] + 1) * (1 - _ROUNDING))
    return float(scores[order[at]]) if at < len(scores) else 1.0

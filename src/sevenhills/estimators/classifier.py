r"""Classification by Bayes' rule: one density for each class.

A density of few samples in many features is overconfident. Beside its own density, every class
therefore has three that share a shape with the other classes. Held-out samples decide how much each
of the four counts, so that probabilities are those with which held-out samples have the classes.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_expit, log_softmax, logsumexp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from ..clustering.scaling import feature_scales
from ..covariance import Ellipse, Pooled, shrunk_ellipse, weighted_moments
from ..density import KernelMixture
from ..folds import N_FOLDS, deal
from ..progress import part, step
from ..validation import (
    check_choice,
    check_field,
    check_n_jobs,
    check_numbers,
    check_samples,
    check_weights,
    unchanged_on_failure,
)
from .base import Fit, cloned_fit
from .defaults import default_estimator

#: The width of the kernels with a pooled shape, in pooled standard deviations. Between 0.4 and 1,
#: held-out log losses are equally low, because their slope makes up for the width.
_WIDTH = 0.7
#: Variances are at least this share of the variance of all samples, so that a feature with one
#: value in every class keeps a density.
_LEAST_VARIANCE = 1e-6
#: Log densities are at most this far below that of the likeliest class. Larger differences change
#: no probability, but make the search for slopes ill-conditioned.
_MOST_NATS = 1000.0
#: The weight of the prior of slopes and biases, in samples. Between 1 and 10, held-out log losses
#: are equally low.
_RIDGE = 4.0
#: The weight of the prior that slopes add up to one at most, in samples. All densities of a class
#: describe the same samples, so that larger sums count them more than once. A few held-out samples
#: that are easy to classify would support any sum. Between 16 and 256 the value matters little.
_EXCESS = 64.0
#: The number of samples of random class that is added to the held-out ones, which keeps the share
#: of random labels above zero. Below 0.5 the value matters little.
_DOUBT = 0.1
#: The logit of the share of random labels from which the search starts: about 1 %.
_FIRST_LOGIT = -5.0
#: Shares of classes are at least this one in the log loss, whose logarithm is finite.
_LEAST_SHARE = 1e-300


class Calibration(NamedTuple):
    r"""The map from log densities to probabilities.

    .. math:: P(c \mid x) = (1 - \epsilon) \frac{\pi_c \, e^{f_c(x)}}{\sum_d \pi_d \, e^{f_d(x)}}
              + \epsilon \, \pi_c, \qquad
              f_c(x) = b_c + \sum_m \beta_m \log p_{cm}(x)
    """

    slopes: np.ndarray  #: (n_densities,) :math:`\beta`: own density, both Gaussians, kernels
    biases: np.ndarray  #: (n_classes,) :math:`b`
    floor: float  #: :math:`\epsilon`, the share of samples with a random class

    def log_proba(self, scores: np.ndarray, log_priors: np.ndarray) -> np.ndarray:
        """Return log probabilities by log densities, (n_samples, n_classes, n_densities)."""
        logits = log_priors + self.biases + _relative(scores, np.inf) @ self.slopes
        out = log_softmax(logits, axis=1)
        if self.floor > 0:
            out = np.logaddexp(np.log1p(-self.floor) + out, np.log(self.floor) + log_priors)
        out[(scores == -np.inf).all(axis=(1, 2))] = log_priors
        return np.asarray(out)

    def _validate(self) -> None:
        """Raise an error if a value is impossible, as one of a file might be."""
        check_field(self.slopes, "slopes", "f", (len(self.slopes),), least=0)
        check_field(self.biases, "biases", "f", (len(self.biases),))
        if not 0 <= self.floor < 1:
            raise ValueError(f"floor must be at least 0 and below 1, got {self.floor}")


class DensityClassifier(ClassifierMixin, BaseEstimator):
    r"""Bayes' rule with a density of its own for every class.

    .. math:: P(y = c \mid x) = \frac{\pi_c \, p_c(x)}{\sum_d \pi_d \, p_d(x)}

    With Gaussians this is quadratic discriminant analysis, with independent ones naive Bayes;
    with ROME a class may have several modes, each of a shape of its own.

    Parameters
    ----------
    estimator : estimator, optional
        The density estimator of a class, with ``fit`` and a ``score_samples`` that returns log
        densities. By default ``AutoROME()``, and ROME in scaled features for large tables.
    priors : array-like of shape (n_classes,), optional
        The probabilities of the classes, in the order of ``classes_``. By default their shares of
        the weight of the training rows.
    pool : "auto" or None, default="auto"
        Whether classes are compared by shapes that they share, too, and probabilities are
        calibrated. With "auto", log densities of three kinds are added to those of ``estimator``:
        Gaussians with the pooled covariance, Gaussians with a covariance shrunk towards it, and
        kernels with pooled standard deviations. Their factors, a bias for every class and a share
        of random labels minimize the log loss of held-out samples; ``calibration_`` has them. A fit
        then takes about five times as long. None is the formula above, which is overconfident if
        classes have few samples.
    n_jobs : int, optional
        Number of threads over classes; one by default.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    estimators_ : list of estimators
        The fitted clone of ``estimator`` of every class. If all samples of a class are equal, its
        clone is fitted to the deviations of all samples from the means of their classes.
    priors_ : ndarray of shape (n_classes,)
        The probabilities of the classes.
    pooled_ : list of tuples of KernelMixture
        The densities of every class with a shared shape; empty tuples without ``pool``.
    calibration_ : Calibration
        The map from log densities to probabilities; that of Bayes' rule without ``pool``.

    Notes
    -----
    Where the densities of all classes are zero, the probabilities are the priors. Given ``priors``
    replace the shares of weight after the calibration.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sevenhills import DensityClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> classifier = DensityClassifier().fit(X[::2], y[::2])
    >>> bool(classifier.score(X[1::2], y[1::2]) > 0.9)
    True
    >>> classifier.predict_proba(X[:1]).round(2)
    array([[1., 0., 0.]])
    """

    classes_: np.ndarray
    estimators_: list[Any]
    priors_: np.ndarray
    pooled_: list[tuple[KernelMixture, ...]]
    calibration_: Calibration

    def __init__(
        self,
        estimator: Any = None,
        *,
        priors: Any = None,
        pool: str | None = "auto",
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.priors = priors
        self.pool = pool
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit a density to the samples of every class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            The label of every sample.
        sample_weight : array-like of shape (n_samples,), optional
            The number of samples that every row stands for, if the estimator takes weights.

        Returns
        -------
        self
            If fitting fails, the classifier is as it was before.
        """
        with unchanged_on_failure(self):
            check_n_jobs(self.n_jobs)
            check_choice(self.pool, "pool", ("auto", None))
            y = _check_targets(self, y)
            X = check_samples(self, X, reset=True)
            recipe = default_estimator(*X.shape) if self.estimator is None else self.estimator
            fit = cloned_fit(recipe, getattr(self, "feature_names_in_", None))
            check_consistent_length(X, y)
            self._fit(X, y, check_weights(sample_weight, len(X)), fit)
        return self

    def _fit(self, X: np.ndarray, y: np.ndarray, weights: np.ndarray | None, fit: Fit) -> None:
        if weights is not None:  # a row of no weight is no sample of its class
            X, y, weights = X[weights > 0], y[weights > 0], weights[weights > 0]
        self.classes_, of_row = np.unique(y, return_inverse=True)
        n_classes = len(self.classes_)
        parts = [_Rows(X, weights).take(of_row == c) for c in range(n_classes)]
        sizes = np.array([part.masses.sum() for part in parts])
        shares = sizes / sizes.sum()
        self.priors_ = shares if self.priors is None else _check_priors(self.priors, n_classes)
        spread = _deviations(parts)
        is_pooled = self.pool is not None and n_classes > 1
        with part("", 0.0, 0.2 if is_pooled else 1.0):
            self.estimators_ = self._fit_classes(parts, fit, spread)
        self.pooled_ = [() for _ in parts]
        self.calibration_ = Calibration(np.ones(1), np.zeros(n_classes), 0.0)
        if is_pooled:
            self.pooled_ = _pooled_densities(parts)
            with part("", 0.2, 1.0):
                held_out = self._held_out(parts, fit, spread)
            self.calibration_ = _calibrate(*held_out, shares)

    def _fit_classes(self, parts: Sequence["_Rows"], fit: Fit, spread: "_Rows") -> list[Any]:
        """Return the fit of every class; ``spread`` has the deviations of samples of all."""

        def fit_class(c: int) -> Any:
            own = parts[c]
            if own.is_one_value:
                own = _Rows(own.X[0] + spread.X, spread.weights)
            name = self.classes_[c]
            try:
                with step(f"class {name!s}", c, len(parts)):
                    return fit(*own)
            except ValueError as error:
                raise ValueError(f"class {name!s} cannot be fitted: {error}") from error

        return self._for_each(fit_class, len(parts))

    def _held_out(
        self, parts: Sequence["_Rows"], fit: Fit, spread: "_Rows"
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return log densities of held-out rows, their classes, and their weights."""
        folds = [part.folds() for part in parts]
        out = []
        for f, pairs in enumerate(zip(*folds, strict=True)):
            train, tests = zip(*pairs, strict=True)
            X = np.concatenate([test.X for test in tests])
            if len(X):
                with step(f"fold {f + 1} of {len(folds[0])}", f, len(folds[0])):
                    models = self._fit_classes(train, fit, spread)
                scores = self._score_classes(X, models, _pooled_densities(train))
                y = np.repeat(np.arange(len(tests)), [len(test.X) for test in tests])
                out.append((scores, y, np.concatenate([test.masses for test in tests])))
        scores, y, weights = (np.concatenate(each) for each in zip(*out, strict=True))
        return scores, y, weights

    def _score_classes(
        self,
        X: np.ndarray,
        models: Sequence[Any],
        pooled: Sequence[tuple[KernelMixture, ...]],
    ) -> np.ndarray:
        """Return log densities, (n_samples, n_classes, n_densities); those of models are first."""

        def score(c: int) -> np.ndarray:
            own = np.asarray(models[c].score_samples(X), dtype=np.float64)
            return np.stack([own, *(each.logpdf(X) for each in pooled[c])], axis=1)

        return np.stack(self._for_each(score, len(models)), axis=1)

    def _for_each(self, work: Callable[[int], Any], n_classes: int) -> list[Any]:
        """Return the results of ``work`` for every class."""
        threads = Parallel(n_jobs=self.n_jobs, prefer="threads")
        return list(threads(delayed(work)(c) for c in range(n_classes)))

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return the logarithms of the probabilities of classes, (n_samples, n_classes)."""
        check_is_fitted(self)
        X = check_samples(self, X, reset=False)
        scores = self._score_classes(X, self.estimators_, self.pooled_)
        return self.calibration_.log_proba(scores, _log(self.priors_))

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probabilities of classes, (n_samples, n_classes); rows add up to one."""
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable class of every row of ``X``."""
        best = self.predict_log_proba(X).argmax(axis=1)  # refuses an unfitted classifier
        return self.classes_[best]

    def score_samples(self, X: Any) -> np.ndarray:
        r"""Return the log density of all classes together, :math:`\log \sum_c \pi_c \, p_c(x)`.

        The densities are those of ``estimators_``.
        """
        check_is_fitted(self)
        X = check_samples(self, X, reset=False)
        scores = self._score_classes(X, self.estimators_, [()] * len(self.classes_))
        return logsumexp(scores[:, :, 0] + _log(self.priors_), axis=1)


class _Rows(NamedTuple):
    """Rows of a class, and the number of samples that each stands for; None is one."""

    X: np.ndarray
    weights: np.ndarray | None

    @property
    def masses(self) -> np.ndarray:
        return np.ones(len(self.X)) if self.weights is None else self.weights

    @property
    def is_one_value(self) -> bool:
        return bool((self.X[1:] == self.X[:1]).all())

    def take(self, rows: np.ndarray) -> "_Rows":
        return _Rows(self.X[rows], None if self.weights is None else self.weights[rows])

    def distinct(self) -> tuple[np.ndarray, np.ndarray]:
        """Return distinct rows in ascending order, and the weights of all equal ones."""
        X, of_row = np.unique(self.X, axis=0, return_inverse=True)
        return X, np.bincount(of_row.ravel(), self.masses)

    def repeated(self) -> "_Rows":
        """Return rows without weights, each as often as its weight says, but at least once."""
        counts = np.maximum(np.rint(self.masses), 1).astype(np.int64)
        return _Rows(np.repeat(self.X, counts, axis=0), None)

    def folds(self) -> list[tuple["_Rows", "_Rows"]]:
        """Return training and test rows of every fold; test rows have the weight of the class.

        Distinct rows are dealt out in ascending order, so that the order of rows does not matter,
        and weights are repetitions. A class of one value is not tested, and a class of fewer
        samples than folds only in the first ones.
        """
        untested = (self, self.take(np.empty(0, dtype=np.int64)))
        if self.is_one_value:
            return [untested] * N_FOLDS
        X, masses = self.distinct()
        dealt = deal(masses, np.random.RandomState(0))
        factor = masses.sum() / sum(fold.test_weights.sum() for fold in dealt)
        out = []
        for fold in dealt:
            train = _Rows(X[fold.train], fold.train_weights)
            test = _Rows(X[fold.test], factor * fold.test_weights)
            out.append((train if self.weights is not None else train.repeated(), test))
        return out + [untested] * (N_FOLDS - len(out))


def _deviations(parts: Sequence[_Rows]) -> _Rows:
    """Return the deviations of rows from the means of their classes."""
    X = [part.X - weighted_moments(part.X, part.masses).mean for part in parts]
    weights = None if parts[0].weights is None else np.concatenate([part.masses for part in parts])
    return _Rows(np.concatenate(X), weights)


def _pooled_densities(parts: Sequence[_Rows]) -> list[tuple[KernelMixture, ...]]:
    """Return densities of every class with shapes that classes share.

    They are a Gaussian with the pooled covariance, a Gaussian with the covariance of the class
    shrunk towards it, and kernels with pooled standard deviations. They follow changes of units.
    """
    parts = [_Rows(*part.distinct()) for part in parts]
    X = np.concatenate([part.X for part in parts])
    masses = np.concatenate([part.masses for part in parts])
    units, origin = feature_scales(X, masses, "std"), X[0]
    scaled = [_Rows((part.X - origin) / units, part.masses) for part in parts]
    deviations, dof = _deviations(scaled).X, max(masses.sum() - len(parts), 1.0)
    ridge = _LEAST_VARIANCE * np.eye(X.shape[1])
    pooled = Pooled((deviations * masses[:, None]).T @ deviations / dof, dof)
    common, _ = shrunk_ellipse(deviations, masses, ridge, None)
    widths = _WIDTH * np.sqrt(np.diag(pooled.covariance + ridge))

    def mixture(means: np.ndarray, weights: np.ndarray, transform: np.ndarray) -> KernelMixture:
        return KernelMixture(
            weights=weights / weights.sum(),
            means=origin + means * units,
            offsets=np.array([0, len(means)]),
            transforms=(transform / units[:, None])[None],
        )

    def densities(part: _Rows) -> tuple[KernelMixture, ...]:
        own = Ellipse(weighted_moments(part.X, part.masses).mean, common.transform)
        ellipses = [own, own]
        if not part.is_one_value:
            ellipses[1], _ = shrunk_ellipse(part.X, part.masses, ridge, pooled)
        kernels = mixture(part.X, part.masses, np.diag(1 / widths))
        return (*(mixture(e.mean[None], np.ones(1), e.transform) for e in ellipses), kernels)

    return [densities(part) for part in scaled]


def _calibrate(
    scores: np.ndarray, y: np.ndarray, weights: np.ndarray, shares: np.ndarray
) -> Calibration:
    r"""Return the calibration with the lowest log loss of held-out rows.

    .. math:: -\sum_i w_i \log P(y_i \mid x_i) + \frac{\lambda}{2} \big(|\beta - e_1|^2 + |b|^2\big)
              + \frac{\kappa}{2} \max\big(\sum_m \beta_m - 1, 0\big)^2 - \delta \log \epsilon

    with :math:`\lambda = 4`, :math:`\kappa = 64` and :math:`\delta = 0.1` draws few samples to
    Bayes' rule. The scores are log densities, (n_samples, n_classes, n_densities).
    """
    scores, log_shares = _relative(scores, _MOST_NATS), np.log(np.maximum(shares, _LEAST_SHARE))
    n_rows, n_classes, n_densities = scores.shape
    rows, total = np.arange(n_rows), weights.sum()
    start = np.zeros(n_densities + n_classes + 1)
    start[0], start[-1] = 1.0, _FIRST_LOGIT

    def loss(values: np.ndarray) -> tuple[float, np.ndarray]:
        slopes, biases, logit = np.split(values, [n_densities, n_densities + n_classes])
        log_floor, log_rest = log_expit(logit), log_expit(-logit)
        log_softmaxes = log_softmax(log_shares + biases + scores @ slopes, axis=1)
        own, random = log_rest + log_softmaxes[rows, y], log_floor + log_shares[y]
        log_proba = np.logaddexp(own, random)
        n_own = weights * np.exp(own - log_proba)
        by_score = n_own[:, None] * np.exp(log_softmaxes)
        by_score[rows, y] -= n_own
        shift = np.append(values[:-1] - start[:-1], 0.0)
        excess = max(slopes.sum() - 1.0, 0.0)
        n_random = weights @ np.exp(random - log_proba)
        by_slope = np.tensordot(by_score, scores, axes=2) + _EXCESS * excess
        by_logit = expit(logit) * total - n_random - _DOUBT * expit(-logit)
        gradient = np.concatenate([by_slope, by_score.sum(axis=0), by_logit]) + _RIDGE * shift
        prior = 0.5 * (_RIDGE * shift @ shift + _EXCESS * excess**2) - _DOUBT * log_floor[0]
        value = prior - weights @ log_proba
        return value / total, gradient / total

    bounds = [(0.0, None)] * n_densities + [(None, None)] * n_classes + [(None, 0.0)]
    options = {"maxiter": 2000, "ftol": 1e-14, "gtol": 1e-9}
    # From Bayes' rule alone, a search cannot leave densities that are zero at most held-out rows.
    flat = np.append(np.zeros(len(start) - 1), start[-1])
    found = [
        minimize(loss, first, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        for first in (start, flat)
    ]
    best = min(found, key=lambda each: float(each.fun)).x
    slopes, biases, logit = np.split(best, [n_densities, n_densities + n_classes])
    return Calibration(slopes, biases, float(expit(logit[0])))


def _relative(scores: np.ndarray, most: float) -> np.ndarray:
    """Return log densities relative to those of the likeliest class, at least minus ``most``."""
    largest = np.finfo(np.float64).max / 4
    scores = np.clip(scores, -largest, largest)  # differences of infinities are no numbers
    return np.maximum(scores - scores.max(axis=1, keepdims=True), -most)


def _log(shares: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):  # a share of weight may be too small for a float
        return np.log(shares)


def _check_targets(classifier: DensityClassifier, y: Any) -> np.ndarray:
    """Return labels as a 1-D array."""
    if isinstance(y, np.ma.MaskedArray):
        raise TypeError("y is a masked array; fill or drop the masked values first")
    y = validate_data(classifier, y=y)
    check_classification_targets(y)
    return np.asarray(y)


def _check_priors(priors: Any, n_classes: int) -> np.ndarray:
    out = check_numbers(priors, "priors").copy()
    if out.shape != (n_classes,):
        raise ValueError(
            f"priors must have shape ({n_classes},), one for each class, got {out.shape}"
        )
    if not (np.isfinite(out) & (out > 0)).all():
        raise ValueError("priors must be finite and positive")
    if abs(out.sum() - 1.0) > 1e-9:
        raise ValueError(f"priors must add up to one, got {out.sum():g}")
    return out

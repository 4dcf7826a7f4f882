"""Classification by Bayes' rule: one density for each class."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from ..validation import (
    check_n_jobs,
    check_numbers,
    check_samples,
    check_weights,
    unchanged_on_failure,
)
from ..whitening import AUTO_SHARE, Grouping
from .base import Fit, cloned_fit
from .rome import ROME


class DensityClassifier(ClassifierMixin, BaseEstimator):
    r"""Bayes' rule with a density of its own for every class.

    .. math:: P(y = c \mid x) = \frac{\pi_c \, p_c(x)}{\sum_d \pi_d \, p_d(x)}

    With Gaussians this is quadratic discriminant analysis, with independent ones naive Bayes;
    with ROME a class may have several modes, each of a shape of its own.

    Parameters
    ----------
    estimator : estimator, optional
        The density estimator of a class, with ``fit`` and a ``score_samples`` that returns log
        densities. ``ROME()`` by default; the ``min_std`` of a class of one sample is then derived
        from the spread within all classes.
    priors : array-like of shape (n_classes,), optional
        The probabilities of the classes, in the order of ``classes_``. By default their shares of
        the weight of the training rows.
    n_jobs : int, optional
        Number of threads over classes; one by default.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    estimators_ : list of estimators
        The fitted clone of ``estimator`` of every class.
    priors_ : ndarray of shape (n_classes,)
        The probabilities of the classes.

    Notes
    -----
    Where the densities of all classes are zero, the probabilities are the priors. In many features,
    the probabilities by kernels on few samples are overconfident; scikit-learn's
    ``CalibratedClassifierCV`` around the classifier corrects them.

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

    def __init__(
        self, estimator: Any = None, *, priors: Any = None, n_jobs: int | None = None
    ) -> None:
        self.estimator = estimator
        self.priors = priors
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
            recipe = ROME() if self.estimator is None else self.estimator
            y = _check_targets(self, y)
            X = check_samples(self, X, reset=True)
            fit = cloned_fit(recipe, getattr(self, "feature_names_in_", None))
            check_consistent_length(X, y)
            self._fit(X, y, check_weights(sample_weight, len(X)), fit)
        return self

    def _fit(self, X: np.ndarray, y: np.ndarray, weights: np.ndarray | None, fit: Fit) -> None:
        if weights is not None:  # a row of no weight is no sample of its class
            X, y, weights = X[weights > 0], y[weights > 0], weights[weights > 0]
        classes, of_row = np.unique(y, return_inverse=True)
        sizes = np.bincount(of_row, weights)
        priors = sizes / sizes.sum()
        if self.priors is not None:
            priors = _check_priors(self.priors, len(classes))

        def fit_class(c: int) -> Any:
            members = of_row == c
            own = None if weights is None else weights[members]
            lone = self.estimator is None and (X[members] == X[members][0]).all()
            try:
                return (_fit_of_lone(X, of_row, weights) if lone else fit)(X[members], own)
            except ValueError as error:
                raise ValueError(f"class {classes[c]!s} cannot be fitted: {error}") from error

        self.estimators_ = self._for_each(fit_class, len(classes))
        self.classes_, self.priors_ = classes, priors

    def _for_each(self, work: Callable[[int], Any], n_classes: int) -> list[Any]:
        """Return the results of ``work`` for every class."""
        threads = Parallel(n_jobs=self.n_jobs, prefer="threads")
        return list(threads(delayed(work)(c) for c in range(n_classes)))

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return the logarithms of the probabilities of classes, (n_samples, n_classes)."""
        joint = self._log_joint(X)
        joint[(joint == -np.inf).all(axis=1)] = self._log_priors()
        return joint - logsumexp(joint, axis=1, keepdims=True)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probabilities of classes, (n_samples, n_classes); rows add up to one."""
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable class of every row of ``X``."""
        best = self.predict_log_proba(X).argmax(axis=1)  # refuses an unfitted classifier
        return self.classes_[best]

    def score_samples(self, X: Any) -> np.ndarray:
        r"""Return the log density of all classes together, :math:`\log \sum_c \pi_c \, p_c(x)`."""
        return logsumexp(self._log_joint(X), axis=1)

    def _log_joint(self, X: Any) -> np.ndarray:
        """Return the log of every class' prior times its density, (n_samples, n_classes)."""
        check_is_fitted(self)
        X = check_samples(self, X, reset=False)

        def score(c: int) -> np.ndarray:
            return np.asarray(self.estimators_[c].score_samples(X), dtype=np.float64)

        scores = self._for_each(score, len(self.classes_))
        return np.stack(scores, axis=1) + self._log_priors()

    def _log_priors(self) -> np.ndarray:
        with np.errstate(divide="ignore"):  # a share of weight may be too small for a float
            return np.log(self.priors_)


def _fit_of_lone(X: np.ndarray, of_row: np.ndarray, weights: np.ndarray | None) -> Fit:
    """Return the fit of a class of one value, whose ``min_std`` is that of all classes."""
    masses = np.ones(len(X)) if weights is None else weights
    spread = Grouping.from_samples(X, of_row, masses).spread()
    return cloned_fit(ROME(min_std=AUTO_SHARE * spread) if spread > 0 else ROME())


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

"""Several densities, ranked by the log densities of the same held-out samples."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from math import isfinite, nan
from typing import Any

import numpy as np
from scipy.special import stdtr, stdtrit

from ..density import KernelMixture
from ..estimate import Estimate, mean_with_error
from ..estimators.base import cloned_fit
from ..estimators.conformal_density import check_cv
from ..folds import hold_out, mixed_generator
from ..progress import step
from ..validation import check_confidence
from .arguments import Density, Points, check_log_densities, check_points, is_array
from .ranks import holm, rank_range, ties
from .tables import MeasureTable

#: A larger share of samples that are centers of kernels suggests that they are training samples.
_SEEN = 0.5
#: Samples that differ by less than this share of the largest value are the same.
_SAME = 1e-12
#: Log densities that differ by less, relatively, are equal; their tolerance is 1e-8.
_ROUNDING = 1e-7


class SeenSamplesWarning(UserWarning):
    """Samples that should be held out are centers of kernels of a density."""


@dataclass(frozen=True)
class RankedModel:
    """One model in a ranking.

    Attributes
    ----------
    model : str
    rank : str
        Rank, or the range of ranks that cannot be excluded, such as "1-2": the best is one more
        than the number of models that are significantly better.
    mean, standard_error : float
        Mean log density of the samples, and its standard error.
    difference, difference_error, low, high : float
        Mean of the paired differences from the first model, its standard error, and its interval
        by Student's distribution; NaN for the first itself.
    p_value : float
        P-value of a t-test of this difference, after Holm's correction for all pairs.
    """

    model: str
    rank: str
    mean: float
    standard_error: float
    difference: float
    difference_error: float
    low: float
    high: float
    p_value: float


@dataclass(frozen=True, eq=False, repr=False)
class LikelihoodRanking(MeasureTable):
    """Models in the order of the mean log density of the same samples, the best first.

    Attributes
    ----------
    summary : tuple of RankedModel
        A row for every model; ``ranking["name"]`` is the row of one of them.
    ties : tuple of tuple of str
        Largest groups of two and more models, no two of which can be told apart.
    n_samples : int
        Number of samples.
    confidence : float
        Confidence of intervals, and of all ranks together.
    """

    summary: tuple[RankedModel, ...]
    ties: tuple[tuple[str, ...], ...]
    n_samples: int
    confidence: float
    settings = {}  # noqa: RUF012

    @property
    def resolution(self) -> str:
        """Sentences that say which models the samples can tell apart."""
        if len(self.summary) == 1:
            return "There is one model."
        by = f"by these {self.n_samples:,} samples"
        found = [
            f"{', '.join(tie[:-1])} and {tie[-1]} cannot be told apart {by}." for tie in self.ties
        ]
        return " ".join(found or [f"All models can be told apart {by}."])

    def texts(self, *what: str) -> list[list[str]]:
        """Return the table as text, heading first."""
        interval = f"{100 * self.confidence:.3g} % interval"
        rows = [["model", "rank", "mean log density", "difference", interval, "p-value"]]
        for row in self.summary:
            cells = [row.model, row.rank, str(Estimate(row.mean, row.standard_error))]
            if isfinite(row.difference):
                limits = f"{row.low:.3g} to {row.high:.3g}"
                cells += [str(Estimate(row.difference, row.difference_error)), limits]
            else:
                cells += ["-" if row is self.summary[0] else f"{row.difference:g}", "-"]
            rows.append([*cells, "-" if row is self.summary[0] else _p_text(row.p_value)])
        return rows

    def _caption(self) -> str:
        return (
            f"Mean log density of {self.n_samples:,} samples, higher is better, and its difference "
            f"from the first. {self.resolution}"
        )


def _p_text(p_value: float) -> str:
    return "< 0.0001" if p_value < 0.0001 else f"{p_value:.2g}"


def compare_likelihoods(
    models: Mapping[str, Any],
    X: Any = None,
    *,
    cv: int | float | None = None,
    confidence: float = 0.95,
    random_state: Any = 0,
) -> LikelihoodRanking:
    r"""Rank models by the mean log density of the same held-out samples.

    Samples differ more than models do, so that models are compared sample by sample: the
    difference of two models has the standard error of the mean of paired differences
    :math:`\ln p(x_i) - \ln q(x_i)`. Two models can be told apart if the p-value of a two-sided
    t-test of this mean is at most ``1 - confidence`` after Holm's correction for all pairs. The
    rank of a model lies between one more than the number of models that are better and told apart
    from it, and the number of those that are not worse and told apart.

    Parameters
    ----------
    models : mapping of str
        Fitted models or densities, by their names; with ``cv``, unfitted estimators. Log densities
        (n_samples,) that are already known will do, too. All must be densities of the same
        features in the same units.
    X : array-like of shape (n_samples, n_features), optional
        Samples that no model was fitted to: a model gives its own training samples too high a
        density. Models that know the names of their features find them in a data frame in any
        order. None if all models are log densities.
    cv : int or float, optional
        The number of folds, or the share of samples that is held out once. Clones of the models
        are fitted to the other samples. By default the models are fitted.
    confidence : float, default=0.95
        Confidence of intervals, and of all ranks together.
    random_state : int, RandomState instance or None, default=0
        Seeds the folds.

    Returns
    -------
    LikelihoodRanking

    Warns
    -----
    SeenSamplesWarning
        If most samples are centers of kernels of a fitted model.

    See Also
    --------
    mean_log_likelihood : That of one model.
    likelihood_factor : Comparison over several runs.

    Notes
    -----
    Standard errors take samples as independent. Those of ``cv`` do not contain the variation
    between training sets. A model whose density vanishes at a sample has the mean minus infinity,
    and is told apart from every model with a finite mean.

    Examples
    --------
    >>> from sevenhills import ROME, GaussianKDE, datasets
    >>> from sevenhills.metrics import compare_likelihoods
    >>> train, test = datasets.load("aniso").split(run=0, n_samples=1000)
    >>> models = {"kde": GaussianKDE().fit(train), "rome": ROME().fit(train)}
    >>> ranking = compare_likelihoods(models, test)
    >>> [(row.model, row.rank) for row in ranking.summary]
    [('rome', '1'), ('kde', '2')]
    >>> ranking["kde"].difference + 3 * ranking["kde"].difference_error < 0
    True
    """
    check_confidence(confidence)
    if not isinstance(models, Mapping):
        raise TypeError(f"models must be a mapping of names to models, got {type(models).__name__}")
    if not models:
        raise ValueError("models must be at least one, got none")
    named = {str(name): model for name, model in models.items()}
    if cv is None:
        scores = _scores_of_fits(named, X)
    else:
        scores = _cross_validated(named, X, cv, random_state)
    return _ranking(scores, float(confidence))


def _scores_of_fits(models: Mapping[str, Any], X: Any) -> dict[str, np.ndarray]:
    """Return the log densities of samples by every model."""
    fitted = {name: model for name, model in models.items() if not is_array(model)}
    if fitted and X is None:
        raise TypeError(f"X is missing: give held-out samples for {', '.join(fitted)}")
    _check_same_features(fitted)
    scores = {}
    for i, (name, model) in enumerate(models.items()):
        with step(name, i, len(models)):
            if name in fitted:
                scores[name] = _log_densities(name, model, X)
            else:
                scores[name] = check_log_densities(model, _of(name))
    sizes = {name: len(each) for name, each in scores.items()}
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{size} of {name}" for name, size in sizes.items())
        raise ValueError(f"models must have log densities of the same samples, got {listed}")
    return scores


def _of(name: str) -> str:
    return f"models[{name!r}]"


def _log_densities(name: str, model: Any, X: Any) -> np.ndarray:
    density, names = Density(model, _of(name)), _feature_names(model)
    if names is not None and hasattr(X, "columns"):
        lacking = [each for each in names if each not in list(X.columns)]
        if lacking:
            raise ValueError(f"X lacks the features {lacking} of {density}")
        X = X[names]
    points = check_points(X, "X")
    density.warn_if_unnormalized("ranking", stacklevel=4)
    _warn_of_seen_samples(density, points)
    return density.logpdf(points)


def _feature_names(model: Any) -> list[str] | None:
    found = getattr(model, "feature_names_in_", getattr(model, "feature_names", None))
    return None if found is None else list(found)


def _check_same_features(models: Mapping[str, Any]) -> None:
    """Refuse models of different features, whose densities cannot be compared."""
    known = {name: _feature_names(model) for name, model in models.items()}
    named = {name: each for name, each in known.items() if each is not None}
    first = next(iter(named), "")
    for name, names in named.items():
        if set(names) != set(named[first]):
            only = [
                sorted(set(a) - set(b)) for a, b in ((named[first], names), (names, named[first]))
            ]
            differ = [
                f"only {who} has {has}" for who, has in zip((first, name), only, strict=True) if has
            ]
            raise ValueError(
                f"models must have the same features, but {'; '.join(differ)}: their log densities "
                "are not comparable"
            )


def _warn_of_seen_samples(density: Density, points: Points) -> None:
    """Warn if most samples are centers of kernels."""
    found = getattr(density.value, "density_", density.value)
    if not isinstance(found, KernelMixture) or found.n_features != points.values.shape[1]:
        return
    unit = np.abs(points.values).max(axis=0)
    unit = np.where(unit > 0, unit, 1.0) * _SAME
    centers = set(map(bytes, np.rint(found._values(found.means) / unit)))
    n_seen = sum(bytes(row) in centers for row in np.rint(points.values / unit))
    if n_seen > _SEEN * len(points):
        warnings.warn(
            f"{n_seen:,} of {len(points):,} samples are centers of kernels of {density}: if it was "
            "fitted to them, its mean log density is too high",
            SeenSamplesWarning,
            stacklevel=5,
        )


def _cross_validated(
    models: Mapping[str, Any], X: Any, cv: Any, random_state: Any
) -> dict[str, np.ndarray]:
    """Return the log densities of held-out samples by fits to the others."""
    check_cv(cv)
    arrays = [name for name, model in models.items() if is_array(model)]
    if arrays:
        raise TypeError(f"{_of(arrays[0])} must be an estimator if cv is given, got an array")
    X, names = check_points(X, "X").values, getattr(X, "columns", None)
    if len(X) < 2:
        raise ValueError("X has n_samples = 1; at least 2 are needed to hold one out")
    names = None if names is None else [str(name) for name in names]
    folds = hold_out(np.ones(len(X)), cv, mixed_generator(random_state, X)) > 0
    scores = {}
    for i, (name, model) in enumerate(models.items()):
        with step(name, i, len(models)):
            scores[name] = _held_out_scores(name, model, X, names, folds)
    return scores


def _held_out_scores(
    name: str, model: Any, X: np.ndarray, names: list[str] | None, folds: np.ndarray
) -> np.ndarray:
    """Return the log densities of the samples that folds hold out."""
    fit, out = cloned_fit(model, names), np.full(len(X), nan)
    for f, held in enumerate(folds):
        with step(f"fold {f + 1} of {len(folds)}", f, len(folds)):
            try:
                density = Density(fit(X[~held], None), _of(name))
            except ValueError as error:
                raise ValueError(f"{_of(name)} cannot be fitted: {error}") from error
            density.warn_if_unnormalized("ranking", stacklevel=5)
            out[held] = density.logpdf(Points("X", X[held]))
    return out[folds.any(axis=0)]


def _ranking(scores: Mapping[str, np.ndarray], confidence: float) -> LikelihoodRanking:
    means = {name: Estimate(*mean_with_error(each)) for name, each in scores.items()}
    names = sorted(means, key=lambda name: -float(means[name]))
    couples = list(combinations(names, 2))
    pairs = {pair: _difference(*(scores[name] for name in pair)) for pair in couples}
    p_values = dict(zip(couples, holm([_p_value(pair) for pair in pairs.values()]), strict=True))
    apart = {pair for pair, p_value in p_values.items() if p_value <= 1 - confidence}
    best = names[0]
    return LikelihoodRanking(
        summary=tuple(
            RankedModel(
                name,
                rank_range(name, names, apart),
                float(means[name]),
                means[name].std_error,
                *_limits(pairs.get((best, name)), confidence),
                p_value=float(p_values.get((best, name), nan)),
            )
            for name in names
        ),
        ties=ties(names, apart),
        n_samples=len(scores[best]),
        confidence=confidence,
    )


def _difference(better: np.ndarray, worse: np.ndarray) -> Estimate:
    """Return the mean of the second minus that of the first."""
    with np.errstate(invalid="ignore"):  # both may be minus infinity
        apart = worse - better
        apart[np.abs(apart) <= _ROUNDING * (1 + np.abs(better))] = 0.0
    return Estimate(*mean_with_error(apart), len(apart))


def _p_value(difference: Estimate) -> float:
    """Return the p-value of a two-sided t-test, NaN if it is not known."""
    if difference == -np.inf:
        return 0.0
    if difference.std_error == 0:
        return float(difference == 0.0)
    return float(2 * stdtr(difference.n - 1, -abs(difference) / difference.std_error))


def _limits(difference: Estimate | None, confidence: float) -> tuple[float, float, float, float]:
    """Return a difference, its standard error, and the limits of its interval."""
    if difference is None:
        return nan, nan, nan, nan
    width = float(stdtrit(difference.n - 1, 0.5 + confidence / 2)) * difference.std_error
    return float(difference), difference.std_error, difference - width, difference + width

"""Which density an estimator is, and what it does with samples that have none."""

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from sklearn.base import clone

from ..estimators import ROME, AutoROME, GaussianKDE
from ..kernels.steps import FEW, FINE, IDENTICAL
from ..validation import unfitted_copy

#: What kinds of degenerate samples are called.
KINDS = {1: "identical", 2: "flat", 3: "few", 4: "empty", 5: "refused"}
#: The estimator refused the samples, whatever they are.
REFUSED = 5


@dataclass(frozen=True)
class Recipe:
    """How samples become a density.

    Attributes
    ----------
    estimator : estimator
        It is cloned for every fit.
    errors : {"floor", "skip", "raise"}
        What to do with samples that do not span their space.
    floor : float or None
        The standard deviation that such samples are given, in data units; if None, what the
        estimator gives them by itself, if it does.
    """

    estimator: Any
    errors: str
    floor: float | None

    @property
    def takes_few(self) -> bool:
        """Whether the estimator is made for fewer samples than dimensions."""
        return isinstance(self.estimator, AutoROME) or (
            getattr(self.estimator, "shrinkage", None) is not None
        )

    def is_wrong(self, kind: int) -> bool:
        """Whether samples of a kind are no matter of course for the estimator."""
        return kind != FINE and not (kind == FEW and self.takes_few)

    def fit(self, X: np.ndarray, kind: int, floor: float) -> Any | None:
        """Return the fitted density of samples, None if they are to have none.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
        kind : int
            What is wrong with the samples; see :mod:`sevenhills.kernels.steps`.
        floor : float
            The standard deviation to give to samples that have none at all.
        """
        wrong = self.is_wrong(kind)
        if wrong and self.errors != "floor":
            return None
        model = unfitted_copy(self.estimator)
        if wrong and (self.floor is not None or kind == IDENTICAL):
            _raise_floor(model, floor)
        try:
            return model.fit(X)
        except (ValueError, RuntimeError, np.linalg.LinAlgError):
            return None


def try_out(estimator: Any, name: str) -> None:
    """Refuse an estimator that no samples would suit, rather than each of thousands of scenes."""
    try:
        unfitted_copy(estimator).fit(np.random.RandomState(0).standard_normal((40, 2)))
    except (ValueError, TypeError, RuntimeError) as error:
        raise ValueError(f"{name} cannot be fitted: {error}") from error


def _raise_floor(model: Any, floor: float) -> None:
    """Give an estimator a smallest standard deviation, if it knows such a thing."""
    if "min_std" in vars(model):
        model.min_std = floor


def estimator_of(estimator: Any, name: str, shrinkage: str | None) -> Any:
    """Return the estimator of a name, or a clone of a given one.

    Parameters
    ----------
    estimator : {"rome", "kde", "auto"} or estimator
    name : str
        The name of the argument.
    shrinkage : {"auto", "always", None}
        Passed to ROME.
    """
    if isinstance(estimator, str):
        if estimator not in _NAMED:
            raise ValueError(
                f"{name} must be one of {list(_NAMED)} or an estimator, got {estimator!r}"
            )
        return cast("Any", _NAMED[estimator])(shrinkage)
    lacking = [each for each in ("fit", "score_samples") if not hasattr(estimator, each)]
    if isinstance(estimator, type) or lacking:
        raise TypeError(
            f"{name} must be one of {list(_NAMED)} or an estimator with fit and score_samples, "
            f"got {estimator!r}"
        )
    return clone(estimator, safe=False)


def _rome(shrinkage: str | None) -> ROME:
    model = ROME()
    if "shrinkage" in vars(model):
        model.set_params(shrinkage=shrinkage)
    return model


_NAMED = {
    "rome": _rome,
    "kde": lambda shrinkage: GaussianKDE(),
    "auto": lambda shrinkage: AutoROME(),
}

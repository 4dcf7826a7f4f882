"""A drop-in for users of the authors' package ``romepy``."""

from typing import Any

import numpy as np

from .estimators import ROME as _ROME
from .estimators.base import inner_fits
from .estimators.cluster_densities import ClusterWhitening, whiten_clusters
from .whitening import Grouping


class _TiledROME(_ROME):
    """ROME that repeats clusters of fewer members than features, as ``romepy`` does."""

    def _whiten(self, clusters: Grouping) -> ClusterWhitening:
        return whiten_clusters(clusters, self.min_std, tiled=True)


_TiledROME.__name__ = "ROME"  # the name in messages of scikit-learn


class ROME:
    """The estimator of ``romepy``, with its constructor, methods and defaults.

    ``from rome.ROME import ROME`` becomes ``from sevenhills.compat import ROME``. Labels and
    densities are the same, except for clusters narrower than ``min_std``, whose axes ``romepy``
    confuses. It is faster, raises clear errors in place of assertions, gives finite densities for
    repeated rows, and its draws follow the density: ``romepy`` reseeds in every cluster. For new
    code use :class:`sevenhills.ROME`, which depends neither on the order of rows nor on their unit.

    Parameters
    ----------
    min_std : float, default=0.1
        The smallest standard deviation of the density along any direction, in data units.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        The cluster of every sample, -1 being noise.

    Examples
    --------
    >>> from sevenhills import datasets
    >>> from sevenhills.compat import ROME
    >>> X = datasets.load("aniso").sample(300, random_state=0)
    >>> ROME(min_std=0.01).fit(X).score_samples(X[:2]).shape
    (2,)
    """

    labels_: np.ndarray

    def __init__(self, min_std: float = 0.1) -> None:
        self.min_std = min_std
        self.fitted = False

    def __repr__(self) -> str:
        return f"compat.ROME(min_std={self.min_std!r})"

    def fit(self, X: Any, clusters: Any = None, sample_weight: Any = None) -> "ROME":
        """Fit the density to samples (n_samples, n_features), using ``clusters`` if given."""
        model = _TiledROME(min_std=self.min_std, resolution=None, start="first")
        with inner_fits():
            model.fit(X, sample_weight=sample_weight, labels=clusters)
        self._model = model
        self.labels_ = model.labels_
        self.num_features = model.n_features_in_
        self.fitted = True
        return self

    def score_samples(self, X: Any) -> np.ndarray:
        """Return the log density at every row of ``X``."""
        return self._fitted_model().score_samples(X)

    def sample(self, num_samples: int = 1, random_state: Any = 0) -> np.ndarray:
        """Draw ``num_samples`` independent samples from the fitted density."""
        return np.asarray(self._fitted_model().sample(num_samples, random_state))

    def _fitted_model(self) -> _ROME:
        return self._model if self.fitted else _ROME()

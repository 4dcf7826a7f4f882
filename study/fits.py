"""The fits that the pictures of the study show."""

from typing import Any

import numpy as np

from sevenhills.datasets import Distribution

from .catalogue import RECIPES

#: Samples that fits see.
N_SAMPLES = 3000


class Fits:
    """The fits of one run, each made when it is first asked for.

    Parameters
    ----------
    run : int
        The run of the study whose samples are fitted.

    Attributes
    ----------
    n_samples : int
        How many samples a fit sees where nothing else is said.
    """

    def __init__(self, run: int) -> None:
        self.run = run
        self.n_samples = N_SAMPLES
        self._models: dict[tuple[str, str, int], Any] = {}

    def data(self, entry: Distribution, n_samples: int) -> tuple[np.ndarray, np.ndarray]:
        """Return a training and a held-out set."""
        return entry.split(self.run, n_samples)

    def fit(self, entry: Distribution, estimator: str, n_samples: int) -> Any:
        """Return a fitted estimator."""
        key = (entry.name, estimator, n_samples)
        if key not in self._models:
            train, _ = self.data(entry, n_samples)
            self._models[key] = RECIPES[estimator].build(entry).fit(train)
        return self._models[key]

    def try_fit(self, entry: Distribution, estimator: str) -> Any:
        """Return a fitted estimator, or None if it fails or its library is missing."""
        try:
            return self.fit(entry, estimator, self.n_samples)
        except (ImportError, RuntimeError, ValueError):
            return None

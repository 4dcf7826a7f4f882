"""What every density can be asked."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np


class Density(ABC):
    """A value that is evaluated and drawn from."""

    #: Whether it integrates to one.
    is_normalized: ClassVar[bool] = True

    @property
    @abstractmethod
    def n_features(self) -> int:
        """The dimension of the space."""

    @abstractmethod
    def logpdf(self, X: Any, n_jobs: int | None = None) -> np.ndarray:
        """Return the logarithm of the density at every row of ``X``."""

    @abstractmethod
    def sample(self, n_samples: int = 1, random_state: Any = None) -> np.ndarray:
        """Draw independent samples."""

    def pdf(self, X: Any, n_jobs: int | None = None) -> np.ndarray:
        """Return the density at every row of ``X``; see :meth:`logpdf`."""
        return np.exp(self.logpdf(X, n_jobs))

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what can be computed again."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

"""Means, covariances and integrals of products."""

import numpy as np
from scipy.special import logsumexp

from .groups import KernelGroups
from .sums import LOG_2PI, Kernels, log_sums_of, sums_at


class Moments(KernelGroups):
    """Integrals of kernel mixtures that have a closed form."""

    def mean(self) -> np.ndarray:
        r"""Return the mean, :math:`\sum_k w_k \mu_k`.

        Returns
        -------
        ndarray of shape (n_features,)

        Examples
        --------
        >>> from sevenhills import KernelMixture
        >>> KernelMixture([0.25, 0.75], [[0.0], [4.0]], [0, 2], [[[1.0]]]).mean()
        array([3.])
        """
        middle = self.means[np.argmax(self.weights)]
        return np.asarray(middle + self.weights @ (self.means - middle))

    def cov(self) -> np.ndarray:
        r"""Return the covariance.

        .. math:: \sum_k w_k \big(\Sigma_{g(k)} + (\mu_k - m)(\mu_k - m)^\top\big), \qquad
                  m = \sum_k w_k \mu_k

        Returns
        -------
        ndarray of shape (n_features, n_features)

        Examples
        --------
        >>> from sevenhills import KernelMixture
        >>> KernelMixture([0.25, 0.75], [[0.0], [4.0]], [0, 2], [[[1.0]]]).cov()
        array([[4.]])
        """
        apart = self.means - self.mean()
        masses = np.add.reduceat(self.weights, self.offsets[:-1])
        within = np.tensordot(masses, covariances(self.transforms), axes=1)
        return np.asarray(within + (apart * self.weights[:, None]).T @ apart)

    def integrate_product(self, other: "Moments", *, log: bool = False) -> float:
        r"""Return the integral of the product of two densities.

        .. math:: \int p(x) \, q(x) \, dx = \sum_k \sum_l w_k v_l \,
                  N(\mu_k; \nu_l, \Sigma_{g(k)} + \Pi_{h(l)})

        With itself it is the expected density, from which distances between densities follow:
        :math:`\int (p - q)^2 = \int p^2 - 2 \int p q + \int q^2`.

        Parameters
        ----------
        other : KernelMixture
            Of the same features.
        log : bool, default=False
            Whether to return the logarithm, which does not underflow.

        Returns
        -------
        float

        Examples
        --------
        >>> from sevenhills import KernelMixture
        >>> unit = KernelMixture([1.0], [[0.0]], [0, 1], [[[1.0]]])
        >>> round(unit.integrate_product(unit), 4)  # 1 / sqrt(4 pi)
        0.2821
        """
        if not isinstance(other, Moments):
            raise TypeError(f"other must be a KernelMixture, got {type(other).__name__}")
        if other.n_features != self.n_features:
            raise ValueError(
                f"other has {other.n_features} features, but this density has {self.n_features}"
            )
        # Every group of the one that has fewer is widened by all groups of the other.
        few, many = sorted((self, other), key=lambda each: each.n_groups)
        spread = covariances(many.transforms)
        terms = [
            _log_overlap(few, g, many, spread + covariance)
            for g, covariance in enumerate(covariances(few.transforms))
        ]
        value = float(logsumexp(np.concatenate(terms)))
        return value if log else float(np.exp(value))


def covariances(transforms: np.ndarray) -> np.ndarray:
    """Return the covariances (G, M, M) of kernels from their transforms."""
    inverses = np.linalg.inv(transforms)
    return np.matmul(inverses.transpose(0, 2, 1), inverses)


def _log_overlap(few: KernelGroups, g: int, many: KernelGroups, spread: np.ndarray) -> np.ndarray:
    """Return the log of the sums over ``many``, widened, at the kernels of one group."""
    transforms = np.linalg.inv(np.linalg.cholesky(spread)).transpose(0, 2, 1)
    log_sums = log_sums_of(
        Kernels(
            many.log_weights,
            many.means,
            many.offsets,
            transforms,
            np.log(np.diagonal(transforms, axis1=1, axis2=2)).sum(axis=1),
        )
    )
    rows = slice(few.offsets[g], few.offsets[g + 1])
    sums = sums_at(log_sums, few.means[rows]) + few.log_weights[rows]
    return np.asarray(sums - 0.5 * few.n_features * LOG_2PI)

"""A mixture of Gaussian kernels whose covariances are shared by groups."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from ..validation import check_log_dets, check_numbers
from .boxes import Boxes
from .compression import Compressible
from .missing import Missing
from .regions import Regions
from .support import Support
from .tensors import TensorExport


class KernelMixture(Missing, Boxes, Support, Regions, Compressible, TensorExport):
    r"""A density that is a sum of Gaussian kernels.

    .. math:: p(x) = \sum_k w_k \, N(x; \mu_k, \Sigma_{g(k)}), \qquad
              \Sigma_g^{-1} = T_g T_g^\top

    The kernels of a group stand one after another and share the transform :math:`T_g`, which
    turns them into Gaussians of unit covariance. The value is immutable: its arrays are copies
    that cannot be written to.

    Parameters
    ----------
    weights : array-like of shape (n_kernels,)
        Positive, adding up to one.
    means : array-like of shape (n_kernels, n_features)
        The means of the kernels.
    offsets : array-like of shape (n_groups + 1,)
        Group ``g`` consists of the kernels ``offsets[g]`` to ``offsets[g + 1] - 1``.
    transforms : array-like of shape (n_groups, n_features, n_features)
        What turns the kernels of every group into unit Gaussians, from the right:
        ``(x - centre) @ transform``.
    log_dets : array-like of shape (n_groups,), optional
        The logarithms of the transforms' absolute determinants; computed if not given.
    log_weights : array-like of shape (n_kernels,), optional
        The logarithms of the weights, which may be known where a weight is too small for a float.
    clusters : array-like of shape (n_groups,), optional
        The label of the cluster to which the kernels of every group belong, -1 being noise; one
        cluster by default.
    counts : array-like of shape (n_kernels,), optional
        How many samples every kernel stands for, if the density was made from samples.
    feature_names : sequence of str, optional
        What the features are called.

    Examples
    --------
    >>> import numpy as np
    >>> from sevenhills import KernelMixture
    >>> two_hills = KernelMixture(
    ...     weights=[0.5, 0.5], means=[[-1.0], [1.0]], offsets=[0, 2], transforms=[[[2.0]]]
    ... )
    >>> two_hills.pdf([[0.0], [1.0]]).round(4)
    array([0.108 , 0.3991])
    >>> two_hills.sample(3, random_state=0).shape
    (3, 1)
    """

    def _validate(self) -> None:
        """Raise an error unless the determinants are right, as those of a file might not be."""
        check_log_dets(self.log_dets, self.transforms)
        if (self.clusters < -1).any():
            raise ValueError("clusters must not be below -1, the label of noise")

    @classmethod
    def from_covariances(cls, weights: Any, means: Any, covariances: Any) -> Self:
        """Build a mixture of Gaussians from their means and covariances.

        Parameters
        ----------
        weights : array-like of shape (n_kernels,)
            Positive, adding up to one.
        means : array-like of shape (n_kernels, n_features)
        covariances : array-like of shape (n_features, n_features) or \
                (n_kernels, n_features, n_features)
            One covariance for all kernels, or one for each.

        Returns
        -------
        KernelMixture

        Examples
        --------
        >>> from sevenhills import KernelMixture
        >>> hills = KernelMixture.from_covariances([0.3, 0.7], [[0.0], [9.0]], [[1.0]])
        >>> hills
        KernelMixture(n_features=1, n_kernels=2, n_groups=1)
        """
        means = check_numbers(means, "means")
        covariances = check_numbers(covariances, "covariances")
        if covariances.ndim == 2:
            offsets, covariances = np.array([0, len(means)]), covariances[None]
        else:
            offsets = np.arange(len(means) + 1)
        _check_covariances(covariances, means)
        transforms = np.linalg.inv(np.linalg.cholesky(covariances)).swapaxes(1, 2)
        return cls(weights, means, offsets, transforms)

    def component(self, label: int) -> Self:
        """Return one cluster as a density of its own.

        Parameters
        ----------
        label : int
            One of ``clusters``.

        Returns
        -------
        KernelMixture
            The kernels of the cluster, their weights divided by the weight of the cluster.

        Examples
        --------
        >>> from sevenhills import KernelMixture
        >>> hills = KernelMixture(
        ...     [0.3, 0.7], [[0.0], [9.0]], [0, 1, 2], [[[1.0]], [[1.0]]], clusters=[0, 1]
        ... )
        >>> hills.component(1).mean()
        array([9.])
        """
        groups = np.flatnonzero(self.clusters == label)
        if len(groups) == 0:
            known = np.unique(self.clusters).tolist()
            raise ValueError(f"label must be one of the clusters {known}, got {label!r}")
        kernels = np.repeat(self.clusters == label, np.diff(self.offsets))
        weights = self.weights[kernels]
        return type(self)(
            weights=weights / weights.sum(),
            means=self.means[kernels],
            offsets=np.append(0, np.cumsum(np.diff(self.offsets)[groups])),
            transforms=self.transforms[groups],
            log_dets=self.log_dets[groups],
            clusters=self.clusters[groups],
            counts=None if self.counts is None else self.counts[kernels],
            feature_names=self.feature_names,
        )


def _check_covariances(covariances: np.ndarray, means: np.ndarray) -> None:
    """Refuse covariances of another shape, and those that are not positive definite."""
    if means.ndim != 2:
        raise ValueError(f"means must have 2 dimensions, got {means.ndim}")
    n_kernels, n_features = means.shape
    if covariances.shape[1:] != (n_features, n_features) or len(covariances) not in (1, n_kernels):
        raise ValueError(
            f"covariances must have shape ({n_features}, {n_features}) or "
            f"({n_kernels}, {n_features}, {n_features}), got {covariances.shape}"
        )
    if not np.allclose(covariances, covariances.swapaxes(1, 2), atol=0.0):
        raise ValueError("covariances must be symmetric")
    if not (np.linalg.eigvalsh(covariances) > 0).all():
        raise ValueError("covariances must be positive definite")


def unchecked_mixture(**fields: Any) -> KernelMixture:
    """Build a mixture from all of its fields, without validation or copying."""
    return KernelMixture._unchecked(**fields)


def with_samples(
    density: KernelMixture, feature_names: Sequence[str] | None, n_samples: float
) -> KernelMixture:
    """Return a density with the names of its features and the number of its samples.

    Every kernel stands for as many of the ``n_samples`` samples as its weight says.
    """
    names = None if feature_names is None else tuple(feature_names)
    return density._with(feature_names=names, counts=density.weights * n_samples)


def with_clusters(density: KernelMixture, clusters: np.ndarray) -> KernelMixture:
    """Return a density whose groups of kernels belong to other clusters."""
    return density._with(clusters=clusters)

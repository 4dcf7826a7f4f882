"""The joint density of sampled paths, with covariances that are pooled over the scenes.

Twenty paths in 24 dimensions determine no covariance. The scenes of one forecaster share the shape
of their covariances, though, and together they determine it.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.cluster.hierarchy import ward
from scipy.special import logsumexp

#: A pool is estimated from at least MIN_SCENES scenes, and from at most MAX_SCENES of them.
MIN_SCENES, MAX_SCENES = 30, 150
#: Fewest samples of a scene.
MIN_SAMPLES = 4
#: Fewest degrees of freedom of a shape for every feature.
_MIN_FREE = 4
#: Numbers of clusters of a scene, and the largest number relative to that of the samples.
_RESOLUTIONS = np.array([1, 2, 3, 4, 6, 9, 13, 19, 28, 42, 60])
_MAX_SHARE = 0.65
#: Number of clusters that define the metric in which samples are clustered.
_METRIC_CLUSTERS = 4
#: Factors of the variances of all clusters.
_WIDTHS = np.array([0.4, 0.7, 1.0, 1.5])
#: Number of samples that the scale of a scene counts for in the scale of a cluster.
_PRIOR = 2.0
#: Folds of held-out samples; of more samples than _MANY, only every second fold is used.
_FOLDS, _MANY = 4, 40
#: Cells are dropped if all held-out samples together lose less than this, in nats.
_MIN_GAIN = 4.0
#: Smallest variance of a cluster, relative to the median scene; equal samples have none.
_MIN_VARIANCE = 1e-6
#: Samples lie in a subspace if an eigenvalue of their shape is below this share of the largest.
_SINGULAR = 1e-13
#: The floor of the density is that of the center of a Gaussian with this weight and this variance
#: relative to the scene: a truth far from all samples costs about 90 nats in 24 dimensions.
_FLOOR_WEIGHT, _FLOOR_VARIANCE = 1e-6, 1000.0


@dataclass(frozen=True, eq=False)
class ScenePool:
    r"""A recipe for the density of the samples of one scene, learned from many scenes.

    The samples of a scene are clustered at several resolutions by Ward's method. At a resolution
    of :math:`C` clusters the density is

    .. math:: p_{Cg}(y) = \sum_{c=1}^C \frac{n_c}{K} \,
              N\left(y; m_c, \; g \, \frac{n_c + 1}{n_c} \, s_c W_C\right)

    with the mean :math:`m_c` and the scale :math:`s_c` of every cluster. The shape :math:`W_C`, of
    determinant one, is common to all scenes, and so are the weights of the cells :math:`(C, g)`,
    which maximize the likelihood of held-out samples. True paths are not used.
    """

    metric: np.ndarray  # (d, d), transform in which samples are clustered
    resolutions: np.ndarray  # (R,)
    transforms: np.ndarray  # (R, d, d), inverse roots of the shapes
    weights: np.ndarray  # (R, G), of the cells
    scale: float  # median variance of the scenes, for the floor

    @classmethod
    def from_scenes(cls, scenes: list[np.ndarray]) -> Self | None:
        """Learn from the centered samples (K, d) of scenes.

        The result is None if the samples do not determine a covariance. Scenes with another number
        of samples than most are left out. The order of the scenes has no effect.
        """
        sizes, counts = np.unique([len(samples) for samples in scenes], return_counts=True)
        size = sizes[counts.argmax()]
        same = sorted((s for s in scenes if len(s) == size), key=lambda s: float((s**2).sum()))
        n_free = len(same) * (1 - _MAX_SHARE) * size
        if len(same) < MIN_SCENES or n_free < _MIN_FREE * same[0].shape[1]:
            return None
        chosen = np.linspace(0, len(same) - 1, min(len(same), MAX_SCENES)).astype(np.int64)
        try:
            return cls.fit(np.array([same[i] for i in chosen]))
        except np.linalg.LinAlgError:  # all samples lie in a subspace
            return None

    @classmethod
    def fit(cls, samples: np.ndarray) -> Self:
        """Learn from the centered samples (S, K, d) of scenes."""
        n_samples = samples.shape[1]
        n_resolutions = np.searchsorted(_RESOLUTIONS, max(1.0, _MAX_SHARE * n_samples), "right")
        resolutions = _RESOLUTIONS[:n_resolutions]
        metric = _whitener(samples, n_samples - 1)
        n_clusters = np.array([min(_METRIC_CLUSTERS, resolutions[-1])])
        metric = _whiteners(samples, metric, n_clusters)[0]
        transforms = _whiteners(samples, metric, resolutions)
        even = np.full((len(resolutions), len(_WIDTHS)), 1 / (len(resolutions) * len(_WIDTHS)))
        scale = float(np.median(_variances(samples @ transforms[0])))
        pool = cls(metric, resolutions, transforms, even, scale)
        weights = _stack(pool._held_out(samples))
        return cls(metric, resolutions, transforms, weights.reshape(even.shape), scale)

    def logpdf(
        self, samples: np.ndarray, paths: np.ndarray, columns: np.ndarray | None = None
    ) -> np.ndarray:
        """Return the log densities (S, q) of paths (S, q, d), given centered samples (S, K, d).

        With ``columns``, the paths (S, q, c) have these coordinates only: the density is marginal.
        """
        cells = self._log_cells(samples, paths, columns)
        with np.errstate(divide="ignore"):
            found = logsumexp(cells + np.log(self.weights), axis=(2, 3))
        variances = np.maximum(_variances(samples @ self.transforms[0]), self.scale)
        floor = -0.5 * paths.shape[2] * np.log(2 * np.pi * _FLOOR_VARIANCE * variances)
        floor += _whitened(paths, self.transforms[0], columns)[2]
        return np.logaddexp(found, floor[:, None] + np.log(_FLOOR_WEIGHT))

    def _log_cells(
        self, samples: np.ndarray, paths: np.ndarray, columns: np.ndarray | None = None
    ) -> np.ndarray:
        """Return the log densities (S, q, R, G) of paths by every cell."""
        out = np.full((*paths.shape[:2], *self.weights.shape), -np.inf)
        used = np.flatnonzero(self.weights.any(axis=1))
        # Fewer samples than those of the pool make fewer clusters.
        most = max(1, int(_MAX_SHARE / (1 - 1 / _FOLDS) * samples.shape[1]))
        resolutions = np.minimum(self.resolutions[used], most)
        partitions = _partition(samples @ self.metric, resolutions)
        for r, labels in zip(used, partitions, strict=True):
            clusters = _Clusters(samples @ self.transforms[r], labels)
            whitened, basis, log_det = _whitened(paths, self.transforms[r], columns)
            least = _MIN_VARIANCE * self.scale
            out[:, :, r] = clusters.logpdf(whitened, least, basis) + log_det
        return out

    def _held_out(self, samples: np.ndarray) -> np.ndarray:
        """Return the log densities (n, R * G) of samples by the other samples of their scenes."""
        n_samples, n_features = samples.shape[1:]
        # Folds depend on the samples, not on their order.
        along = samples @ np.linspace(1, 2, n_features)
        fold = along.argsort(axis=1).argsort(axis=1) % _FOLDS
        found = []
        for f in range(0, _FOLDS, 1 if n_samples <= _MANY else 2):
            order = np.argsort(fold == f, axis=1, kind="stable")
            ordered = np.take_along_axis(samples, order[..., None], axis=1)
            n_kept = n_samples - np.count_nonzero(fold[0] == f)
            cells = self._log_cells(ordered[:, :n_kept], ordered[:, n_kept:])
            found.append(cells.reshape(-1, self.weights.size))
        return np.concatenate(found)


class _Clusters:
    """Clusters of the whitened samples (S, K, d) of scenes, with labels (S, K)."""

    def __init__(self, samples: np.ndarray, labels: np.ndarray) -> None:
        members = (labels[..., None] == np.arange(labels.max() + 1)).astype(float)
        self.counts = np.maximum(members.sum(axis=1), 1e-300)  # (S, C); a scene may have fewer
        self.means = members.swapaxes(1, 2) @ samples / self.counts[..., None]
        self.residuals = samples - np.take_along_axis(self.means, labels[..., None], axis=1)
        squares = np.einsum("skd,skd->sk", self.residuals, self.residuals)
        self.squares = np.einsum("skc,sk->sc", members, squares)

    def variances(self, least: float) -> np.ndarray:
        """Return the variances (S, C) of clusters, shrunk to the geometric mean of the scene."""
        n_features = self.means.shape[2]
        free = np.maximum(self.counts - 1, 0.0)
        own = np.maximum(self.squares / (n_features * np.maximum(free, 1.0)), least)
        n_free = np.maximum(free.sum(axis=1, keepdims=True), 1.0)
        scene = np.exp((free * np.log(own)).sum(axis=1, keepdims=True) / n_free)
        return np.asarray((free * own + _PRIOR * scene) / (free + _PRIOR))

    def logpdf(
        self, paths: np.ndarray, least: float, basis: np.ndarray | None = None
    ) -> np.ndarray:
        """Return the log densities (S, q, G) of whitened paths (S, q, d) for all widths.

        No cluster has a smaller variance than ``least``. Marginal paths (S, q, c) have the
        orthonormal ``basis`` (d, c).
        """
        n_features = paths.shape[2]
        means = self.means if basis is None else self.means @ basis
        apart = (
            (paths**2).sum(axis=2)[:, :, None]
            - 2 * paths @ means.swapaxes(1, 2)
            + (means**2).sum(axis=2)[:, None]
        )
        variances = (self.variances(least) * (1 + 1 / self.counts))[:, None, :, None] * _WIDTHS
        log_shares = np.log(self.counts / self.counts.sum(axis=1, keepdims=True))
        terms = -0.5 * (apart[..., None] / variances + n_features * np.log(2 * np.pi * variances))
        return np.asarray(logsumexp(log_shares[:, None, :, None] + terms, axis=2))


def _whitened(
    paths: np.ndarray, transform: np.ndarray, columns: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray | None, float]:
    """Return whitened paths, their basis in the whitened space, and the log determinant.

    Without ``columns``, the basis is the identity, None, and the determinant is one.
    """
    if columns is None:
        return paths @ transform, None, 0.0
    basis, root = np.linalg.qr(np.linalg.inv(transform)[:, columns])
    log_det = float(np.log(abs(np.diag(root))).sum())
    return paths @ np.linalg.inv(root), basis, -log_det


def _partition(samples: np.ndarray, resolutions: np.ndarray) -> np.ndarray:
    """Return labels (R, S, K) of the samples (S, K, d) of scenes in given numbers of clusters."""
    n_scenes, n = samples.shape[:2]
    # Node n + i of a tree is its merge i; merges below `last` make the clusters.
    parents = np.full((n_scenes, 2 * n - 1), 2 * n)
    for parent, X in zip(parents, samples, strict=True):
        parent[ward(X)[:, :2].astype(np.int64)] = np.arange(n, 2 * n - 1)[:, None]
    last = 2 * n - np.reshape(resolutions, (-1, 1))
    nodes = np.arange(2 * n - 1)
    is_root = (parents >= last[..., None]) & (nodes < last[..., None])
    number = is_root.cumsum(axis=2) - 1
    scenes, above = np.arange(n_scenes)[:, None], np.minimum(parents, 2 * n - 2)
    # Nodes take the number of their parents: inner nodes one by one, from the root, then leaves.
    for part in [*nodes[: n - 1 : -1, None], nodes[:n]]:
        inherited = number[:, scenes, above[:, part]]
        inner = parents[:, part] < last[..., None]
        number[..., part] = np.where(inner, inherited, number[..., part])
    return np.asarray(number[..., :n])


def _variances(samples: np.ndarray) -> np.ndarray:
    """Return the mean variance (S,) of centered samples (S, K, d)."""
    return np.einsum("skd,skd->s", samples, samples) / ((samples.shape[1] - 1) * samples.shape[2])


def _whiteners(samples: np.ndarray, metric: np.ndarray, resolutions: np.ndarray) -> np.ndarray:
    """Return the inverse roots (R, d, d) of the shapes within clusters of all resolutions."""
    partitions = zip(resolutions, _partition(samples @ metric, resolutions), strict=True)
    n_samples = samples.shape[1]
    return np.array(
        [_whitener(_Clusters(samples, each).residuals, n_samples - c) for c, each in partitions]
    )


def _whitener(residuals: np.ndarray, dof: int) -> np.ndarray:
    """Return the inverse root (d, d) of the shape of residuals (S, K, d), of determinant one.

    Every scene has a scale of its own: the shape maximizes the likelihood of Wishart matrices of
    different scales.
    """
    n_features = residuals.shape[2]
    scatters = np.swapaxes(residuals, 1, 2) @ residuals
    traces = np.trace(scatters, axis1=1, axis2=2)
    scatters = scatters[traces > _MIN_VARIANCE * np.median(traces)]  # equal samples have no shape
    shape = np.sum(scatters / np.trace(scatters, axis1=1, axis2=2)[:, None, None], axis=0)
    values = np.linalg.eigvalsh(shape)
    if not values[0] > _SINGULAR * values[-1]:
        raise np.linalg.LinAlgError("all samples lie in a subspace")
    for _ in range(30):
        scales = np.einsum("ij,sij->s", np.linalg.inv(shape), scatters) / (dof * n_features)
        shape = np.tensordot(1 / scales, scatters, axes=1) / (dof * len(scatters))
        shape /= np.exp(np.linalg.slogdet(shape)[1] / n_features)
    return np.linalg.inv(np.linalg.cholesky(shape)).T


def _stack(log_densities: np.ndarray) -> np.ndarray:
    """Return weights of cells that maximize the likelihood of log densities (n, cells).

    Cells whose removal costs less than _MIN_GAIN get the weight zero: a small weight of a wide
    cell would decide the density far from all samples.
    """
    densities = np.exp(log_densities - log_densities.max(axis=1, keepdims=True))
    weights = np.full(densities.shape[1], 1 / densities.shape[1])

    def improve(weights: np.ndarray, n_steps: int) -> np.ndarray:
        for _ in range(n_steps):
            weights = weights * (densities.T @ (1 / (densities @ weights))) / len(densities)
        return weights

    weights = improve(weights, 120)
    while np.count_nonzero(weights) > 1:
        shares = densities * weights / (densities @ weights)[:, None]
        without = np.log1p(-np.minimum(shares, 1 - 1e-12)).sum(axis=0)
        losses = len(densities) * np.log1p(-np.minimum(weights, 1 - 1e-12)) - without
        losses[weights < 1e-6] = 0.0
        losses[weights == 0] = np.inf
        needless = losses.argsort()[: max(1, np.count_nonzero(losses < _MIN_GAIN / 4) // 3)]
        if losses[needless[0]] > _MIN_GAIN:
            break
        weights[needless] = 0.0
        weights = improve(weights / weights.sum(), 15)
    weights = improve(weights, 60)
    return np.asarray(weights / weights.sum())


#: Pools by whether paths are those of all agents together, and by their observed steps.
Pools = dict[tuple[bool, bytes], ScenePool]

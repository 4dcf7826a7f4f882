"""The joint density of sampled paths, by a hierarchical model whose parts are pooled over scenes.

Twenty paths in 24 dimensions determine neither a covariance nor a mean. The scenes of one
forecaster have both in common, though: the shape of covariances, and the few directions in which
the means of scenes, and the modes of a scene, differ.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np

from ..kernels.ward import ward_trees

#: A pool is estimated from at least MIN_SCENES scenes, and from at most MAX_SCENES of them. The
#: cost grows with the samples: beyond _ENOUGH_SCENES, at most _ENOUGH_SAMPLES are used in all.
MIN_SCENES, MAX_SCENES = 30, 300
_ENOUGH_SCENES, _ENOUGH_SAMPLES = 100, 20_000
#: Fewest samples of a scene.
MIN_SAMPLES = 4
#: Fewest degrees of freedom of a shape for every feature.
_MIN_FREE = 4
#: Numbers of clusters of a scene, and the largest number relative to that of the samples.
_RESOLUTIONS = np.array([1, 2, 3, 4, 6, 9, 13, 19, 28, 42, 60])
_MAX_SHARE = 0.65
#: Number of clusters that define the metric in which samples are clustered, the number of times
#: that samples are clustered for it, and the most samples of a scene. A direction in which clusters
#: do not differ keeps the weight _METRIC_FLOOR; the largest weight is one.
_METRIC_CLUSTERS, _METRIC_ROUNDS, _METRIC_SAMPLES, _METRIC_FLOOR = 4, 10, 100, 0.01
#: Factors of the variances of all clusters.
_WIDTHS = np.array([0.4, 0.7, 1.0, 1.5])
#: Number of samples that the scale of a scene counts for in the scale of a cluster.
_PRIOR = 2.0
#: Largest shift of an estimated mean by its prior, in standard errors along every direction: a
#: mean that the prior does not expect stays where its samples are (Efron and Morris 1971).
_MAX_SHIFT = 1.5
#: Folds of held-out samples; of more samples than _MANY, only every second fold is used.
_FOLDS, _MANY = 4, 40
#: Cells of every width are dropped if held-out samples lose less than this in the mean, in nats.
#: A wide cell of small weight hardly changes them, but forgives a forecaster that is too certain.
_MIN_GAINS = np.where(_WIDTHS > 1, 0.01, 0.001)
#: Smallest variance of a cluster, relative to the median scene; equal samples have none.
_MIN_VARIANCE = 1e-6
#: Samples lie in a subspace if an eigenvalue of their shape is below this share of the largest.
_SINGULAR = 1e-13
#: The floor of the density is that of the center of a Gaussian with this weight and this variance
#: relative to the scene: a truth far from all samples costs about 90 nats in 24 dimensions.
_FLOOR_WEIGHT, _FLOOR_VARIANCE = 1e-6, 1000.0


class Scenes(NamedTuple):
    """Samples of several scenes, all of them in the frames of their scenes."""

    samples: np.ndarray  # (S, K, d)
    counts: np.ndarray  # (S, K), weights that add up to the effective number of samples

    def part(self, order: np.ndarray, start: int, end: int) -> "Scenes":
        """Return some samples of every scene, by their places in an order (S, K)."""
        rows = order[:, start:end]
        samples = np.take_along_axis(self.samples, rows[..., None], axis=1)
        return Scenes(samples, np.take_along_axis(self.counts, rows, axis=1))

    def ranks(self) -> np.ndarray:
        """Return ranks (S, K) of samples that depend on their values, not on their order."""
        along = self.samples @ np.linspace(1, 2, self.samples.shape[2])
        return along.argsort(axis=1).argsort(axis=1)

    def means(self) -> np.ndarray:
        """Return the mean (S, d) of every scene."""
        sums = np.einsum("sk,skd->sd", self.counts, self.samples)
        return np.asarray(sums / self.counts.sum(axis=1, keepdims=True))

    def centered(self) -> "Scenes":
        """Return the scenes without their means."""
        return Scenes(self.samples - self.means()[:, None], self.counts)

    def variances(self, transform: np.ndarray) -> np.ndarray:
        """Return the mean variance (S,) of transformed samples, which must be centered."""
        Z = self.samples @ transform
        squares = np.einsum("sk,skd,skd->s", self.counts, Z, Z)
        free = self.counts.sum(axis=1) - 1
        return np.asarray(squares / (free * Z.shape[2]))


class _MeanPrior(NamedTuple):
    """The normal distribution of the means of scenes, relative to the scale of every scene."""

    transform: np.ndarray  # (d, d), to its principal directions, in which samples have variance 1
    center: np.ndarray  # (d,)
    variances: np.ndarray  # (d,), infinite along translations, which the prior does not know

    @classmethod
    def fit(cls, scenes: Scenes, transform: np.ndarray, translations: np.ndarray) -> Self:
        """Learn from the means of scenes and the directions (m, d) of their translations."""
        means, centered = scenes.means(), scenes.centered()
        stds = np.sqrt(np.maximum(centered.variances(transform), 1e-300))
        full = np.linalg.qr((translations @ transform).T, mode="complete")[0]
        free, basis = full[:, : len(translations)], full[:, len(translations) :]
        Z = means @ transform @ basis / stds[:, None]
        center = np.median(Z, axis=0)
        noise = (1 / scenes.counts.sum(axis=1)).mean()
        values, vectors = np.linalg.eigh((Z - center).T @ (Z - center) / len(Z))
        return cls(
            transform @ np.hstack([free, basis @ vectors]),
            np.append(np.zeros(len(translations)), center @ vectors),
            np.append(np.full(len(translations), np.inf), np.maximum(values - noise, 0.0)),
        )

    def shares(self, n: np.ndarray) -> np.ndarray:
        """Return the share (S, d) of means of ``n`` samples in their posterior means."""
        with np.errstate(divide="ignore"):
            return np.asarray(1 / (1 + 1 / (self.variances * n[:, None])))

    def shifts(self, means: np.ndarray, variances: np.ndarray, n: np.ndarray) -> np.ndarray:
        """Return posterior means minus the means (S, d) of ``n`` samples with variances (S,)."""
        stds = np.sqrt(variances)[:, None]
        apart = means @ self.transform / stds - self.center
        moved = _limited((self.shares(n) - 1) * apart, 1 / np.sqrt(n)[:, None])
        return np.asarray(moved * stds @ np.linalg.inv(self.transform))


def _limited(shifts: np.ndarray, errors: np.ndarray) -> np.ndarray:
    """Return shifts that are at most _MAX_SHIFT standard errors."""
    return np.clip(shifts, -_MAX_SHIFT * errors, _MAX_SHIFT * errors)


class _Cell(NamedTuple):
    """The covariances of all clusters of one resolution."""

    transform: np.ndarray  # (d, d), to the principal directions of cluster means; clusters have
    #                         the covariance of the identity there, times a scale
    between: np.ndarray  # (d,), variances of cluster means, relative to the variance of a scene
    #: (d, d), shares of the variances of the means of scenes in those of these directions.
    mixing: np.ndarray


@dataclass(frozen=True, eq=False)
class ScenePool:
    r"""A recipe for the density of the samples of one scene, learned from many scenes.

    The samples of a scene are clustered at several resolutions by Ward's method. At a resolution
    of :math:`C` clusters the density is

    .. math:: p_{Cg}(y) = \sum_{c=1}^C \frac{n_c}{K} \, N(y; \tilde m_c, \; g \, s_c V_c)

    The covariance :math:`V_c` is the shape :math:`W_C` of clusters, of determinant one, enlarged by
    the error of the mean :math:`\tilde m_c`. Every cluster has a scale :math:`s_c`. Means are those
    of a hierarchical model: the means of clusters are normal around the mean of their scene, those
    of scenes around a common path. So means are shrunk along directions in which they hardly
    differ. Shapes, distributions of means, and the weights of the cells :math:`(C, g)` are common
    to all scenes. Weights maximize the likelihood of held-out samples. True paths are not used.
    """

    metric: np.ndarray  # (d, d), transform in which samples are clustered
    resolutions: np.ndarray  # (R,)
    cells: tuple[_Cell, ...]  # R of them
    prior: _MeanPrior
    weights: np.ndarray  # (R, G)
    scale: float  # median variance of the scenes, for the floor

    @classmethod
    def from_scenes(cls, scenes: Scenes, translations: np.ndarray) -> Self | None:
        """Learn from scenes, each alone, in whose frames all translations (m, d) may occur.

        The result is None if the samples do not determine a covariance. The order of the scenes has
        no effect.
        """
        n_scenes, size = scenes.counts.shape
        n_free = n_scenes * (1 - _MAX_SHARE) * size
        if n_scenes < MIN_SCENES or n_free < _MIN_FREE * translations.shape[1]:
            return None
        # Scenes are chosen by the sums of their squares, not by their order.
        sums = (scenes.centered().samples ** 2).sum(axis=(1, 2))
        most = min(n_scenes, MAX_SCENES, max(_ENOUGH_SCENES, _ENOUGH_SAMPLES // size))
        places = np.linspace(0, n_scenes - 1, most).astype(np.int64)
        chosen = np.argsort(sums, kind="stable")[places]
        try:
            return cls.fit(Scenes(*(each[chosen] for each in scenes)), translations)
        except np.linalg.LinAlgError:  # all samples lie in a subspace
            return None

    @classmethod
    def fit(cls, scenes: Scenes, translations: np.ndarray) -> Self:
        """Learn from scenes of equal size."""
        n_samples, centered = scenes.samples.shape[1], scenes.centered()
        n_resolutions = np.searchsorted(_RESOLUTIONS, max(1.0, _MAX_SHARE * n_samples), "right")
        resolutions = _RESOLUTIONS[:n_resolutions]
        metric = _metric(centered, min(_METRIC_CLUSTERS, resolutions[-1]))
        partitions = _partition(centered.samples @ metric, resolutions)
        prior = _MeanPrior.fit(scenes, _whitener(*centered, 1), translations)
        alone = prior.transform, np.zeros(len(metric))  # a single cluster has the mean of its scene
        shapes = [alone, *(_shape(centered, labels) for labels in partitions[1:])]
        inverse = np.linalg.inv(prior.transform)
        cells = tuple(_Cell(*each, (inverse @ each[0]) ** 2) for each in shapes)
        even = np.full((len(resolutions), len(_WIDTHS)), 1 / (len(resolutions) * len(_WIDTHS)))
        scale = float(np.median(centered.variances(shapes[0][0])))
        pool = cls(metric, resolutions, cells, prior, even, scale)
        return replace(pool, weights=_stack(*pool._held_out(scenes)).reshape(even.shape))

    def logpdf(
        self, scenes: Scenes, paths: np.ndarray, columns: np.ndarray | None = None
    ) -> np.ndarray:
        """Return the log densities (S, q) of paths (S, q, d), given the samples of their scenes.

        With ``columns``, the paths (S, q, c) have these coordinates only: the density is marginal.
        """
        cells = self._log_cells(scenes, paths, columns)
        with np.errstate(divide="ignore"):
            found = np.logaddexp.reduce(cells + np.log(self.weights), axis=(2, 3))
        transform = self.cells[0].transform
        variances = np.maximum(scenes.centered().variances(transform), self.scale)
        floor = -0.5 * paths.shape[2] * np.log(2 * np.pi * _FLOOR_VARIANCE * variances)
        if columns is not None:
            root = np.linalg.qr(np.linalg.inv(transform)[:, columns], mode="r")
            floor -= np.log(abs(np.diag(root))).sum()
        return np.logaddexp(found, floor[:, None] + np.log(_FLOOR_WEIGHT))

    def _log_cells(
        self, scenes: Scenes, paths: np.ndarray, columns: np.ndarray | None = None
    ) -> np.ndarray:
        """Return the log densities (S, q, R, G) of paths by every cell."""
        out = np.full((*paths.shape[:2], *self.weights.shape), -np.inf)
        means, n, least = scenes.means(), scenes.counts.sum(axis=1), _MIN_VARIANCE * self.scale
        samples, counts = scenes.centered()
        paths = paths - (means if columns is None else means[:, columns])[:, None]
        variances = Scenes(samples, counts).variances(self.cells[0].transform)
        centers = self.prior.shifts(means, np.maximum(variances, least), n)
        errors = self.prior.shares(n) / n[:, None]
        used = np.flatnonzero(self.weights.any(axis=1))
        # Fewer samples than those of the pool make fewer clusters.
        most = max(1, int(_MAX_SHARE / (1 - 1 / _FOLDS) * samples.shape[1]))
        partitions = _partition(samples @ self.metric, np.minimum(self.resolutions[used], most))
        for r, labels in zip(used, partitions, strict=True):
            cell = self.cells[r]
            clusters = _Clusters(Scenes(samples @ cell.transform, counts), labels)
            found = clusters.predictive(
                cell.between, centers @ cell.transform, errors @ cell.mixing, least
            )
            if columns is None:
                squares, log_dets = _diagonal(paths @ cell.transform, *found)
            else:
                squares, log_dets = _marginal(paths, *found, cell.transform, columns)
            log_dets += paths.shape[2] * np.log(2 * np.pi)
            constant = clusters.log_shares() - 0.5 * log_dets
            widths = -0.5 * paths.shape[2] * np.log(_WIDTHS)
            terms = constant[:, None, :, None] - 0.5 * squares[..., None] / _WIDTHS
            out[:, :, r] = np.logaddexp.reduce(terms, axis=2) + widths
        return out

    def _held_out(self, scenes: Scenes) -> tuple[np.ndarray, np.ndarray]:
        """Return log densities (n, R * G) of samples by the others of their scenes, and counts."""
        n_samples, fold = scenes.samples.shape[1], scenes.centered().ranks() % _FOLDS
        found = []
        for f in range(0, _FOLDS, 1 if n_samples <= _MANY else 2):
            order = np.argsort(fold == f, axis=1, kind="stable")
            n_kept = n_samples - np.count_nonzero(fold[0] == f)
            asked = scenes.part(order, n_kept, n_samples)
            cells = self._log_cells(scenes.part(order, 0, n_kept), asked.samples)
            found.append((cells.reshape(-1, self.weights.size), asked.counts.ravel()))
        log_densities, counts = zip(*found, strict=True)
        return np.concatenate(log_densities), np.concatenate(counts)


class _Clusters:
    """Clusters of the whitened, centered samples of scenes, with labels (S, K)."""

    def __init__(self, scenes: Scenes, labels: np.ndarray) -> None:
        members = (labels[..., None] == np.arange(labels.max() + 1)) * scenes.counts[..., None]
        # (S, C), of samples, and effective numbers of them; a scene may have fewer clusters.
        self.counts = np.maximum(members.sum(axis=1), 1e-300)
        self.sizes = np.maximum(self.counts**2 / np.maximum((members**2).sum(axis=1), 1e-300), 1e-9)
        self.means = members.swapaxes(1, 2) @ scenes.samples / self.counts[..., None]
        self.residuals = scenes.samples - self.means[np.arange(len(labels))[:, None], labels]
        squares = np.einsum("skd,skd->sk", self.residuals, self.residuals)
        self.squares = np.einsum("skc,sk->sc", members, squares)

    def log_shares(self) -> np.ndarray:
        """Return the log (S, C) of the shares of clusters."""
        return np.asarray(np.log(self.counts / self.counts.sum(axis=1, keepdims=True)))

    def variances(self, least: float) -> tuple[np.ndarray, np.ndarray]:
        """Return variances (S, 1) of scenes, geometric means, and (S, C) of clusters, shrunk."""
        n_features = self.means.shape[2]
        free = self.counts * np.maximum(1 - 1 / self.sizes, 0.0)
        own = np.maximum(self.squares / (n_features * np.maximum(free, 1e-9)), least)
        n_free = np.maximum(free.sum(axis=1, keepdims=True), 1.0)
        scene = np.exp((free * np.log(own)).sum(axis=1, keepdims=True) / n_free)
        return scene, np.asarray((free * own + _PRIOR * scene) / (free + _PRIOR))

    def between(self) -> np.ndarray:
        """Return the covariance (d, d) of cluster means, relative to the variance of a scene.

        It is that of the random effects in an analysis of variance.
        """
        scene, _ = self.variances(1e-300)
        Z = self.means * np.sqrt(self.counts / scene)[..., None]
        shares = np.exp(self.log_shares())
        n_free = (self.counts / self.sizes * (1 - shares)).sum()
        lever = (self.counts * (1 - shares)).sum()
        scatter = np.einsum("sci,scj->ij", Z, Z) - n_free * np.eye(Z.shape[2])
        return np.asarray(scatter / lever)

    def predictive(
        self, between: np.ndarray, centers: np.ndarray, errors: np.ndarray, least: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return posterior means (S, C, d) of clusters, and the variances of new samples.

        The means of scenes have the posterior means ``centers`` (S, d), and posterior variances
        ``errors`` (S, d), relative to those of samples.
        """
        scene, own = self.variances(least)
        noise = (own / self.sizes)[..., None]
        shares = between / (between + noise / scene[..., None] + 1e-300)
        apart = self.means - centers[:, None]
        means = self.means + _limited((shares - 1) * apart, np.sqrt(noise))
        errors = shares / self.sizes[..., None] + (1 - shares) * errors[:, None]
        return means, own[..., None] * (1 + errors)


def _diagonal(
    paths: np.ndarray, means: np.ndarray, variances: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return squared distances (S, q, C) of paths (S, q, d) to clusters, and log determinants."""
    rates = 1 / variances
    cross = paths @ (means * rates).swapaxes(1, 2)
    squares = paths**2 @ rates.swapaxes(1, 2) - 2 * cross + (means**2 * rates).sum(axis=2)[:, None]
    return squares, np.log(variances).sum(axis=2)


def _marginal(
    paths: np.ndarray,
    means: np.ndarray,
    variances: np.ndarray,
    transform: np.ndarray,
    columns: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the same for some coordinates of paths (S, q, c) that are not transformed."""
    basis = np.linalg.inv(transform)[:, columns]
    factors = np.linalg.cholesky(np.einsum("da,scd,db->scab", basis, variances, basis))
    apart = (paths[:, None] - (means @ basis)[:, :, None]).swapaxes(2, 3)  # (S, C, c, q)
    squares = (np.linalg.solve(factors, apart) ** 2).sum(axis=2).swapaxes(1, 2)
    return squares, 2 * np.log(np.einsum("scaa->sca", factors)).sum(axis=2)


def _partition(samples: np.ndarray, resolutions: np.ndarray) -> np.ndarray:
    """Return labels (R, S, K) of the samples (S, K, d) of scenes in given numbers of clusters."""
    n = samples.shape[1]
    parents = ward_trees(samples)  # merges below `last` make the clusters
    last = 2 * n - np.reshape(resolutions, (-1, 1, 1))
    nodes = np.arange(2 * n - 1)
    is_inner = parents < last
    number = (~is_inner & (nodes < last)).cumsum(axis=2) - 1
    # The ancestor of a node is that of its ancestor, up to the root of its cluster.
    ancestors = np.where(is_inner, parents, nodes)
    for _ in range(n.bit_length()):
        ancestors = np.take_along_axis(ancestors, ancestors, axis=2)
    return np.asarray(np.take_along_axis(number, ancestors[..., :n], axis=2))


def _metric(scenes: Scenes, n_clusters: int) -> np.ndarray:
    """Return a transform (d, d) to the directions in which the clusters of scenes differ.

    Directions get weights by the variances between clusters, and the samples are clustered again.
    """
    n_samples, size = scenes.samples.shape[1], np.array([n_clusters])
    if n_samples > _METRIC_SAMPLES:
        step = -(-n_samples // _METRIC_SAMPLES)
        order = np.argsort(scenes.ranks() % step, axis=1, kind="stable")
        scenes = scenes.part(order, 0, n_samples // step).centered()
    metric = _whitener(scenes.samples, scenes.counts, 1)
    for _ in range(_METRIC_ROUNDS):
        transform, between = _shape(scenes, _partition(scenes.samples @ metric, size)[0])
        weights = between / (between + n_clusters / scenes.samples.shape[1])
        metric = transform * np.sqrt(np.maximum(weights, _METRIC_FLOOR))
    return metric


def _shape(scenes: Scenes, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the transform that whitens clusters, to the principal directions of their means.

    The second array has the variances (d,) of the means along these directions. Clusters that
    Ward's method makes of noise differ, too. By how much, the median direction tells: that of
    larger variances is left.
    """
    residuals = _Clusters(scenes, labels).residuals
    transform = _whitener(residuals, scenes.counts, labels.max() + 1)
    clusters = _Clusters(Scenes(scenes.samples @ transform, scenes.counts), labels)
    values, vectors = np.linalg.eigh(clusters.between())
    return transform @ vectors, np.maximum(values - np.median(values), 0.0)


def _whitener(residuals: np.ndarray, counts: np.ndarray, n_clusters: int) -> np.ndarray:
    """Return the inverse root (d, d) of the shape of residuals (S, K, d), of determinant one.

    Every scene has a scale of its own: the shape maximizes the likelihood of Wishart matrices of
    different scales.
    """
    n_features = residuals.shape[2]
    scatters = (residuals * counts[..., None]).swapaxes(1, 2) @ residuals
    traces = np.trace(scatters, axis1=1, axis2=2)
    spread = traces > _MIN_VARIANCE * np.median(traces)  # equal samples have no shape
    scatters, dof = scatters[spread], np.maximum(counts.sum(axis=1) - n_clusters, 0.5)[spread]
    shape = np.sum(scatters / traces[spread][:, None, None], axis=0)
    values = np.linalg.eigvalsh(shape)
    if not values[0] > _SINGULAR * values[-1]:
        raise np.linalg.LinAlgError("all samples lie in a subspace")
    flat = scatters.reshape(len(scatters), -1)
    for _ in range(30):
        scales = flat @ np.linalg.inv(shape).ravel() / (dof * n_features)
        shape = (1 / scales @ flat).reshape(shape.shape) / dof.sum()
        shape /= np.exp(np.linalg.slogdet(shape)[1] / n_features)
    return np.linalg.inv(np.linalg.cholesky(shape)).T


def _stack(log_densities: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return weights of cells that maximize the likelihood of log densities (n, cells).

    Cells whose removal costs less than _MIN_GAINS get the weight zero.
    """
    least = np.resize(_MIN_GAINS, log_densities.shape[1]) * counts.sum()
    densities = np.exp(log_densities - log_densities.max(axis=1, keepdims=True))
    weights = np.full(densities.shape[1], 1 / densities.shape[1])

    def improve(weights: np.ndarray, n_steps: int) -> np.ndarray:
        for _ in range(n_steps):
            weights = weights * (densities.T @ (counts / (densities @ weights))) / counts.sum()
        return weights

    weights = improve(weights, 120)
    while np.count_nonzero(weights) > 1:
        shares = densities * weights / (densities @ weights)[:, None]
        without = counts @ np.log1p(-np.minimum(shares, 1 - 1e-12))
        losses = counts.sum() * np.log1p(-np.minimum(weights, 1 - 1e-12)) - without
        losses[weights < 1e-6] = 0.0
        losses[weights == 0] = np.inf
        losses /= least
        needless = losses.argsort()[: max(1, np.count_nonzero(losses < 0.25) // 3)]
        if losses[needless[0]] > 1:
            break
        weights[needless] = 0.0
        weights = improve(weights / weights.sum(), 15)
    weights = improve(weights, 60)
    return np.asarray(weights / weights.sum())


#: Pools by whether paths are those of all agents together, and by their observed steps.
Pools = dict[tuple[bool, bytes], ScenePool]

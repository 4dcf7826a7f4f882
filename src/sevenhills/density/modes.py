"""Modes of the density, and to which of them points belong."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
from joblib import effective_n_jobs
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import KDTree
from scipy.special import expit

from ..validation import check_not_negative, check_queries, freeze
from .ascent import Standard, climb, find_summits
from .derivatives import Derivatives, nearest_shares
from .passes import Centres, Hills, find_hills
from .profiles import whitening
from .sums import Kernels, LogSums, log_sums_of, sums_at

__all__ = ["ModeTable", "Modes", "climb"]

#: So many kernels are all starts of a climb.
_FEW_KERNELS = 256
#: Of so many, every pair is one, too.
_FEW_FOR_PAIRS = 64
#: The powers of one of two kernels, the other having the rest, at which their ridge is looked at.
_POWERS = expit(np.linspace(-8, 8, 33))
#: Neighbours among which a centre looks for a denser one; groups of as many have starts of their
#: own.
_NEIGHBOURS = 24
#: The way to a denser neighbour is long if it is so many times what it would be to the last of the
#: neighbours, judging by the distance of the one of this number, where samples are equally dense.
_LONG, _CLOSE = 1.5, 4
#: A kernel that makes up so much of the density at its centre may have a maximum of its own.
_MOST = 0.5
#: The highest means from which the peak is looked for.
_MOST_BEST = 16
#: A kernel that is so far below the highest one is not at the peak.
_NEGLIGIBLE = 30.0
#: Where on the way between two summits a dip is looked for.
_DIP_AT = np.arange(1, 8) / 8
#: A dip that is smaller is rounding, relative to the log density.
_NO_DIP = 1e-13


@dataclass(frozen=True, eq=False, repr=False)
class ModeTable:
    """The modes of a density, those with the largest share first.

    Attributes
    ----------
    locations : ndarray of shape (n_modes, n_features)
        The maxima of the density.
    log_heights : ndarray of shape (n_modes,)
        The log density there.
    shares : ndarray of shape (n_modes,)
        The weight of the kernels from which the way up leads to every mode.
    basins : ndarray of shape (n_kernels,)
        The mode to which the way up from every kernel's centre leads.
    significances : ndarray of shape (n_modes,)
        How far the hill of every mode stands out of the highest pass to another one, in units of
        what chance is expected to do; infinite for a density that was not made from samples.
    """

    locations: np.ndarray
    log_heights: np.ndarray
    shares: np.ndarray
    basins: np.ndarray
    significances: np.ndarray

    def __post_init__(self) -> None:
        freeze(self, "locations", "log_heights", "shares", "basins", "significances")

    def __len__(self) -> int:
        return len(self.locations)

    def __repr__(self) -> str:
        shares = ", ".join(f"{share:.1%}" for share in self.shares[:5])
        return f"ModeTable(n_modes={len(self)}, shares=[{shares}{', ...' * (len(self) > 5)}])"


class Modes(Derivatives):
    """The modes of the density."""

    def modes(self, significance: float = 1.25, n_jobs: int | None = None) -> ModeTable:
        r"""Return the modes of the density: the tops of the hills that stand out.

        A density made from samples has bumps by chance. A hill counts if more samples stand on it
        than chance would put there, above the highest pass :math:`s` to another hill:

        .. math:: 2 \left(\sqrt{n} - \sqrt{b}\right) \geq \text{significance} \cdot
                  \sqrt{2 \ln(1 + N / n)} \cdot \sqrt{1 + b / n(s)}, \qquad
                  b = \max\left(\tfrac12, \sum_i \frac{p(s)}{p_{-i}(x_i)}\right)

        Of all :math:`N` samples, the :math:`n` samples :math:`x_i` are on the hill and denser than
        the pass. There would be :math:`b` of them if the density were that of the pass everywhere,
        a number that is never known to be below one half. The density :math:`p_{-i}` leaves out
        the sample itself, and :math:`n(s)` samples make up the density at the pass. The left side
        is the difference of two counts in standard errors. The last root is larger than one
        because :math:`p(s)` has an error, too, and the root before is the expected size of the
        largest of :math:`N/n` errors.

        In many dimensions nearly all samples of a hill are less dense than even a deep pass. Where
        the pass is lower than both hills by a factor of :math:`e`, the same rule is applied to the
        marginal density of the two hills along the direction of Fisher's discriminant; at least
        half of the samples above the pass must then be in excess, :math:`b \leq n / 2`. A hill
        counts if it does so in either way. A hill that does not count is part of the hill behind
        the pass. A mode is the highest point of a hill. A density that was not made from samples
        is exact, and all of its maxima count.

        Every cluster and every large group of kernels has a start of its own. With the default
        significance, a separate hill of one tenth of the samples counts from 5 samples on.

        Parameters
        ----------
        significance : float, default=1.25
            The least standing of a hill, in units of what chance is expected to do; zero for all
            maxima.
        n_jobs : int, optional
            Number of threads.

        Returns
        -------
        ModeTable

        Examples
        --------
        >>> from sevenhills import KernelMixture
        >>> hills = KernelMixture([0.3, 0.7], [[0.0], [9.0]], [0, 2], [[[1.0]]])
        >>> modes = hills.modes()
        >>> modes
        ModeTable(n_modes=2, shares=[70.0%, 30.0%])
        >>> modes.locations.round(6) + 0.0
        array([[9.],
               [0.]])
        """
        significance = check_not_negative(significance, "significance")
        return _find_modes(self, significance, n_jobs)

    def mode(self, n_jobs: int | None = None) -> np.ndarray:
        """Return the location of the highest maximum of the density.

        Parameters
        ----------
        n_jobs : int, optional
            Number of threads.

        Returns
        -------
        ndarray of shape (n_features,)

        Examples
        --------
        >>> from sevenhills import KernelMixture
        >>> hills = KernelMixture([0.3, 0.7], [[0.0], [9.0]], [0, 2], [[[1.0]]])
        >>> hills.mode().round(6)
        array([9.])
        """
        standard = Standard.of(self)
        summits = find_summits(standard.density, _best_starts(standard.density, n_jobs), n_jobs)
        highest = np.argmax(summits.log_sums)
        return standard.points(summits.points[highest : highest + 1])[0]

    def predict(self, X: Any, by: Any = "cluster", n_jobs: int | None = None) -> np.ndarray:
        """Return the most probable cluster or mode of every row of ``X``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        by : {"cluster", "mode"} or ModeTable, default="cluster"
            The clusters of the kernels, of which noise, -1, may be one; the modes of
            :meth:`modes`; or the modes that are given.
        n_jobs : int, optional
            Number of threads.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels of clusters, or indices of modes.

        Examples
        --------
        >>> from sevenhills import KernelMixture
        >>> hills = KernelMixture([0.3, 0.7], [[0.0], [9.0]], [0, 2], [[[1.0]]])
        >>> hills.predict([[-1.0], [1e6]], by="mode")
        array([1, 0])
        """
        labels, shares = self._label_shares(X, by, n_jobs)
        return np.asarray(labels[shares.argmax(axis=1)])

    def predict_proba(self, X: Any, by: Any = "cluster", n_jobs: int | None = None) -> np.ndarray:
        r"""Return the probabilities of all clusters or modes at every row of ``X``.

        The probability of a label is the share of its kernels in the density:

        .. math:: P(j \mid x) = \sum_{k \in j} w_k \, N(x; \mu_k, \Sigma_{g(k)}) / p(x)

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        by : {"cluster", "mode"} or ModeTable, default="cluster"
            As in :meth:`predict`.
        n_jobs : int, optional
            Number of threads.

        Returns
        -------
        ndarray of shape (n_samples, n_labels)
            Rows add up to one. The columns are the labels in ascending order, noise (-1) first:
            ``np.unique(density.clusters)``, or the modes in the order of their table.

        Examples
        --------
        >>> from sevenhills import KernelMixture
        >>> hills = KernelMixture([0.3, 0.7], [[0.0], [9.0]], [0, 2], [[[1.0]]])
        >>> hills.predict_proba([[-1.0], [1e6]], by="mode").round(3)
        array([[0., 1.],
               [1., 0.]])
        """
        return self._label_shares(X, by, n_jobs)[1]

    def _label_shares(self, X: Any, by: Any, n_jobs: int | None) -> tuple[np.ndarray, np.ndarray]:
        """Return all labels, and their shares of the density at every row."""
        X = check_queries(X, self.n_features, self.feature_names)
        names, columns = self._kernel_labels(by, n_jobs)
        log_shares = np.full((len(X), len(names)), -np.inf)
        for j in np.unique(columns):
            log_shares[:, j] = sums_at(_sums_of_some(self, columns == j), X, n_jobs)
        with np.errstate(all="ignore"):
            for i in np.flatnonzero(log_shares.max(axis=1) == -np.inf):
                shares = nearest_shares(self, X[i])[0]
                log_shares[i] = np.log(np.bincount(columns, shares, len(names)))
        probabilities = np.exp(log_shares - log_shares.max(axis=1, keepdims=True))
        probabilities /= probabilities.sum(axis=1, keepdims=True)
        return names, probabilities

    def _kernel_labels(self, by: Any, n_jobs: int | None) -> tuple[np.ndarray, np.ndarray]:
        """Return all labels, and the index of that of every kernel."""
        if isinstance(by, str) and by == "cluster":
            names, groups = np.unique(self.clusters, return_inverse=True)
            return names, groups[self._group_of_kernel]
        modes = self._default_modes(n_jobs) if isinstance(by, str) and by == "mode" else by
        if not isinstance(modes, ModeTable):
            raise ValueError(f"by must be 'mode', 'cluster' or modes that were found, got {by!r}")
        if modes.basins.shape != (self.n_kernels,):
            raise ValueError(
                f"by: these modes are those of {len(modes.basins)} kernels, but the density has "
                f"{self.n_kernels}"
            )
        return np.arange(len(modes)), modes.basins

    def _default_modes(self, n_jobs: int | None) -> ModeTable:
        """Return the modes of the default significance, found once."""
        if "_modes" not in self.__dict__:
            self.__dict__["_modes"] = self.modes(n_jobs=n_jobs)
        return cast("ModeTable", self.__dict__["_modes"])


def _sums_of_some(density: Derivatives, chosen: np.ndarray) -> LogSums:
    """Return what sums some of the kernels."""
    sizes = np.add.reduceat(chosen.astype(np.int64), density.offsets[:-1])
    groups = np.flatnonzero(sizes)
    return log_sums_of(
        Kernels(
            density.log_weights[chosen],
            density.means[chosen],
            np.append(0, np.cumsum(sizes[groups])),
            density.transforms[groups],
            density.log_dets[groups],
        )
    )


def _find_modes(density: Modes, significance: float, n_jobs: int | None) -> ModeTable:
    """Climb, leave out what is found twice, and then what does not stand out."""
    standard = Standard.of(density)
    turned = standard.density
    heights = sums_at(turned._log_sums, turned.means, n_jobs)
    isolated = significance == 0 or density.counts is None
    starts = _starts(turned, heights, isolated, n_jobs)
    summits = find_summits(turned, starts.points, n_jobs)
    points, log_sums, place = _distinct(turned, *summits, n_jobs=n_jobs)
    maxima = place[starts.of_kernel]
    hills = Hills(np.arange(len(points)), np.full(len(points), np.inf))
    if density.counts is not None:
        means = Centres(density.counts, _left_out(turned, density.counts, heights), maxima)
        hills = find_hills(turned, points, log_sums, means, significance, n_jobs)
    shares = np.bincount(hills.of_maximum[maxima], density.weights, len(points))
    highest = _highest(hills.of_maximum, log_sums)
    order = np.lexsort(
        [*points[highest].T[::-1], -log_sums[highest], -shares[hills.of_maximum[highest]]]
    )
    highest = highest[order]
    rank = np.empty(len(points), dtype=np.int64)
    rank[hills.of_maximum[highest]] = np.arange(len(highest))
    return ModeTable(
        locations=standard.points(points[highest]),
        log_heights=standard.log_densities(log_sums[highest]),
        shares=shares[hills.of_maximum[highest]],
        basins=rank[hills.of_maximum[maxima]],
        significances=hills.standing[hills.of_maximum[highest]],
    )


def _highest(labels: np.ndarray, log_sums: np.ndarray) -> np.ndarray:
    """Return the index of the highest of every label."""
    order = np.lexsort([-log_sums, labels])
    return np.asarray(order[np.flatnonzero(np.diff(labels[order], prepend=-1))])


class _Starts(NamedTuple):
    """Where climbs start."""

    points: np.ndarray
    of_kernel: np.ndarray  #: (n_kernels,) the start whose end is that of a kernel


def _starts(
    density: Derivatives, heights: np.ndarray, isolated: bool, n_jobs: int | None
) -> _Starts:
    """Return the means of all kernels if they are few, else dense ones."""
    if density.n_kernels <= _FEW_KERNELS:
        kernels = np.arange(density.n_kernels)
        points = density.means
        if density.n_kernels <= _FEW_FOR_PAIRS:
            points = np.concatenate([points, _ridge_tops(density, n_jobs)])
        return _Starts(points, kernels)
    root = _roots(density, heights, isolated, n_jobs)
    chosen, of_kernel = np.unique(root, return_inverse=True)
    return _Starts(density.means[chosen], of_kernel)


def _best_starts(density: Derivatives, n_jobs: int | None) -> np.ndarray:
    """Return a few points from which the highest maximum is found."""
    if density.n_kernels <= _FEW_FOR_PAIRS:
        return np.concatenate([density.means, _ridge_tops(density, n_jobs)])
    # Of conditional densities, few kernels are left; the others cannot be at the peak.
    own = density.log_weights + density.log_dets[density._group_of_kernel]
    points = density.means[own > own.max() - _NEGLIGIBLE]
    heights = sums_at(density._log_sums, points, n_jobs)
    highest = np.argsort(-heights, kind="stable")
    return points[highest[:_MOST_BEST]]


def _ridge_tops(density: Derivatives, n_jobs: int | None) -> np.ndarray:
    """Return the highest points of the ridges between pairs of kernels.

    All modes of a pair lie on its ridge, the places where powers of the two have the maximum of
    their product; kernels of different shapes can have one far from their means (Ray and
    Lindsay, The topography of multivariate normal mixtures, 2005).
    """
    first, second = np.triu_indices(density.n_kernels, 1)
    precisions = (density.transforms @ density.transforms.transpose(0, 2, 1))[
        density._group_of_kernel
    ]
    apart = density.means[second] - density.means[first]
    pulls = (precisions[second] @ apart[:, :, None])[:, :, 0]
    ridges = np.empty((len(_POWERS), *apart.shape))
    for i, power in enumerate(_POWERS):
        joint = (1 - power) * precisions[first] + power * precisions[second]
        steps = np.linalg.solve(joint, power * pulls[:, :, None])[:, :, 0]
        ridges[i] = density.means[first] + steps
    heights = sums_at(density._log_sums, ridges.reshape(-1, density.n_features), n_jobs)
    heights = np.pad(heights.reshape(ridges.shape[:2]), [(1, 1), (0, 0)], constant_values=np.inf)
    is_top = (heights[1:-1] >= heights[:-2]) & (heights[1:-1] >= heights[2:])
    return ridges[is_top]


def _roots(
    density: Derivatives, heights: np.ndarray, isolated: bool, n_jobs: int | None
) -> np.ndarray:
    """Return, for every kernel, the dense centre to which a walk over denser neighbours leads.

    Quick shift: a centre points to its nearest denser neighbour of the same part; those without
    one are roots. So are those whose way to it is long and leads through a valley. With
    ``isolated``, kernels that make up most of the density at their centre are roots, too.
    """
    rank = np.empty(density.n_kernels, dtype=np.int64)
    rank[np.argsort(heights, kind="stable")] = np.arange(density.n_kernels)
    long = _LONG * (_NEIGHBOURS / _CLOSE) ** (1 / density.n_features)
    parent, is_long = np.arange(density.n_kernels), np.zeros(density.n_kernels, dtype=bool)
    for kernels, among, Y in _parts(density):
        k = np.arange(1, min(_NEIGHBOURS, len(among)) + 1)
        apart, near = KDTree(Y).query(
            Y[np.searchsorted(among, kernels)], k, workers=effective_n_jobs(n_jobs)
        )
        denser = rank[among[near]] > rank[kernels, None]
        at = np.arange(len(kernels)), denser.argmax(axis=1)
        parent[kernels] = np.where(denser.any(axis=1), among[near[at]], kernels)
        is_long[kernels] = apart[at] > long * apart[:, min(_CLOSE, len(k) - 1)]
    is_root = parent == np.arange(density.n_kernels)
    doubtful = np.flatnonzero(is_long & ~is_root)
    middles = (density.means[doubtful] + density.means[parent[doubtful]]) / 2
    is_root[doubtful] = sums_at(density._log_sums, middles, n_jobs) < heights[doubtful]
    if isolated:
        own = density.log_weights + density.log_dets[density._group_of_kernel]
        is_root |= own > heights + np.log(_MOST)
    parent = np.where(is_root, np.arange(density.n_kernels), parent)
    while (parent[parent] != parent).any():
        parent = parent[parent]
    return parent


def _parts(density: Derivatives) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield kernels of every large group, and of every cluster the others.

    With them come the kernels among which their neighbours are, the same ones unless they are
    noise, and places of those in coordinates in which the part is spread alike in all directions.
    """
    sizes = np.diff(density.offsets)
    large = np.where(sizes >= _NEIGHBOURS, np.arange(density.n_groups), -1)
    names, part = np.unique(np.stack([density.clusters, large]), axis=1, return_inverse=True)
    part = part.ravel()[density._group_of_kernel]
    deviations = np.empty_like(density.means)
    everything = np.arange(density.n_kernels)
    chosen = [np.flatnonzero(part == i) for i in range(names.shape[1])]
    for kernels in chosen:
        weights = density.weights[kernels]
        mean = np.average(
            density.means[kernels], axis=0, weights=weights if weights.any() else None
        )
        deviations[kernels] = density.means[kernels] - mean
    for kernels, cluster in zip(chosen, names[0], strict=True):
        among = kernels if cluster >= 0 else everything
        axes = whitening(density.weights[among], deviations[among])
        places = deviations if cluster >= 0 else density.means
        yield kernels, among, places[among] @ axes


def _left_out(density: Derivatives, counts: np.ndarray, heights: np.ndarray) -> np.ndarray:
    """Return the log sums at the means without one of the samples that stand there."""
    own = density.log_weights + density.log_dets[density._group_of_kernel]
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.exp(own - heights) / np.maximum(counts, 1.0)
        return np.asarray(heights + np.log1p(-np.minimum(shares, 1.0)))


def _distinct(
    density: Derivatives, points: np.ndarray, log_sums: np.ndarray, n_jobs: int | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Leave out all but one of the points that climbs to the same maximum ended at.

    Two maxima are one if the density does not dip between them.

    Returns
    -------
    points, log_sums
        The highest of every maximum.
    place : ndarray
        The index among those of every point that was given.
    """
    # Most points are the same to many digits.
    rounded = np.column_stack([points.round(9), log_sums.round(9)])
    _, one, same = np.unique(rounded, axis=0, return_index=True, return_inverse=True)
    points, log_sums = points[one], log_sums[one]
    first, second = _near_pairs(density, points, n_jobs)
    ways = points[first, None] + _DIP_AT[:, None] * (points[second] - points[first])[:, None]
    on_way = sums_at(density._log_sums, ways.reshape(-1, points.shape[1]), n_jobs)
    lower = np.minimum(log_sums[first], log_sums[second])
    dips = lower - on_way.reshape(ways.shape[:2]).min(axis=1, initial=np.inf)
    joint = dips <= _NO_DIP * (1 + np.abs(lower))
    links = coo_array((joint[joint], (first[joint], second[joint])), shape=[len(points)] * 2)
    _, maximum = connected_components(links, directed=False)
    highest = _highest(maximum, log_sums)
    return points[highest], log_sums[highest], maximum[same.ravel()]


def _near_pairs(
    density: Derivatives, points: np.ndarray, n_jobs: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the pairs of points that are less than a kernel width apart."""
    precisions = density._curvatures(points, n_jobs).precisions
    widest = 1 / np.sqrt(np.linalg.eigvalsh(precisions)[:, 0].clip(np.finfo(float).tiny))
    found = KDTree(points).query_ball_point(points, widest)
    first = np.repeat(np.arange(len(points)), [len(each) for each in found])
    second = np.concatenate(found).astype(np.int64)
    apart = points[second] - points[first]
    squares = np.einsum("im,imj,ij->i", apart, precisions[first], apart)
    near = (first != second) & (squares < 1)
    return first[near], second[near]

"""The choice among candidate clusterings: their scores, and the best one."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from ..kernels.blocks import Blocks, build_blocks, most_needed
from ..kernels.silhouettes import ROWS, row_silhouettes, sum_runs, sum_segments
from ..kernels.spanning import Workspace, diameter_beyond, span, spanning_tree
from ..progress import report
from ..threads import map_blocks
from ..validation import check_choice, check_field, check_permutation
from .nearest import nearest_distances
from .optics import Cuts, Partitions, best_of, weigh_runs
from .sampling import sample_scores

#: The criteria by which candidates are scored here.
CRITERIA = ("silhouette", "dbcv")
#: The criterion of :mod:`~sevenhills.clustering.likelihood`.
LIKELIHOOD = "likelihood"
#: The score of a candidate with one label only, below that of any other.
TRIVIAL_SCORE = -1.1
#: From this number of samples on, silhouettes are estimated from a sample of them. There the cost
#: of a sample is about half of that of all of them, so that the time of a fit has no step.
EXACT_BELOW = 4000
#: That sample may always grow to this size, and to the cost of all silhouettes of this number.
_LARGEST_SAMPLE = 4096
_AFFORDABLE = 30_000
#: Partitions up to this number of runs are scored together; a million runs take 3 GB.
_MOST_RUNS = 50_000
#: The silhouettes of fewer samples are computed faster than threads are started.
_FEWEST_TO_SHARE = 512
#: Points in a leaf of the tree by which distances for DBCV are found.
_LEAF_SIZE = 128
#: Sparseness and separation below this, in units of the data's spread, count as zero.
_SMALLEST = 1e-6


@dataclass(frozen=True, eq=False)
class Candidates(Cuts):
    """The distinct candidate clusterings of an ordering, their scores, and the chosen one.

    The attributes are those of :class:`Cuts` and these:

    Attributes
    ----------
    criterion : str
        The kind of the scores: "silhouette", "dbcv" or "likelihood".
    scores : ndarray of shape (n_candidates,)
        The higher the better; -1.1 for a single label. Likelihoods are mean log likelihoods in
        excess of that of one cluster.
    errors : ndarray of shape (n_candidates,)
        Where scores are estimated from samples: the standard error of the chosen candidate's
        score, and of the others' distance to it. Zero where scores are exact.
    chosen : int
        The candidate of the highest score, the first among equals. By likelihood, one cluster if
        its score is not clearly lower, and of equal ones that with the least noise.
    """

    criterion: str
    scores: np.ndarray
    errors: np.ndarray
    chosen: int

    def __post_init__(self) -> None:
        partitions = (self.partitions.runs, self.partitions.offsets)
        for array in (*self.to_dict().values(), *partitions, self.order):
            array.flags.writeable = False

    def _validate(self) -> None:
        """Raise an error if the arrays contradict each other, as those of a file might."""
        check_permutation(self.order, "order")
        check_choice(self.criterion, "criterion", (*CRITERIA, LIKELIHOOD))
        shape, largest = (len(self.partitions),), float(np.finfo(np.float64).max)
        check_field(self.rules, "rules", "U", shape)
        check_field(self.parameters, "parameters", "f", shape, -largest, largest)
        check_field(self.n_cuts, "n_cuts", "i", shape, least=1)
        check_field(self.n_clusters, "n_clusters", "i", shape, least=0)
        check_field(self.noise_share, "noise_share", "f", shape, 0, largest)
        check_field(self.scores, "scores", "f", shape, -largest, largest)
        check_field(self.errors, "errors", "f", shape, 0, largest)
        if not 0 <= self.chosen < len(self):
            raise ValueError(f"chosen must be one of {len(self)} candidates, got {self.chosen}")
        if self.partitions.runs[-1, 1] != len(self.order):
            raise ValueError("partitions must lead through all samples")
        if (self.n_clusters < self.partitions.n_clusters()).any():
            raise ValueError("n_clusters must not be below the labels of a candidate")

    def labels(self, index: int | None = None) -> np.ndarray:
        """Return the labels of a candidate, of the chosen one by default, -1 being noise."""
        runs = self.partitions[self.chosen if index is None else index]
        out = np.empty(len(self.order), dtype=np.int64)
        out[self.order] = np.repeat(runs[:, 2], runs[:, 1] - runs[:, 0])
        return out

    def to_dict(self) -> dict[str, np.ndarray]:
        """Return the table of candidates by columns, ready for a data frame."""
        return {
            "rule": self.rules,
            "parameter": self.parameters,
            "n_cuts": self.n_cuts,
            "n_clusters": self.n_clusters,
            "noise_share": self.noise_share,
            "score": self.scores,
            "error": self.errors,
        }

    def ranking(self) -> np.ndarray:
        """Return the indices of the candidates, best first, the first among equals."""
        rest = np.argsort(-self.scores, kind="stable")
        return np.concatenate([[self.chosen], rest[rest != self.chosen]])

    def __repr__(self) -> str:
        rule, parameter = self.rules[self.chosen], self.parameters[self.chosen]
        return (
            f"Candidates({len(self)} distinct of {int(self.n_cuts.sum())} cuts, "
            f"chosen: {rule} at {parameter:.4g}, n_clusters={self.n_clusters[self.chosen]})"
        )


class Scores(NamedTuple):
    """Scores of candidate clusterings.

    Attributes
    ----------
    criterion : str
        "silhouette" or "dbcv".
    values : ndarray of shape (n_candidates,)
        The higher the better.
    errors : ndarray of shape (n_candidates,)
        The standard error of the highest score, and of the distances of all others to it; zero
        where scores are exact.
    """

    criterion: str
    values: np.ndarray
    errors: np.ndarray


def score(
    X: np.ndarray,
    cuts: Cuts,
    criterion: str = "silhouette",
    *,
    n_neighbors: int = 5,
    weights: np.ndarray | None = None,
    n_jobs: int | None = None,
    exact_below: int = EXACT_BELOW,
) -> Scores:
    """Score the candidate clusterings of samples.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        The samples that were ordered.
    cuts : Cuts
    criterion : {"silhouette", "dbcv"}, default="silhouette"
        Silhouettes with the noise counted twice, or density-based validation.
    n_neighbors : int, default=5
        The number of neighbors of a core in the ordering, for "dbcv".
    weights : ndarray of shape (n_samples,), optional
        The number of samples that every row stands for; one by default.
    n_jobs : int, optional
        Number of threads.
    exact_below : int, default=4000
        From this number of rows on, silhouettes are estimated from a sample of rows. It grows until
        the best candidate is ahead of all others by four standard errors, or to the cost of the
        exact silhouettes of 30,000 rows.

    Returns
    -------
    Scores
        The score is -1.1 for a candidate of one label.
    """
    weights = np.ones(len(X)) if weights is None else weights
    X, weights, partitions = X.take(cuts.order, axis=0), weights[cuts.order], cuts.partitions
    scores = np.full(len(partitions), TRIVIAL_SCORE)
    errors = np.zeros(len(partitions))
    proper = partitions.offsets[1:] - partitions.offsets[:-1] > 1
    if not proper.any():
        return Scores(criterion, scores, errors)
    if criterion == "dbcv":
        scores[proper] = dbcv_scores(X, partitions, n_neighbors, n_jobs, weights)[proper]
    elif len(X) < exact_below:
        scores[proper] = silhouette_scores(X, partitions, n_jobs, weights)[proper]
    else:
        most = max(_LARGEST_SAMPLE, _AFFORDABLE**2 // len(X))
        # Slightly more rows than ``exact_below`` take as long as exact scores, not much less.
        first_size = min(most, int(exact_below * (exact_below / len(X)) ** 0.5))
        scores[proper], errors[proper] = sampled_silhouette_scores(
            X, partitions.take(proper.nonzero()[0]), n_jobs, weights, first_size, most
        )
    return Scores(criterion, scores, errors)


def choose(cuts: Cuts, scores: Scores) -> Candidates:
    """Choose the candidate of the highest score, the first among equals.

    If all candidates have one label only, the chosen one is a single cluster without noise.

    Examples
    --------
    >>> from sevenhills import clustering, datasets
    >>> X = datasets.load("aniso").sample(300, random_state=0)
    >>> cuts = clustering.cut(clustering.order_by_reachability(X))
    >>> candidates = clustering.choose(cuts, clustering.score(X, cuts))
    >>> labels = candidates.labels()
    >>> int(labels.max()) + 1
    3
    """
    return Candidates(
        **vars(cuts),
        criterion=scores.criterion,
        scores=scores.values,
        errors=scores.errors,
        chosen=best_of(scores.values),
    )


def silhouette_scores(
    X: np.ndarray,
    partitions: Partitions,
    n_jobs: int | None = None,
    weights: np.ndarray | None = None,
) -> np.ndarray:
    r"""Return the scores of partitions of points in order by silhouettes, counting noise twice.

    With noise share :math:`f`, the score is :math:`f S_1 + (1 - f) S_2`: the mean silhouette with
    every noise point its own cluster, and with all noise as one cluster. It is NaN for a partition
    of a single label.
    """
    weights = np.ones(len(X)) if weights is None else weights
    return _Silhouettes.from_partitions(X, partitions, weights).scores(n_jobs)


def sampled_silhouette_scores(
    X: np.ndarray,
    partitions: Partitions,
    n_jobs: int | None,
    weights: np.ndarray,
    first_size: int,
    most: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Return estimates of the silhouette scores of partitions, and their standard errors.

    They come from a sample that is large enough to find the best partition, of up to ``most``
    points, after a first sample of ``first_size``. No partition may have a single label.
    """
    n_seen = 0

    def contributions(partitions: Partitions, rows: np.ndarray) -> np.ndarray:
        nonlocal n_seen
        report(n_seen / most)
        n_seen += len(rows)
        parts = [
            _Silhouettes.from_partitions(X, group, weights).of_rows(rows, n_jobs)
            for group in _groups(partitions)
        ]
        return np.concatenate(parts)

    return sample_scores(contributions, partitions, weights, first_size, most)


def _groups(partitions: Partitions) -> list[Partitions]:
    """Divide partitions into groups of few runs, or of a single partition."""
    places = partitions.offsets[1:] // _MOST_RUNS
    return [partitions.take(np.flatnonzero(places == place)) for place in np.unique(places)]


class _Silhouettes(NamedTuple):
    """Points in order, and the runs over which distances to them are added up."""

    X: np.ndarray
    weights: np.ndarray
    edges: np.ndarray  #: (n_segments + 1,) starts of the segments of all runs, and the end
    runs: np.ndarray  #: (n_runs, 3) first segment, last + 1, and noise (1 or 0) of distinct runs
    masses: np.ndarray  #: (n_runs,) sums of weights
    parts: np.ndarray  #: (n_parts, 2) the runs of all partitions, and their labels
    offsets: np.ndarray  #: (n_partitions + 1,) where the parts of every partition begin
    shares: np.ndarray  #: (n_partitions,) the share of noise

    @classmethod
    def from_partitions(
        cls, X: np.ndarray, partitions: Partitions, weights: np.ndarray
    ) -> "_Silhouettes":
        """Prepare the silhouettes of partitions."""
        flat = partitions.runs
        is_edge = np.zeros(len(X) + 1, dtype=bool)
        is_edge[flat[:, 0]] = is_edge[-1] = True
        edges = is_edge.nonzero()[0]
        position = is_edge.cumsum() - 1
        parts = np.empty((len(flat), 2), dtype=np.int64)
        parts[:, 1] = flat[:, 2]
        runs, parts[:, 0] = _distinct_runs(position[flat[:, :2]], flat[:, 2] < 0)
        masses = weigh_runs(edges[runs[:, :2]], weights)
        noise = np.where(flat[:, 2] < 0, masses[parts[:, 0]], 0.0)
        shares = np.add.reduceat(noise, partitions.offsets[:-1]) / weights.sum()
        return cls(
            X=X,
            weights=weights,
            edges=edges,
            runs=runs,
            masses=masses,
            parts=parts,
            offsets=partitions.offsets,
            shares=shares,
        )

    def scores(self, n_jobs: int | None) -> np.ndarray:
        """Return the score of every partition, from all points."""
        n_blocks = -(-len(self.X) // ROWS)
        sums = np.empty((n_blocks, len(self.shares), 2))

        def add(values: np.ndarray, rows: np.ndarray, block: int) -> None:
            sums[block] = values[:, :, : len(rows)] @ self.weights[rows]

        self._each_block(np.arange(len(self.X)), add, n_jobs)
        means = sums.sum(axis=0) / self.weights.sum()
        return self.shares * means[:, 0] + (1 - self.shares) * means[:, 1]

    def of_rows(self, rows: np.ndarray, n_jobs: int | None) -> np.ndarray:
        """Return the contributions (n_partitions, n_rows) of ascending rows to the scores.

        The score of a partition is the weighted mean of its contributions over all points.
        """
        out = np.empty((len(self.shares), len(rows)))
        share = self.shares[:, None]

        def keep(values: np.ndarray, rows: np.ndarray, block: int) -> None:
            single, joint = values[:, 0, : len(rows)], values[:, 1, : len(rows)]
            out[:, block * ROWS : block * ROWS + len(rows)] = share * single + (1 - share) * joint

        self._each_block(rows, keep, n_jobs)
        return out

    def _each_block(
        self,
        rows: np.ndarray,
        use: Callable[[np.ndarray, np.ndarray, int], None],
        n_jobs: int | None,
    ) -> None:
        """Call ``use`` with silhouettes (n_partitions, 2, ROWS), rows and number of every block."""
        n_blocks = -(-len(rows) // ROWS)
        padded = np.zeros((n_blocks, ROWS, self.X.shape[1]))
        padded.reshape(n_blocks * ROWS, self.X.shape[1])[: len(rows)] = self.X.take(rows, axis=0)
        columns = np.ascontiguousarray(padded.transpose(0, 2, 1))
        weights = np.zeros((n_blocks, ROWS))
        weights.ravel()[: len(rows)] = self.weights[rows]

        def score(blocks: range) -> None:
            trees = np.empty((2, 2 * (len(self.edges) - 1), ROWS))
            by_run = np.empty((2, len(self.runs), ROWS))
            values = np.empty((len(self.shares), 2, ROWS))
            squares, work = np.empty((2, ROWS)), np.empty((6, ROWS))
            own = np.empty(ROWS, dtype=np.int64)
            for block in blocks:
                places = rows[block * ROWS : (block + 1) * ROWS]
                sum_segments(self.X, self.weights, columns, block, self.edges, *trees, squares)
                sum_runs(self.runs, *trees, *by_run)
                row_silhouettes(
                    places, weights[block], self.masses, self.edges, self.runs, self.parts,
                    self.offsets, *by_run, own, work, values,
                )  # fmt: skip
                use(values, places, block)

        map_blocks(score, n_blocks, n_jobs if len(self.X) >= _FEWEST_TO_SHARE else 1)


def _distinct_runs(ends: np.ndarray, is_noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct runs by noise, start and end, and the index of every given run.

    ``ends`` (n_runs, 2) are the starts and ends of the given runs.
    """
    n_places = ends.max() + 1
    keys = (is_noise * n_places + ends[:, 0]) * n_places + ends[:, 1]
    order = keys.argsort()
    ordered = keys[order]
    is_first = np.ones(len(keys), dtype=bool)
    is_first[1:] = ordered[1:] != ordered[:-1]
    index = np.empty_like(order)
    index[order] = is_first.cumsum() - 1
    firsts = order[is_first]
    runs = np.empty((len(firsts), 3), dtype=np.int64)
    runs[:, :2], runs[:, 2] = ends[firsts], is_noise[firsts]
    return runs, index


def dbcv_scores(
    X: np.ndarray,
    partitions: Partitions,
    n_neighbors: int,
    n_jobs: int | None = None,
    weights: np.ndarray | None = None,
) -> np.ndarray:
    r"""Return the scores of partitions of points in order by density-based validation.

    With the reach :math:`a` of :func:`all_points_reach`, two points are
    :math:`\max(d, a, a')` apart. The sparseness :math:`s_C` of a cluster is the longest edge of
    the minimum spanning tree of its members, or its diameter if that is smaller; its separation
    :math:`t_C` is the smallest distance to a member of another cluster. The score is

    .. math:: \sum_C \frac{n_C}{N} \frac{t_C - s_C}{\max(s_C, t_C, 10^{-6})}

    Noise counts only in :math:`N`.

    References
    ----------
    D. Moulavi, P. A. Jaskowiak, R. J. G. B. Campello, A. Zimek, J. Sander: Density-Based
    Clustering Validation. SDM 2014.
    """
    weights = np.ones(len(X)) if weights is None else weights
    validation = _Validation(X, weights, n_neighbors, n_jobs)
    scores = np.empty(len(partitions))

    def score(indices: range) -> None:
        workspace = Workspace.from_blocks(validation.blocks)
        for index in indices:
            scores[index] = validation.score(partitions[index], workspace)

    map_blocks(score, len(partitions), n_jobs)
    return scores


def all_points_reach(
    X: np.ndarray,
    weights: np.ndarray,
    blocks: Blocks,
    n_neighbors: int,
    n_jobs: int | None = None,
) -> np.ndarray:
    r"""Return the reach of every point: a power mean of the distances to its nearest neighbors.

    .. math:: a = \Big(\frac{1}{k} \sum_{j=1}^{k} d_j^{-M}\Big)^{-1 / M}, \qquad k = 2 k_c - 1

    The reach is zero for a point that occurs more than once.
    """
    n_features = X.shape[1]
    itself = np.minimum(weights, 1.0)
    masses = np.minimum(2 * n_neighbors - 1, weights.sum() - itself)
    n_kept = most_needed(weights, float((masses + itself).max()))
    _, distances, others = nearest_distances(X, weights, blocks, masses + itself, n_kept, n_jobs)
    others[:, 0] = np.maximum(others[:, 0] - itself, 0.0)  # one sample is the point itself
    # The last neighbor counts in part, so that the weights add up to the number of neighbors.
    before = np.cumsum(others, axis=1) - others
    shares = np.clip(masses[:, None] - before, 0.0, others) / masses[:, None]
    near = shares > 0
    repeated = (near & (distances == 0)).any(axis=1)
    logs = np.log(np.where(near & (distances > 0), distances, 1.0))
    reach = np.exp(
        logsumexp(-n_features * logs, axis=1, b=np.where(near, shares, 0.0)) / -n_features
    )
    return np.where(repeated, 0.0, reach)


class _Validation:
    """DBCV of partitions, whose spanning trees are all grown from the tree of all points."""

    def __init__(
        self, X: np.ndarray, weights: np.ndarray, n_neighbors: int, n_jobs: int | None
    ) -> None:
        self.X, self.weights = X, weights
        self.blocks = build_blocks(X, _LEAF_SIZE)
        self.reach = all_points_reach(X, weights, self.blocks, n_neighbors, n_jobs)
        self.tree = spanning_tree(X, self.reach)
        #: Clusters occur in many partitions, so their sparseness is kept, by their runs.
        self.sparseness: dict[bytes, float] = {}

    def score(self, runs: np.ndarray, workspace: Workspace) -> float:
        """Return the score of one partition."""
        labels = np.repeat(runs[:, 2], runs[:, 1] - runs[:, 0])
        sizes = np.bincount(labels + 1, self.weights)[1:]
        edges, lengths = self.tree
        kept = (labels[edges] >= 0).all(axis=1)
        members = np.flatnonzero(labels >= 0)
        known = edges[kept], lengths[kept]
        edges, lengths = span(self.X, self.reach, self.blocks, members, *known, workspace)

        ends = labels[edges]
        inside = ends[:, 0] == ends[:, 1]
        separation = np.full(len(sizes), np.inf)
        for side in (0, 1):
            np.minimum.at(separation, ends[~inside, side], lengths[~inside])
        own_runs = runs[runs[:, 2] >= 0]
        run_groups = _by_label(own_runs[:, 2], len(sizes))
        edge_groups = _by_label(ends[inside, 0], len(sizes))
        edges, lengths = edges[inside], lengths[inside]
        sparseness = np.array(
            [
                self._sparseness(own_runs[some, :2], edges[known], lengths[known], workspace)
                for some, known in zip(run_groups, edge_groups, strict=True)
            ]
        )
        separation = np.where(np.isinf(separation), sparseness, separation)
        larger = np.maximum(np.maximum(sparseness, separation), _SMALLEST)
        return float(sizes @ ((separation - sparseness) / larger) / self.weights.sum())

    def _sparseness(
        self, runs: np.ndarray, edges: np.ndarray, lengths: np.ndarray, workspace: Workspace
    ) -> float:
        """Return the longest edge of a cluster's tree, some edges of which are known.

        It is the diameter of the cluster if that is smaller.
        """
        key = runs.tobytes()
        if key not in self.sparseness:
            members = np.concatenate([np.arange(start, end) for start, end in runs])
            tree = span(self.X, self.reach, self.blocks, members, edges, lengths, workspace)
            longest = tree[1].max()
            self.sparseness[key] = min(longest, diameter_beyond(self.X, members, longest))
        return self.sparseness[key]


def _by_label(labels: np.ndarray, n_labels: int) -> list[np.ndarray]:
    """Return the indices of every label from 0 to ``n_labels - 1``."""
    order = np.argsort(labels, kind="stable")
    return np.split(order, np.searchsorted(labels[order], np.arange(1, n_labels)))

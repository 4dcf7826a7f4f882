"""The candidate clusterings that an ordering can be cut into."""

from dataclasses import dataclass
from functools import cache

import numpy as np

from ..kernels.cuts import dbscan_cuts, first_equals, noise_masses, xi_cuts
from .ordering import Ordering

#: The score of a candidate with one label only, below that of any other.
TRIVIAL_SCORE = -1.1
#: Scores that differ by no more than this differ by rounding alone.
_EQUAL = 1e-12


@dataclass(frozen=True, eq=False)
class Partitions:
    """Partitions of an ordering into runs, one after another.

    Attributes
    ----------
    runs : ndarray of shape (n_runs, 3)
        ``(start, end, label)`` of every run, label -1 being noise.
    offsets : ndarray of shape (n_partitions + 1,)
        Where the runs of every partition begin.
    """

    runs: np.ndarray
    offsets: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> np.ndarray:
        return self.runs[self.offsets[index] : self.offsets[index + 1]]

    def take(self, indices: np.ndarray) -> "Partitions":
        """Return some of the partitions."""
        lengths = self.offsets[indices + 1] - self.offsets[indices]
        offsets = np.zeros(len(indices) + 1, dtype=np.int64)
        lengths.cumsum(out=offsets[1:])
        rows = np.arange(offsets[-1]) + np.repeat(self.offsets[indices] - offsets[:-1], lengths)
        return Partitions(self.runs[rows], offsets)

    def first_of_equals(self) -> np.ndarray:
        """Return, for every partition, the index of the first that is equal to it."""
        first = np.empty(len(self), dtype=np.int64)
        first_equals(self.runs, self.offsets, np.empty_like(first), first)
        return first

    def n_clusters(self) -> np.ndarray:
        """Return the number of clusters of every partition."""
        return np.maximum.reduceat(self.runs[:, 2], self.offsets[:-1]) + 1

    def noise_share(self, weights: np.ndarray) -> np.ndarray:
        """Return the part of all weight, given in order, that is noise in every partition."""
        masses = np.empty(len(self))
        noise_masses(self.runs, self.offsets, weights, masses)
        return masses / weights.sum()

    def counted(self, counts: np.ndarray) -> "Partitions":
        """Return the partitions of an order in which every place stands for some samples, or none.

        Parameters
        ----------
        counts : ndarray of shape (n_places,)
        """
        before = np.append(0, np.cumsum(counts))
        runs = np.concatenate([before[self.runs[:, :2]], self.runs[:, 2:]], axis=1)
        kept = runs[:, 0] < runs[:, 1]
        lengths = np.add.reduceat(kept.astype(np.int64), self.offsets[:-1])
        return Partitions(runs[kept], np.append(0, np.cumsum(lengths)))


@dataclass(frozen=True, eq=False)
class Candidates:
    """The distinct candidate clusterings of an ordering, and which one was chosen.

    Many cuts give the same clusters; such cuts are one candidate, named after the first of them.

    Attributes
    ----------
    criterion : str
        What the scores measure: "silhouette" or "dbcv".
    rules : ndarray of str, of shape (n_candidates,)
        "dbscan" or "xi".
    parameters : ndarray of shape (n_candidates,)
        The height of the cut in data units, or the steepness.
    n_cuts : ndarray of shape (n_candidates,)
        How many cuts give this candidate.
    n_clusters : ndarray of shape (n_candidates,)
    noise_share : ndarray of shape (n_candidates,)
    scores : ndarray of shape (n_candidates,)
        The higher the better; -1.1 for a single label.
    errors : ndarray of shape (n_candidates,)
        Where scores are estimated from samples: the standard error of the chosen candidate's
        score, and of the others' distance to it. Zero where scores are exact.
    chosen : int
        The candidate of the highest score, the first among equals.
    partitions : Partitions
        The runs of every candidate in the ordering.
    order : ndarray of shape (n_samples,)
        The ordering that was cut.
    """

    criterion: str
    rules: np.ndarray
    parameters: np.ndarray
    n_cuts: np.ndarray
    n_clusters: np.ndarray
    noise_share: np.ndarray
    scores: np.ndarray
    errors: np.ndarray
    chosen: int
    partitions: Partitions
    order: np.ndarray

    def __post_init__(self) -> None:
        partitions = (self.partitions.runs, self.partitions.offsets)
        for array in (*self.to_dict().values(), *partitions, self.order):
            array.flags.writeable = False

    def __len__(self) -> int:
        return len(self.rules)

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

    def describe(self, most: int = 5) -> str:
        """Return the best candidates as lines of text, the chosen one marked."""
        estimated = bool(self.errors.any())
        lines = [
            f"  {'rule':<8}{'parameter':>11}{'clusters':>10}{'noise':>8}{'score':>11}{'cuts':>6}"
            + f"{'error':>11}" * estimated
        ]
        for i in self.ranking()[:most]:
            score = "one label" if self.scores[i] == TRIVIAL_SCORE else f"{self.scores[i]:.4f}"
            lines.append(
                f"{'*' if i == self.chosen else ' '} {self.rules[i]:<8}{self.parameters[i]:>11.4g}"
                f"{self.n_clusters[i]:>10}{self.noise_share[i]:>8.1%}{score:>11}{self.n_cuts[i]:>6}"
                + f"{self.errors[i]:>11.1e}"
                * estimated
            )
        return "\n".join(lines)

    def __repr__(self) -> str:
        n_cuts = int(self.n_cuts.sum())
        return f"Candidates({len(self)} distinct of {n_cuts} cuts)\n{self.describe()}"


def cut(
    ordering: Ordering, n_heights: int, n_steps: int, weights: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, Partitions]:
    r"""Cut an ordering at many heights and at many steepnesses.

    With the finite reachabilities between :math:`r_{\min}` and :math:`r_{\max}`, the heights are
    :math:`r_{\min} + (a / (n - 1))^2 (r_{\max} - r_{\min})`, dense where clusters are dense; the
    steepnesses are :math:`b / (n + 1)`.

    Parameters
    ----------
    ordering : Ordering
    n_heights, n_steps : int
        How many of each.
    weights : ndarray of shape (n_samples,), optional
        How many samples every point is; one by default.

    Returns
    -------
    rules : ndarray of str
    parameters : ndarray
    partitions : Partitions
        A cut with one label is one run with label 0.
    """
    order = ordering.order
    reachability, core = ordering.reachability[order], ordering.core_distances[order]
    finite = reachability[np.isfinite(reachability)]
    rules, shares, steepness = _fractions(n_heights, n_steps)
    lowest = finite.min()
    heights = shares * (finite.max() - lowest) + lowest
    position = np.empty(len(order) + 1, dtype=np.int64)
    position[order] = np.arange(len(order))
    position[-1] = -1
    predecessor = position[ordering.predecessor[order]]
    weights = np.ones(len(order)) if weights is None else weights[order]
    flat, cuts = dbscan_cuts(reachability, core, weights, heights)
    steep, steep_cuts = xi_cuts(reachability, predecessor, weights, steepness, ordering.n_neighbors)
    runs = np.concatenate([flat, steep])
    offsets = np.concatenate([cuts, steep_cuts[1:] + cuts[-1]])
    starts = offsets[:-1]
    runs[starts[offsets[1:] - starts == 1], 2] = 0
    return (
        rules,
        np.concatenate([heights, steepness]),
        Partitions(runs, offsets),
    )


@cache
def _fractions(n_heights: int, n_steps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the rules of all cuts, and shares of the range of heights and of full steepness."""
    rules = np.repeat(["dbscan", "xi"], [n_heights, n_steps])
    steepness = np.linspace(1 / (n_steps + 1), n_steps / (n_steps + 1), n_steps)
    return rules, np.linspace(0, 1, n_heights) ** 2, steepness


def best_of(scores: np.ndarray) -> int:
    """Return the index of the highest score, the first among those equal but for rounding."""
    return int(np.argmax(scores >= scores.max() - _EQUAL))

"""The candidate clusterings that an ordering can be cut into."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..kernels.cuts import dbscan_cuts, xi_cuts
from .frame import Frame
from .ordering import Ordering

#: The score of a candidate with one label only, below that of any other.
TRIVIAL_SCORE = -1.1
#: Scores that differ by no more than this differ by rounding alone.
_EQUAL = 1e-12


@dataclass(frozen=True, eq=False)
class Candidates:
    """The distinct candidate clusterings of an ordering, and which one was chosen.

    Many cuts give the same clusters; such cuts are one candidate, named after the first of them.

    Attributes
    ----------
    rules : tuple of str
        "dbscan" or "xi" for every candidate.
    parameters : ndarray of shape (n_candidates,)
        The height of the cut in data units, or the steepness.
    n_cuts : ndarray of shape (n_candidates,)
        How many cuts give this candidate.
    n_clusters : ndarray of shape (n_candidates,)
    noise_share : ndarray of shape (n_candidates,)
    scores : ndarray of shape (n_candidates,)
        The silhouette score; -1.1 for a single label.
    chosen : int
        The candidate of the highest score, the first among equals.
    runs : tuple of ndarray of shape (n_runs, 3)
        For every candidate, its runs ``(start, end, label)`` in the ordering.
    order : ndarray of shape (n_samples,)
        The ordering that was cut.
    """

    rules: tuple[str, ...]
    parameters: np.ndarray
    n_cuts: np.ndarray
    n_clusters: np.ndarray
    noise_share: np.ndarray
    scores: np.ndarray
    chosen: int
    runs: tuple[np.ndarray, ...]
    order: np.ndarray

    def __post_init__(self) -> None:
        arrays = (self.parameters, self.n_cuts, self.n_clusters, self.noise_share, self.scores)
        for array in (*arrays, *self.runs, self.order):
            array.flags.writeable = False

    def __len__(self) -> int:
        return len(self.rules)

    def in_given_rows(self, frame: Frame) -> "Candidates":
        """Return the same candidates in terms of the rows and the unit before ``frame``."""
        heights = np.array([rule == "dbscan" for rule in self.rules])
        parameters = np.where(heights, self.parameters * frame.unit, self.parameters)
        return replace(self, parameters=parameters, order=frame.rows[self.order])

    def labels(self, index: int | None = None) -> np.ndarray:
        """Return the labels of a candidate, of the chosen one by default, -1 being noise."""
        runs = self.runs[self.chosen if index is None else index]
        out = np.empty(len(self.order), dtype=np.int64)
        out[self.order] = np.repeat(runs[:, 2], runs[:, 1] - runs[:, 0])
        return out

    def to_dict(self) -> dict[str, np.ndarray]:
        """Return the table of candidates by columns, ready for a data frame."""
        return {
            "rule": np.array(self.rules),
            "parameter": self.parameters,
            "n_cuts": self.n_cuts,
            "n_clusters": self.n_clusters,
            "noise_share": self.noise_share,
            "score": self.scores,
        }

    def ranking(self) -> np.ndarray:
        """Return the indices of the candidates, best first, the first among equals."""
        rest = np.argsort(-self.scores, kind="stable")
        return np.concatenate([[self.chosen], rest[rest != self.chosen]])

    def describe(self, most: int = 5) -> str:
        """Return the best candidates as lines of text, the chosen one marked."""
        lines = [f"  {'rule':<8}{'parameter':>11}{'clusters':>10}{'noise':>8}{'score':>9}{'cuts':>6}"]
        for i in self.ranking()[:most]:
            score = "one label" if self.scores[i] == TRIVIAL_SCORE else f"{self.scores[i]:.4f}"
            lines.append(
                f"{'*' if i == self.chosen else ' '} {self.rules[i]:<8}{self.parameters[i]:>11.4g}"
                f"{self.n_clusters[i]:>10}{self.noise_share[i]:>8.1%}{score:>9}{self.n_cuts[i]:>6}"
            )
        return "\n".join(lines)

    def __repr__(self) -> str:
        n_cuts = int(self.n_cuts.sum())
        return f"Candidates({len(self)} distinct of {n_cuts} cuts)\n{self.describe()}"


def cut(
    ordering: Ordering, n_heights: int, n_steps: int
) -> tuple[list[str], np.ndarray, list[np.ndarray]]:
    r"""Cut an ordering at many heights and at many steepnesses.

    With the finite reachabilities between :math:`r_{\min}` and :math:`r_{\max}`, the heights are
    :math:`r_{\min} + (a / (n - 1))^2 (r_{\max} - r_{\min})`, dense where clusters are dense; the
    steepnesses are :math:`b / (n + 1)`.

    Parameters
    ----------
    ordering : Ordering
    n_heights, n_steps : int
        How many of each.

    Returns
    -------
    rules : list of str
    parameters : ndarray
    runs : list of ndarray of shape (n_runs, 3)
        A cut with one label is one run with label 0.
    """
    order = ordering.order
    reachability, core = ordering.reachability[order], ordering.core_distances[order]
    finite = reachability[np.isfinite(reachability)]
    heights = np.linspace(0, 1, n_heights) ** 2 * (finite.max() - finite.min()) + finite.min()
    steepness = np.linspace(1 / (n_steps + 1), n_steps / (n_steps + 1), n_steps)
    position = np.empty(len(order) + 1, dtype=np.int64)
    position[order] = np.arange(len(order))
    position[-1] = -1
    predecessor = position[ordering.predecessor[order]]
    runs = _separate(dbscan_cuts(reachability, core, heights))
    runs += _separate(xi_cuts(reachability, predecessor, steepness, ordering.n_neighbors))
    one = np.array([[0, len(order), 0]])
    return (
        ["dbscan"] * len(heights) + ["xi"] * len(steepness),
        np.concatenate([heights, steepness]),
        [each if len(each) > 1 else one for each in runs],
    )


def _separate(cuts: tuple[np.ndarray, np.ndarray]) -> list[np.ndarray]:
    runs, offsets = cuts
    return [runs[a:b] for a, b in zip(offsets[:-1], offsets[1:], strict=True)]


def best_of(scores: Sequence[float] | np.ndarray) -> int:
    """Return the index of the highest score, the first among those equal but for rounding."""
    scores = np.asarray(scores)
    return int(np.argmax(scores >= scores.max() - _EQUAL))

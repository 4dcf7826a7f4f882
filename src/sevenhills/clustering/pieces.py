"""Points that weigh more than one sample, in pieces.

A point of weight k is k samples at one place. OPTICS reaches one of them first and all the others
later, one after another, from the same place at the same height; in between it may take other
points that happen to be as near. A cut may begin with the last sample of such a row, or end with
its first. So a point needs four pieces at most, however much it weighs: the sample that is reached
first, the first and the last of the others, and all those between.
"""

from typing import NamedTuple

import numpy as np

from .frame import Frame

_MOST_PIECES = 4


class Pieces(NamedTuple):
    """The pieces of points, one point after another.

    Attributes
    ----------
    points : ndarray of shape (n_pieces,)
        The point of every piece.
    weights : ndarray of shape (n_pieces,)
        At most one, but for pieces that stand for more samples than one.
    """

    points: np.ndarray
    weights: np.ndarray

    @classmethod
    def of(cls, weights: np.ndarray) -> "Pieces":
        """Take points of some weights apart."""
        if weights.max() <= 1.0:
            return cls(np.arange(len(weights)), weights)
        counts = _counts(weights)
        points = np.repeat(np.arange(len(weights)), counts)
        out = np.ones(len(points))
        firsts = np.cumsum(counts) - counts
        rest = np.where(counts == _MOST_PIECES, 2, counts - 1)
        out[firsts + rest] = weights - (counts - 1)
        return cls(points, out)

    @property
    def are_points(self) -> bool:
        """Whether every point is one piece."""
        return len(self.points) == self.points[-1] + 1

    def of_members(self, frame: Frame) -> np.ndarray:
        """Return the piece to which every member of a frame belongs, by its middle."""
        if self.are_points:
            return frame.points
        weights, middles = frame.weights[frame.points], frame.middles
        counts = _counts(frame.weights)
        firsts = np.cumsum(counts) - counts
        steps = (middles >= 1.0).astype(np.int64) + (middles >= 2.0)
        steps += (middles >= weights - 1.0) & (weights > _MOST_PIECES - 1)
        return firsts[frame.points] + np.minimum(steps, counts[frame.points] - 1)

    def joined(self, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Put pieces of one point and one label together again.

        Returns
        -------
        points, labels, weights : ndarray of shape (n_joined,)
        """
        if self.are_points:
            return self.points, labels, self.weights
        alike = (self.points[1:] == self.points[:-1]) & (labels[1:] == labels[:-1])
        starts = np.flatnonzero(np.append(True, ~alike))
        return self.points[starts], labels[starts], np.add.reduceat(self.weights, starts)

    def heaviest(self, labels: np.ndarray) -> np.ndarray:
        """Return one label for every point, that of its heaviest piece."""
        if self.are_points:
            return labels
        order = np.lexsort((-self.weights, self.points))
        firsts = np.flatnonzero(np.append(True, np.diff(self.points) > 0))
        return labels[order[firsts]]


def _counts(weights: np.ndarray) -> np.ndarray:
    """Return the number of pieces of points."""
    return np.clip(np.ceil(weights), 1, _MOST_PIECES).astype(np.int64)

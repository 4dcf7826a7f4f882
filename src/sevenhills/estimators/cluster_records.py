"""Summaries of fitted clusters."""

from dataclasses import dataclass

import numpy as np

from ..clustering.optics import NOISE
from ..validation import check_field


@dataclass(frozen=True, eq=False)
class Cluster:
    """Summary of one fitted cluster.

    Attributes
    ----------
    label : int
        Its label, -1 for noise.
    n_members : int
        The number of its samples.
    share : float
        Its share of the weight of all samples, which is its weight in the density.
    mean : ndarray of shape (n_features,)
    stds : ndarray of shape (n_features,)
        Standard deviations along its axes, in data units.
    bandwidth : float or None
        Standard deviation of its kernels after whitening; None if they have no common width.
    """

    label: int
    n_members: int
    share: float
    mean: np.ndarray
    stds: np.ndarray
    bandwidth: float | None

    @property
    def name(self) -> str:
        """Display name: the label, or "noise"."""
        return "noise" if self.label == NOISE else str(self.label)

    def _validate(self) -> None:
        """Raise an error if a value is impossible, as one of a file might be."""
        check_field(self.mean, "mean", "f", (len(self.mean),))
        check_field(self.stds, "stds", "f", (len(self.mean),), least=0)
        if self.label < NOISE or self.n_members < 0 or self.share < 0:
            raise ValueError("label, n_members and share must not be negative, but for noise")
        if self.bandwidth is not None and self.bandwidth <= 0:
            raise ValueError(f"bandwidth must be positive, got {self.bandwidth}")


@dataclass(frozen=True, eq=False)
class StackedCluster:
    """Summary of one cluster of a stacked density.

    Attributes
    ----------
    label : int
    n_members : int
        The number of its samples.
    share : float
        Its share of the weight of all samples. The weight in the density differs slightly: a wide
        background counts as a tenth of a sample.
    mean : ndarray of shape (n_features,)
    members : tuple of str
        The names of the densities that are added up.
    weights : ndarray
        The weights of these.
    gain, gain_error : float
        The mean gain in log density of held-out samples over a plain Gaussian, and its standard
        error.
    n_tried : int
        The number of members that were tried.
    reason : str
        The reason why not all members were tried; empty if all were.
    """

    label: int
    n_members: int
    share: float
    mean: np.ndarray
    members: tuple[str, ...]
    weights: np.ndarray
    gain: float
    gain_error: float
    n_tried: int
    reason: str

    def _validate(self) -> None:
        """Raise an error if a value is impossible, as one of a file might be."""
        check_field(self.mean, "mean", "f", (len(self.mean),))
        check_field(self.weights, "weights", "f", (len(self.members),), least=0)
        if self.label < NOISE or min(self.n_members, self.share, self.gain_error, self.n_tried) < 0:
            raise ValueError("numbers must not be negative, but for the label of noise")

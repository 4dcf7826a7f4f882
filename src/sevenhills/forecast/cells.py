"""Forecasts agent by agent: which samples and which steps take part."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np


def lengths_of(paths: np.ndarray) -> np.ndarray:
    """Return how many steps (...) every path (..., T, D) has before its padding."""
    return np.asarray(np.count_nonzero(~np.isnan(paths[..., 0]), axis=-1))


def _by_agent(paths: np.ndarray) -> np.ndarray:
    """Return paths of shape (B A, K, T, D)."""
    moved = paths.swapaxes(1, 2)
    return np.ascontiguousarray(moved).reshape(-1, *moved.shape[2:])


class Group(NamedTuple):
    """Agents of one scene.

    Attributes
    ----------
    paths : ndarray of shape (K, A, T, D)
    lengths : ndarray of shape (K, A)
    truths : ndarray of shape (L, A, T, D)
    horizons : ndarray of shape (L, A)
        The steps at which truths and forecasts are compared; 0 for an agent who is absent.
    """

    paths: np.ndarray
    lengths: np.ndarray
    truths: np.ndarray
    horizons: np.ndarray


@dataclass(frozen=True, eq=False)
class Cases:
    """The forecasts for single agents of some scenes, C of them, and what became true.

    A truth is compared with the forecasts as far as both go. A sample that ends before takes
    part in the densities of the steps that it has; in what concerns whole paths it does not.

    Attributes
    ----------
    paths : ndarray of shape (C, K, T, D)
        The samples.
    truths : ndarray of shape (C, L, T, D)
        The true futures.
    floors : ndarray of shape (C,)
        The standard deviation that samples without any are given.
    n_scenes : int
        How many scenes there are; each has as many cases, one after another.
    """

    paths: np.ndarray
    truths: np.ndarray
    floors: np.ndarray
    n_scenes: int

    @classmethod
    def of(cls, paths: np.ndarray, truths: np.ndarray, floors: np.ndarray) -> "Cases":
        """Return the cases of scenes.

        Parameters
        ----------
        paths : ndarray of shape (B, K, A, T, D)
        truths : ndarray of shape (B, L, A, T, D)
        floors : ndarray of shape (B, A)
        """
        return cls(_by_agent(paths), _by_agent(truths), floors.ravel(), len(paths))

    def group(self, cases: slice) -> "Group":
        """Return some cases, which become the second axis."""
        fields = (self.paths, self.lengths, self.truths, self.horizons)
        return Group(*(values[cases].swapaxes(0, 1) for values in fields))

    @cached_property
    def lengths(self) -> np.ndarray:
        """The number of steps (C, K) of every sample."""
        return lengths_of(self.paths)

    @cached_property
    def horizons(self) -> np.ndarray:
        """The number of steps (C, L) at which every truth is compared with forecasts."""
        return np.minimum(lengths_of(self.truths), self.lengths.max(axis=1)[:, None])

    def reaching(self, future: int) -> np.ndarray:
        """Return which samples (C, K) reach the horizon of a truth."""
        horizons = self.horizons[:, future, None]
        return np.asarray((self.lengths >= horizons) & (horizons > 0))

    @property
    def n_short(self) -> int:
        """The number of samples that are there, but end before a truth does."""
        there = self.lengths > 0
        short = there & (self.lengths < self.horizons.max(axis=1)[:, None])
        return int(np.count_nonzero(short))

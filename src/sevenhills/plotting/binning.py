"""Densities of many kernels, simplified for pictures."""

from typing import Any

import numpy as np

from ..density import KernelMixture
from ..density.sums import covariances

#: Densities of at most this many kernels are drawn as they are, in about a second.
_MAX_KERNELS = 20_000
#: Cells along every feature of a density of one feature and of two, finer than a picture shows.
_N_CELLS = {1: 4096, 2: 256}
#: Cells cover the means but for this share at either end of a feature, where kernels stay.
_TAIL = 5e-4
#: Up to this many groups keep their covariances, so that sums of kernels are fast.
_MAX_GROUPS = 100


def binned(density: KernelMixture) -> KernelMixture:
    """Return a density of one or two features with the kernels of every cell of a grid joined.

    Kernels of one cell and one group become a kernel of the same weight and mean; kernels of many
    groups also get the mean covariance. A density of few kernels stays as it is.
    """
    if density.n_kernels <= _MAX_KERNELS:
        return density
    groups, is_shared = density.kernels.group_of_kernel, density.n_groups <= _MAX_GROUPS
    outer = groups if is_shared else np.unique(density.clusters, return_inverse=True)[1][groups]
    present = np.flatnonzero(density.weights)
    keys, cell = np.unique(outer[present] * 2**32 + _cells(density)[present], return_inverse=True)
    weights = np.bincount(cell, density.weights[present])

    def joined(values: np.ndarray) -> np.ndarray:
        rows = (density.weights[:, None] * values.reshape(density.n_kernels, -1))[present]
        sums = np.stack([np.bincount(cell, column) for column in rows.T], axis=1)
        return (sums / weights[:, None]).reshape(-1, *values.shape[1:])

    counts = None if density.counts is None else np.bincount(cell, density.counts[present])
    kept: dict[str, Any] = {"counts": counts, "feature_names": density.feature_names}
    weights, means = weights / weights.sum(), joined(density.means)
    if is_shared:
        of_group = np.unique(keys >> 32, return_index=True)
        made = KernelMixture(
            weights,
            means,
            np.append(of_group[1], len(keys)),
            density.transforms[of_group[0]],
            clusters=density.clusters[of_group[0]],
            **kept,
        )
    else:
        labels = np.unique(density.clusters)[keys >> 32]
        widths = joined(covariances(density.transforms)[groups])
        made = KernelMixture.from_covariances(weights, means, widths, clusters=labels, **kept)
    if density.maps is None:
        return made
    return made._replace(maps=density.maps).framed_like(density)


def _cells(density: KernelMixture) -> np.ndarray:
    """Return the number of the cell of every kernel; those beyond the grid have their own."""
    n_cells, means = _N_CELLS[density.n_features], density.means
    low, high = np.quantile(means, [_TAIL, 1 - _TAIL], axis=0)
    places = (means - low) // (np.where(high > low, high - low, 1.0) / n_cells)
    numbers = places @ n_cells ** np.arange(density.n_features)
    is_beyond = ((places < 0) | (places >= n_cells)).any(axis=1)
    own = n_cells**density.n_features + np.arange(len(means))
    return np.where(is_beyond, own, numbers).astype(np.int64)

"""How ROME's choice of neighbours changes its fit."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sevenhills.clustering import neighbors_for
from sevenhills.datasets import Distribution
from sevenhills.estimators import ROME

#: The values that every parameter takes while the others keep their defaults.
SWEEPS: dict[str, tuple[int, ...]] = {
    "k_min": (2, 3, 5, 8, 12, 20),
    "k_max": (5, 10, 20, 40, 80),
    "alpha_k": (50, 100, 200, 400, 800, 1600, 3200),
}
DEFAULTS = {"k_min": 5, "k_max": 20, "alpha_k": 400}


@dataclass(frozen=True, eq=False)
class Sweep:
    """What becomes of a fit while one parameter changes, run by run.

    Attributes
    ----------
    parameter : str
        One of ``SWEEPS``.
    values : ndarray of shape (n_values,)
        What it was set to.
    n_neighbors : ndarray of shape (n_values,)
        The number of neighbours that make a core then, on which alone all else depends.
    n_clusters, noise_share, log_likelihood : ndarray of shape (n_runs, n_values)
        The clusters, the share of noise, and the mean log density of as many held-out samples.
    """

    parameter: str
    values: np.ndarray
    n_neighbors: np.ndarray
    n_clusters: np.ndarray
    noise_share: np.ndarray
    log_likelihood: np.ndarray


def sweep_neighbours(
    distribution: Distribution, n_samples: int, runs: Sequence[int]
) -> dict[str, Sweep]:
    """Vary ROME's three parameters of the number of neighbours, one at a time.

    Parameters
    ----------
    distribution : Distribution
    n_samples : int
        The size of the training set, and of the held-out one.
    runs : sequence of int
        The runs of the study to take both from.

    Returns
    -------
    dict of str to Sweep
        By parameter.

    Examples
    --------
    >>> from sevenhills import datasets
    >>> from study.sweeps import sweep_neighbours
    >>> sweep = sweep_neighbours(datasets.load("aniso"), 300, runs=[0])["k_min"]
    >>> sweep.values.tolist(), sweep.n_neighbors.tolist()
    ([2, 3, 5, 8, 12, 20], [2, 3, 5, 8, 12, 20])
    >>> sweep.n_clusters[0].tolist()
    [3, 3, 3, 3, 3, 3]
    """
    n_features = distribution.split(0, 1)[0].shape[1]
    neighbours = {
        parameter: np.array([_neighbours(n_samples, n_features, parameter, v) for v in values])
        for parameter, values in SWEEPS.items()
    }
    # Different settings often mean the same number of neighbours, and then the same fit.
    distinct = np.unique(np.concatenate(list(neighbours.values())))
    found = np.array([_fit_all(distribution, n_samples, run, distinct) for run in runs])
    sweeps = {}
    for parameter, numbers in neighbours.items():
        clusters, noise, score = np.moveaxis(found[:, np.searchsorted(distinct, numbers)], -1, 0)
        values = np.array(SWEEPS[parameter])
        sweeps[parameter] = Sweep(parameter, values, numbers, clusters.astype(int), noise, score)
    return sweeps


def _neighbours(n_samples: int, n_features: int, parameter: str, value: int) -> int:
    settings = {**DEFAULTS, parameter: value}
    return neighbors_for(
        n_samples, n_features, settings["k_min"], settings["k_max"], settings["alpha_k"]
    )


def _fit_all(
    distribution: Distribution, n_samples: int, run: int, neighbours: np.ndarray
) -> list[tuple[int, float, float]]:
    """Return number of clusters, share of noise and score for every number of neighbours."""
    train, test = distribution.split(run, n_samples)
    rows = []
    for k in neighbours.tolist():
        rome = ROME(min_std=distribution.min_std, k_min=k, k_max=k).fit(train)
        labels = rome.labels_
        rows.append((int(labels.max()) + 1, float(np.mean(labels < 0)), rome.score(test)))
    return rows

"""How well two clusterings of the same samples agree."""

import numpy as np


def adjusted_rand(labels: np.ndarray, others: np.ndarray, weights: np.ndarray) -> float:
    r"""Return the adjusted Rand index, in which a row counts as many samples as its weight.

    .. math:: \frac{\sum_{ij} p(n_{ij}) - e}{\frac{1}{2} (a + b) - e}, \quad e = a b / p(n), \quad
              a = \sum_i p(n_{i \cdot}), \quad b = \sum_j p(n_{\cdot j})

    with :math:`n_{ij}` the samples in cluster :math:`i` of the one and :math:`j` of the other
    clustering, and :math:`p(n) = n (n - 1) / 2` pairs of :math:`n` samples.

    Parameters
    ----------
    labels, others, weights : ndarray of shape (n_rows,)

    Examples
    --------
    >>> adjusted_rand(np.array([0, 0, 1, 1]), np.array([2, 2, 0, 0]), np.ones(4))
    1.0
    """
    here, there = (np.unique(each, return_inverse=True)[1] for each in (labels, others))
    shape = here.max() + 1, there.max() + 1
    cells = np.bincount(here * shape[1] + there, weights, shape[0] * shape[1]).reshape(shape)
    both, one, other = (_pairs(sizes) for sizes in (cells, cells.sum(axis=1), cells.sum(axis=0)))
    by_chance = one * (other / max(_pairs(weights.sum()), np.finfo(float).tiny))
    most = 0.5 * (one + other)
    return (both - by_chance) / (most - by_chance) if most > by_chance else 1.0


def _pairs(sizes: np.ndarray) -> float:
    return float(np.maximum(0.5 * sizes * (sizes - 1), 0.0).sum())

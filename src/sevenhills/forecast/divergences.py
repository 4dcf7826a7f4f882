"""Distances between the samples of a forecast and the truth, without any density."""

import numpy as np
from scipy.spatial.distance import cdist, pdist

from ..metrics import wasserstein
from .joint import Problem


def energy_scores(problem: Problem) -> np.ndarray:
    r"""Return the energy score of every truth, a strictly proper score of the samples themselves.

    .. math:: \frac{1}{\sqrt T} \Big( \frac{1}{n} \sum_i \lVert x_i - y \rVert -
              \frac{1}{2 n (n - 1)} \sum_{i \ne j} \lVert x_i - x_j \rVert \Big)

    for paths of :math:`T` steps. It does not favour samples that are more, or less, spread than
    the truth, however few they are: the second sum leaves out the pairs of a sample with itself
    [1]_. Division by :math:`\sqrt T` turns distances between paths into root mean square
    distances of their points, so that horizons compare; the customary energy score of whole paths
    is :math:`\sqrt T` times as large.

    Parameters
    ----------
    problem : Problem

    Returns
    -------
    ndarray of shape (m,)
        NaN for a single sample.

    References
    ----------
    .. [1] C. Ferro, "Fair scores for ensemble forecasts", Quarterly Journal of the Royal
       Meteorological Society 140 (2014).
    """
    samples, n = problem.samples, len(problem.samples)
    if n < 2:
        return np.full(len(problem.truths), np.nan)
    within = pdist(samples).sum() / (n * (n - 1))
    scores = cdist(problem.truths, samples).mean(axis=1) - within
    return np.asarray(scores / np.sqrt(problem.n_steps))


def transport_distance(problem: Problem) -> float:
    r"""Return the Wasserstein distance of the samples from the true futures.

    It is divided by :math:`\sqrt T` for paths of :math:`T` steps: paths are apart by the root mean
    square distance of their points. It is never 0 for samples,
    and the fewer they are, the more it favours those that are spread too little.
    """
    return float(wasserstein(problem.samples, problem.truths)) / float(np.sqrt(problem.n_steps))

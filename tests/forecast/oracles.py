"""Slow reference implementations of the measures: one scene, sample and step at a time."""

import numpy as np
from scipy.special import logsumexp
from scipy.stats import gaussian_kde, multivariate_normal


def length(path):
    """Number of steps of a path, without padding."""
    return int(np.isfinite(path).all(axis=1).sum())


def step_nll(samples, truth):
    """Mean over steps of the negative log density by scipy, from the samples that have the step."""
    found = []
    for t in range(length(truth)):
        there = np.array([path[t] for path in samples if length(path) > t])
        if len(there):
            found.append(-gaussian_kde(there.T).logpdf(truth[t])[0])
    return np.mean(found)


def floored_log_density(points, truth, floor):
    """Log density of Scott's kernels, with the square of the floor added to all variances."""
    n, d = points.shape
    covariance = np.zeros((d, d)) if n == 1 else np.atleast_2d(np.cov(points.T))
    covariance = (covariance + floor**2 * np.eye(d)) * n ** (-2 / (d + 4))
    terms = [multivariate_normal(point, covariance).logpdf(truth) for point in points]
    return logsumexp(terms) - np.log(n)


def displacements(samples, truth, ks, threshold):
    """Measures of displacement, from the samples that reach the end of the truth."""
    end = min(length(truth), max(map(length, samples)))
    apart = [
        [np.linalg.norm(path[t] - truth[t]) for t in range(end)]
        for path in samples
        if length(path) >= end
    ]
    average, last = [np.mean(each) for each in apart], [each[-1] for each in apart]
    out = {"ade": np.mean(average), "fde": np.mean(last)}
    for k in ks:
        out |= {f"min_ade_{k}": min(average[:k]), f"min_fde_{k}": min(last[:k])}
    out["miss_rate"] = float(min(last[: max(ks)]) > threshold)
    return out


def rows_of(samples, truth):
    """The samples that reach the end of the truth, and the truth, as rows."""
    end = min(length(truth), max(map(length, samples)))
    rows = [path[:end].ravel() for path in samples if length(path) >= end]
    return np.array(rows), truth[:end].ravel()


def energy_score(samples, truth):
    X, y = rows_of(samples, truth)
    n = len(X)
    within = sum(np.linalg.norm(X[i] - X[j]) for i in range(n) for j in range(n))
    score = np.mean([np.linalg.norm(x - y) for x in X]) - within / (2 * n * (n - 1))
    return score / np.sqrt(len(y) / truth.shape[1])


def others_log_density(density, X):
    """Leave-one-out log density at every sample: its kernel loses the weight of one sample."""
    group = np.repeat(np.arange(density.n_groups), np.diff(density.offsets))
    out = []
    for x in X:
        terms = []
        for k, centre in enumerate(density.means):
            weight = density.weights[k] - (centre == x).all() / len(X)
            if weight > 1e-12:
                precision = density.transforms[group[k]] @ density.transforms[group[k]].T
                normal = multivariate_normal(centre, np.linalg.inv(precision))
                terms.append(np.log(weight) + normal.logpdf(x))
        out.append(logsumexp(terms) if terms else -np.inf)
    return np.array(out)


def calibration_error(levels):
    """Expected calibration error of the study, from the levels of the truths."""
    return np.mean([abs(np.mean(levels > k / 200) + k / 200 - 1) for k in range(201)])

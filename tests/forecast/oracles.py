"""Slow reference implementations of the measures: one scene, sample and step at a time."""

import numpy as np
from scipy.special import logsumexp
from scipy.stats import gaussian_kde, multivariate_normal

FAIR = ("energy_score", "energy_score_moves", "crps", "variogram_score")


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
    out |= {f"miss_rate_{k}": float(min(last[:k]) > threshold) for k in ks}
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


def agent_scores(samples, truth, weights, ks, threshold):
    """Measures of one agent: samples (K, T, D), truth (T, D) with NaN where it is not observed."""
    steps = [t for t in range(len(truth)) if np.isfinite(truth[t]).all()]
    steps = [t for t in steps if any(np.isfinite(path[t]).all() for path in samples)]
    chosen = [k for k, path in enumerate(samples) if steps and np.isfinite(path[steps]).all()]
    if not chosen:
        return {}
    X, y = samples[chosen][:, steps], truth[steps]
    w = weights[chosen] / weights[chosen].sum()
    apart = [[np.linalg.norm(a - b) for a, b in zip(path, y, strict=True)] for path in X]
    ade, fde = np.array([np.mean(each) for each in apart]), np.array([each[-1] for each in apart])
    out = {"ade": w @ ade, "fde": w @ fde}
    top = [i for i in range(len(w)) if w[i] == w.max()]
    out |= {"ade_most_likely": ade[top].mean(), "fde_most_likely": fde[top].mean()}
    order = sorted(range(len(w)), key=lambda i: -w[i])
    for k in ks:
        best = order[:k]
        p = w[best] / w[best].sum()
        for name, values in (("ade", ade[best]), ("fde", fde[best])):
            out[f"min_{name}_{k}"] = values.min()
            i = min(range(len(best)), key=lambda i, v=values, p=p: (v[i], -p[i]))
            out[f"brier_min_{name}_{k}"] = values[i] + (1 - p[i]) ** 2
        out[f"miss_rate_{k}"] = float(fde[best].min() > threshold)
        largest = min(max(apart[i]) for i in best)
        out[f"miss_rate_path_{k}"] = float(largest > threshold)
    return out | fair_scores(X, y, steps, w)


def fair_scores(X, y, steps, w):
    """Fair energy, CRPS and variogram scores of samples (n, T, D) at some of all steps."""
    pairs = [(i, j) for i in range(len(w)) for j in range(len(w)) if i != j]
    total = sum(w[i] * w[j] for i, j in pairs)

    def fair(kernel):
        """Mean kernel score, where ``kernel(None, i)`` compares with the truth."""
        within = sum(w[i] * w[j] * kernel(i, j) for i, j in pairs)
        return sum(w[i] * kernel(None, i) for i in range(len(w))) - within / total / 2

    def at(values, true, i):
        return true if i is None else values[i]

    def energy(values, true):
        flat, one = values.reshape(len(values), -1), true.ravel()
        return fair(lambda i, j: np.linalg.norm(at(flat, one, i) - at(flat, one, j)))

    if len(w) < 2:
        return dict.fromkeys(
            ("energy_score", "energy_score_moves", "crps", "variogram_score"), np.nan
        )
    out = {"energy_score": energy(X, y) / np.sqrt(len(y))}
    out["crps"] = np.mean(
        [
            fair(lambda i, j, t=t, d=d: abs(at(X, y, i)[t, d] - at(X, y, j)[t, d]))
            for t, d in np.ndindex(y.shape)
        ]
    )
    next_to = [t for t in range(len(y) - 1) if steps[t + 1] == steps[t] + 1]
    moves, true = np.diff(X, axis=1)[:, next_to], np.diff(y, axis=0)[next_to]
    n = len(next_to)
    out["energy_score_moves"] = energy(moves, true) / np.sqrt(n) if n else np.nan

    def root(path, s, t):
        return np.sqrt(np.linalg.norm(path[s] - path[t]))

    variograms = [
        fair(lambda i, j, s=s, t=t: (root(at(X, y, i), s, t) - root(at(X, y, j), s, t)) ** 2)
        for s in range(len(y))
        for t in range(len(y))
        if s != t
    ]
    out["variogram_score"] = np.mean(variograms) if variograms else np.nan
    return out


def joint_scores(samples, truth, weights, ks):
    """JADE and JFDE of the agents that have a truth: samples (K, A, T, D), truth (A, T, D)."""
    agents = [a for a in range(len(truth)) if np.isfinite(truth[a]).any()]
    steps = {}
    for a in agents:
        there = np.isfinite(truth[a, :, 0]) & np.isfinite(samples[:, a, :, 0]).any(axis=0)
        steps[a] = np.flatnonzero(there)
    found = []
    for k, sample in enumerate(samples):
        if agents and all(np.isfinite(sample[a, steps[a]]).all() for a in agents):
            apart = [np.linalg.norm(sample[a] - truth[a], axis=1)[steps[a]] for a in agents]
            ade, fde = np.mean([d.mean() for d in apart]), np.mean([d[-1] for d in apart])
            found.append((-weights[k], k, ade, fde))
    found.sort()
    return {
        f"min_{name}_{k}": min(each[column] for each in found[:k])
        for k in ks
        for column, name in ((2, "jade"), (3, "jfde"))
        if found
    }


def collision_scores(samples, truth, weights, distance):
    """Shares of the samples and truths of agents that come near another agent, mean over agents."""
    last = [max(np.flatnonzero(np.isfinite(path[:, 0])), default=-1) for path in truth]
    reach = [max(length(path) for path in samples[:, a]) for a in range(len(truth))]
    ends = [min(t + 1, n) for t, n in zip(last, reach, strict=True)]
    agents = [a for a in range(len(truth)) if ends[a] > 0]
    if len(agents) < 2:
        return {}

    def collides(paths, a):
        """Whether an agent is near another one, at a thousand times between two steps."""
        for b in agents:
            for t in range(min(ends[a], ends[b]) if b != a else 0):
                gap = paths[a, t] - paths[b, t]
                after = paths[a, t + 1] - paths[b, t + 1] if t + 1 < min(ends[a], ends[b]) else gap
                after = after if np.isfinite(after).all() else gap
                between = gap + np.linspace(0, 1, 1001)[:, None] * (after - gap)
                if (np.linalg.norm(between, axis=1) < distance).any():
                    return True
        return False

    shares = []
    for a in agents:
        there = np.isfinite(samples[:, a, 0, 0])
        hits = [collides(sample, a) for sample in samples[there]]
        shares.append(np.average(hits, weights=weights[there]))
    true = np.mean([collides(truth, a) for a in agents])
    return {"collision_rate": np.mean(shares), "collision_rate_truth": true}

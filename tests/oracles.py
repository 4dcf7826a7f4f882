"""Slow, obvious twins of what the library computes fast."""

import struct

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import gamma, logsumexp
from scipy.stats import multivariate_normal, multivariate_t
from sklearn.cluster import cluster_optics_dbscan, cluster_optics_xi
from sklearn.metrics import silhouette_score

#: The strengths of the pull to a ball: none, and four to every power of ten from 1e-5 to 1.
STRENGTHS = np.array([0.0, *(10.0 ** (k / 4) for k in range(-20, 1))])
#: The strengths of the pull to all clusters, in samples for each feature, but for the last.
POOLING = np.array([0.0, 1.0])


def plain_optics(X, n_neighbors):
    """OPTICS without a radius, all pairs of distances, scikit-learn's rounding."""
    distances = cdist(X, X)
    core = np.around(np.sort(distances, axis=1)[:, n_neighbors - 1], 15)
    reach = np.full(len(X), np.inf)
    source = np.full(len(X), -1)
    todo = np.ones(len(X), dtype=bool)
    order = []
    for _ in range(len(X)):
        point = np.flatnonzero(todo)[np.argmin(reach[todo])]
        todo[point] = False
        order.append(point)
        offer = np.around(np.maximum(distances[point], core[point]), 15)
        better = todo & (offer < reach)
        reach[better] = offer[better]
        source[better] = point
    return np.array(order), reach, core, source


def plain_links(X, neighbors):
    """Which points are among each other's neighbors, and the distances to the last neighbors."""
    linked = np.zeros((len(X), len(X)), dtype=bool)
    floors = np.empty(len(X))
    for i, row in enumerate(neighbors):
        linked[i, row[row >= 0]] = True
        last = row[row >= 0][-1]
        floors[i] = np.sqrt(np.cumsum((X[i] - X[last]) ** 2)[-1]).round(15)
    np.fill_diagonal(linked, False)
    return linked | linked.T, floors


def all_labels(order, reachability, core, predecessor, n_neighbors):
    """The 199 labelings by scikit-learn's extraction and romepy's treatment of single members."""
    finite = reachability[np.isfinite(reachability)]
    heights = np.linspace(0, 1, 100) ** 2 * (finite.max() - finite.min()) + finite.min()
    labelings = [
        cluster_optics_dbscan(
            reachability=reachability, core_distances=core, ordering=order, eps=height
        )
        for height in heights
    ]
    with np.errstate(divide="ignore"):
        labelings += [
            cluster_optics_xi(
                reachability=reachability,
                predecessor=predecessor,
                ordering=order,
                min_samples=n_neighbors,
                min_cluster_size=2,
                xi=xi,
            )[0]
            for xi in np.linspace(0.01, 0.99, 99)
        ]
    return [without_single_members(labels) for labels in labelings]


def without_single_members(labels):
    if len(np.unique(labels)) == 1:
        return np.zeros_like(labels)
    labels = labels.copy()
    found, counts = np.unique(labels, return_counts=True)
    labels[np.isin(labels, found[counts == 1])] = -1
    proper = labels > -1
    labels[proper] = np.unique(labels[proper], return_inverse=True)[1]
    return labels


def score(X, labels):
    """The silhouette score that counts noise twice."""
    if labels.max() == labels.min():
        return -1.1
    distances = cdist(X, X)
    noise = labels == -1
    alone = labels.copy()
    alone[noise] = labels.max() + 1 + np.arange(noise.sum())
    share = noise.mean()
    return share * silhouette_score(distances, alone, metric="precomputed") + (
        1 - share
    ) * silhouette_score(distances, labels, metric="precomputed")


def log_density(density, X):
    """A kernel mixture by direct log-sum-exp over all kernels."""
    X = np.asarray(X, dtype=float)
    exponents = []
    for g in range(density.n_groups):
        rows = slice(density.offsets[g], density.offsets[g + 1])
        apart = X[:, None] - density.means[rows]
        squares = np.sum((apart @ density.transforms[g]) ** 2, axis=-1)
        exponents.append(density.log_weights[rows] - squares / 2 + density.log_dets[g])
    constant = density.n_features / 2 * np.log(2 * np.pi)
    return logsumexp(np.concatenate(exponents, axis=1), axis=1) - constant


def rome_log_density(X, labels, min_std, queries, density="kde", decorrelate=True, normalize=True):
    """ROME and its ablations by their formulas, cluster by cluster, from given labels."""
    n_samples, n_features = X.shape
    terms, stds = [], []
    for label in sorted(set(labels) - {-1}):
        members = X[labels == label]
        mean = members.mean(axis=0)
        T = _whitening(members, min_std, decorrelate, normalize)
        b = ((n_features + 2) / 4 * len(members)) ** (-1 / (n_features + 4))
        stds.append(members.std(axis=0))
        if density == "kde":
            term = _cluster_term(members, queries, mean, T, b)
        elif density == "gaussian":
            term = _gaussian_term(members, queries, min_std)
        elif density == "knn":
            term = _neighbour_term(members, queries, T)
        else:
            term = manifold_parzen_log_density(members, min_std, n_features, queries, T)
        terms.append(term + np.log(len(members) / n_samples))
    noise = X[labels == -1]
    if len(noise):
        scale = np.ones(n_features)
        if stds and normalize:
            scale = np.maximum(np.mean(stds, axis=0), min_std)
        b = ((n_features + 2) / 4) ** (-1 / (n_features + 4))
        term = _cluster_term(noise, queries, np.zeros(n_features), np.diag(1 / scale), b)
        terms.append(term + np.log(len(noise) / n_samples))
    return logsumexp(terms, axis=0)


def _whitening(members, min_std, decorrelate, normalize):
    n_features = members.shape[1]
    if decorrelate:
        _, singular, axes = np.linalg.svd(members - members.mean(axis=0))
        s = np.zeros(n_features)
        s[: len(singular)] = singular / np.sqrt(max(len(members) - 1, 1))
    else:
        s, axes = members.std(axis=0), np.eye(n_features)
    factor = max(0.0, 1 - min_std / s.max()) if s.max() > 0 else 0.0
    return axes.T / (factor * s + min_std) if normalize else axes.T


def _gaussian_term(members, queries, min_std):
    centred = members - members.mean(axis=0)
    cov = centred.T @ centred / len(members) + max(1e-6, min_std**2) * np.eye(members.shape[1])
    return multivariate_normal(members.mean(axis=0), cov).logpdf(queries).reshape(len(queries))


def _neighbour_term(members, queries, T):
    n, n_features = members.shape
    k = max(min(n, 3), int(np.sqrt(n)))
    radii = np.sort(cdist(queries @ T, members @ T), axis=1)[:, k - 1]
    ball = np.pi ** (n_features / 2) / gamma(n_features / 2 + 1)
    return np.log(k / n / ball) - n_features * np.log(radii) + np.linalg.slogdet(T)[1]


def manifold_parzen_log_density(X, min_std, n_directions, queries, T=None):
    """Manifold Parzen windows, window by window; neighbours are found after the map T."""
    n_samples, n_features = X.shape
    k = min(n_samples, max(n_features, int(np.sqrt(n_samples) / 1.5)))
    Y = X if T is None else X @ T
    terms = []
    for i in range(n_samples):
        near = np.argsort(cdist(Y[i : i + 1], Y)[0], kind="stable")[:k]
        moment = (X[near] - X[i]).T @ (X[near] - X[i]) / k
        values, vectors = np.linalg.eigh(moment)
        V = vectors[:, n_features - n_directions :]
        cov = (V * values[n_features - n_directions :]) @ V.T + min_std**2 * np.eye(n_features)
        terms.append(multivariate_normal(X[i], cov).logpdf(queries).reshape(len(queries)))
    return logsumexp(terms, axis=0) - np.log(n_samples)


def dbcv(X, labels, n_neighbors):
    """Density-based validation by its definition."""
    n_samples, n_features = X.shape
    distances = cdist(X, X)
    k = min(2 * n_neighbors - 1, n_samples - 1)
    nearest = np.sort(np.where(np.eye(n_samples) > 0, np.inf, distances), axis=1)[:, :k]
    with np.errstate(divide="ignore"):
        reach = np.mean(nearest ** float(-n_features), axis=1) ** (-1 / n_features)
    mutual = np.maximum(distances, np.maximum(reach[:, None], reach))
    total = 0.0
    for label in set(labels) - {-1}:
        inside = np.flatnonzero(labels == label)
        others = np.flatnonzero((labels != label) & (labels != -1))
        sparseness = min(
            _longest_edge(mutual[np.ix_(inside, inside)]), distances[inside][:, inside].max()
        )
        separation = mutual[np.ix_(inside, others)].min() if len(others) else sparseness
        larger = max(sparseness, separation, 1e-6)
        total += len(inside) / n_samples * (separation - sparseness) / larger
    return total


def _longest_edge(mutual):
    """The longest edge of a minimum spanning tree, by Prim's algorithm."""
    left, longest = set(range(1, len(mutual))), 0.0
    reached = [0]
    while left:
        length, j = min((mutual[i, j], j) for i in reached for j in left)
        longest = max(longest, length)
        left.remove(j)
        reached.append(j)
    return longest


def _cluster_term(members, queries, mean, T, b):
    squares = cdist((queries - mean) @ T, (members - mean) @ T, "sqeuclidean")
    n_features = members.shape[1]
    constant = n_features * np.log(b * np.sqrt(2 * np.pi)) + np.log(len(members))
    return logsumexp(-squares / (2 * b**2), axis=1) - constant + np.linalg.slogdet(T)[1]


def mixture_log_parts(X, weights, means, scatters, dof=np.inf):
    """The logarithm of every component's part in a mixture, component by component."""
    columns = []
    for weight, mean, scatter in zip(weights, means, scatters, strict=True):
        if np.isinf(dof):
            one = multivariate_normal(mean, scatter)
        else:
            one = multivariate_t(mean, scatter, dof)
        columns.append(np.log(weight) + one.logpdf(X).reshape(len(X)))
    return np.stack(columns, axis=1)


def expectation_maximisation(X, shares, prior, dof=np.inf):
    """Plain EM of a mixture, component by component, until a step gains less than 0.001.

    Returns what the components are, the responsibilities and the mean log likelihood after every
    step.
    """
    pulls = np.ones_like(shares)
    likelihoods = []
    for _ in range(60):
        weights, means, scatters = _maximisation(X, shares, pulls)
        scatters = _shrunk_scatters(scatters, shares.sum(axis=0) + 1e-10, prior)
        parts = mixture_log_parts(X, weights, means, scatters, dof)
        total = logsumexp(parts, axis=1)
        shares = np.exp(parts - total[:, None])
        likelihoods.append(total.mean())
        if np.isfinite(dof):
            for k, (mean, scatter) in enumerate(zip(means, scatters, strict=True)):
                apart = X - mean
                squares = np.sum(apart * np.linalg.solve(scatter, apart.T).T, axis=1)
                pulls[:, k] = (dof + X.shape[1]) / (dof + squares)
        if len(likelihoods) > 1 and likelihoods[-1] - likelihoods[-2] < 1e-3:
            break
    return (weights, means, scatters), shares, np.array(likelihoods)


def _maximisation(X, shares, pulls):
    """Weights, means and scatters; an empty component stands at the origin."""
    sizes = shares.sum(axis=0) + 1e-10
    means, scatters = [], []
    for share, pull, size in zip(shares.T, pulls.T, sizes, strict=True):
        pulling = share * pull
        mean = pulling @ X / (pulling.sum() + 1e-10)
        scatter = np.zeros((X.shape[1], X.shape[1]))
        for strength, x in zip(pulling, X, strict=True):
            scatter += strength * np.outer(x - mean, x - mean)
        means.append(mean)
        scatters.append(scatter / size)
    return sizes / sizes.sum(), means, scatters


def _shrunk_scatters(scatters, sizes, prior):
    """Scatters as if some samples more had been seen, of the target and of the common shape."""
    n_features = len(prior.ridge)
    mean_scatter = sum(n * S for n, S in zip(sizes, scatters, strict=True)) / sizes.sum()
    shape = mean_scatter if prior.shape is None else prior.shape
    shape = shape / max(np.trace(shape), 1e-10)
    target = np.eye(n_features) if prior.target is None else prior.target
    out = []
    for n, S in zip(sizes, scatters, strict=True):
        trace = (n * np.trace(S) + 0.3 * np.trace(mean_scatter)) / (n + 0.3)
        total = n * S
        total = total + prior.round * trace * target / np.trace(target)
        total = total + prior.pooled * trace * shape
        out.append(total / (n + prior.round + prior.pooled) + prior.ridge)
    return out


def neighbourhood(X, neighbours, seen, row, n_neighbors):
    """Mean, relative to the point, and covariance of the nearest seen neighbours of a point."""
    near = X[[j for j in neighbours[row] if seen[j]][:n_neighbors]]
    mean = near.mean(axis=0)
    return mean - X[row], (near - mean).T @ (near - mean) / len(near)


def local_log_density(X, n_neighbors, width, ridge, queries):
    """Kernels with the shapes of their neighbourhoods, kernel by kernel."""
    n_features = X.shape[1]
    terms = []
    for x in X:
        near = X[np.argsort(np.linalg.norm(X - x, axis=1), kind="stable")[:n_neighbors]]
        mean, S = near.mean(axis=0), np.cov(near.T, ddof=0).reshape(n_features, n_features)
        strength = np.sqrt(n_features)
        ball = np.trace(S) / n_features * np.eye(n_features)
        S = (n_neighbors * S + strength * ball) / (n_neighbors + strength)
        centre = mean + np.sqrt(1 - width**2) * (x - mean)
        terms.append(multivariate_normal(centre, width**2 * S + ridge).logpdf(queries))
    return logsumexp(terms, axis=0) - np.log(len(X))


def row_hash(row, seed):
    """The number of a row, by splitmix64 over its features, in whole numbers."""
    mask, out = 2**64 - 1, seed
    for value in row:
        out ^= struct.unpack("<Q", struct.pack("<d", value + 0.0))[0]
        out = (out + 0x9E3779B97F4A7C15) & mask
        out = ((out ^ (out >> 30)) * 0xBF58476D1CE4E5B9) & mask
        out = ((out ^ (out >> 27)) * 0x94D049BB133111EB) & mask
        out ^= out >> 31
    return out


def smallest_hashes(X, size, seed):
    """Distinct rows with the smallest hashes, and how often they occur."""
    counts = {}
    for row in (X + 0.0).tolist():
        counts[tuple(row)] = counts.get(tuple(row), 0) + 1
    found = sorted((row_hash(row, seed), row, count) for row, count in counts.items())[:size]
    return np.array([row for _, row, _ in found]), np.array([count for *_, count in found])


def assigned_labels(X, rome, sample):
    """The likeliest cluster of every row, the first of those that are equal, and the sample's."""
    density = rome.density_
    values = np.full((len(density.clusters), len(X)), -np.inf)
    for g, (start, end) in enumerate(zip(density.offsets[:-1], density.offsets[1:], strict=True)):
        transform = density.transforms[g]
        for k in range(start, end):
            steps = (X - density.means[k]) @ transform
            logs = density.log_weights[k] + density.log_dets[g] - 0.5 * (steps**2).sum(axis=1)
            values[g] = np.logaddexp(values[g], logs)
    labels = density.clusters[(values >= values.max(axis=0) - 1e-6).argmax(axis=0)]
    known = dict(zip(map(tuple, sample.tolist()), rome.labels_.tolist(), strict=True))
    return np.array(
        [known.get(tuple(row), label) for row, label in zip(X.tolist(), labels, strict=True)]
    )


def merged_kernel(density, rows):
    """Mass, mean and covariance of some kernels, in data units."""
    weights, centres = density.weights[rows], density.means[rows]
    group = np.searchsorted(density.offsets, rows, side="right") - 1
    inverses = np.linalg.inv(density.transforms[group])
    mean = np.average(centres, axis=0, weights=weights)
    covariances = np.einsum("kji,kjl->kil", inverses, inverses)
    covariances += np.einsum("ki,kj->kij", centres - mean, centres - mean)
    return weights.sum(), mean, np.average(covariances, axis=0, weights=weights)


def divided_kernels(density, n_cells):
    """Cells of kernels: again and again the heaviest is cut through its mean, across its spread."""
    everything = np.arange(density.n_kernels)
    group = np.searchsorted(density.offsets, everything, side="right") - 1
    inverses = np.linalg.inv(density.transforms[group])
    widths = np.average(
        np.einsum("kji,kjl->kil", inverses, inverses), axis=0, weights=density.weights
    )
    unit = np.linalg.inv(np.linalg.cholesky(widths)).T
    cells = [everything]
    while len(cells) < n_cells:
        divisible = [cell for cell in cells if len(cell) > 1]
        heaviest = max(divisible, key=lambda cell: density.weights[cell].sum())
        cells = [cell for cell in cells if cell is not heaviest]
        weights, centres = density.weights[heaviest], density.means[heaviest] @ unit
        apart = centres - np.average(centres, axis=0, weights=weights)
        direction = np.linalg.svd(np.sqrt(weights)[:, None] * apart)[2][0]
        cells += [heaviest[apart @ direction > 0], heaviest[apart @ direction <= 0]]
    return cells


def shrunk_covariances(parts, weights, shrunk):
    """Shrunk covariances by their formulas, every member left out one by one."""
    n_features = parts[0].shape[1]
    pooling = [*(n_features * POOLING), np.inf] if len(parts) > 1 else [np.inf]
    choices = [(kappa, strength) for kappa in pooling for strength in STRENGTHS]
    told = [(g, i) for g in shrunk for i in range(len(parts[g])) if len(parts[g]) > 1]
    scores = np.zeros(len(choices))
    for g, i in told:
        log_densities = [_log_left_out(parts, weights, g, i, kappa) for kappa in pooling]
        scores += weights[g][i] * np.concatenate(log_densities)
    chances = np.exp(scores - scores.max())
    means = []
    for g in shrunk:
        S = [_pooled(parts, weights, g, kappa) for kappa, _ in choices]
        balls = [np.trace(each) / n_features * np.eye(n_features) for each in S]
        mixed = [(1 - s) * a + s * b for (_, s), a, b in zip(choices, S, balls, strict=True)]
        means.append(np.average(mixed, axis=0, weights=chances))
    return means


def _products(X, weights):
    """The products of deviations from the mean."""
    centred = X - np.average(X, axis=0, weights=weights)
    return centred.T @ (centred * weights[:, None])


def _pooled(parts, weights, g, kappa, lost=0.0):
    """The covariance of a cluster, drawn to that of all, with fewer degrees of freedom."""
    products = [_products(*each) for each in zip(parts, weights, strict=True)]
    freedoms = [max(each.sum() - 1, 0.0) for each in weights]
    common = sum(products) / max(sum(freedoms) - lost, 1.0)
    if np.isinf(kappa):
        return common
    freedom = max(freedoms[g] - lost, 0.0)
    return (products[g] + kappa * common) / max(freedom + kappa, 1.0)


def _log_left_out(parts, weights, g, i, kappa):
    """The log density of a member under the Gaussian of the others, for every strength."""
    n_features = parts[g].shape[1]
    ball = np.trace(_pooled(parts, weights, g, kappa)) / n_features * np.eye(n_features)
    others = np.arange(len(parts[g])) != i
    mean = np.average(parts[g][others], axis=0, weights=weights[g][others])
    # The member moves to the mean of the others, where it adds nothing to the products.
    without = [each.copy() for each in parts]
    without[g][i] = mean
    S = _pooled(without, weights, g, kappa, lost=weights[g].mean())
    apart, out = parts[g][i] - mean, []
    for strength in STRENGTHS:
        variances, axes = np.linalg.eigh((1 - strength) * S + strength * ball)
        is_singular = variances[0] <= 1e-12 * ball[0, 0]
        square = np.inf if is_singular else np.sum((apart @ axes) ** 2 / variances)
        out.append(-np.inf if is_singular else -0.5 * (square + np.log(variances).sum()))
    return np.array(out)


def tile_exponents(tree, X):
    """Return the bounds (n_boxes, n_points) of the boxes of a tree, and their largest exponents."""
    n_features, n_leaves = X.shape[1], len(tree.first_tiles) - 1
    rows, columns = np.triu_indices(n_features)
    order = np.argsort(-rows, kind="stable")

    def unpacked(numbers):
        out = np.zeros((len(numbers), n_features, n_features))
        out[:, rows[order], columns[order]] = numbers
        return out

    frames, factors = unpacked(tree.frames), unpacked(tree.factors)
    Y = np.einsum("bij,bqj->bqi", frames, X - tree.centers[:, None])
    gaps = np.maximum(np.maximum(tree.lower[:, None] - Y, Y - tree.upper[:, None]), 0.0)
    bounds = tree.tops[:, None] - 0.5 * np.square(gaps).sum(axis=2)
    tops = np.full(bounds.shape, -np.inf)
    for tile, is_shared in enumerate(tree.is_shared):
        box = 2 * n_leaves - 1 + tile
        for f in range(*tree.first_families[tile : tile + 2]):
            units = Y[box] - tree.means[f]
            if not is_shared:
                units = (X - tree.means[f]) @ factors[tree.factor_of_family[f]].T
            for k in range(*tree.starts[f : f + 2]):
                found = tree.log_heights[k] - tree.rates[k] * np.square(units).sum(axis=1)
                tops[box] = np.maximum(tops[box], found)
    leaves = np.maximum.reduceat(tops[2 * n_leaves - 1 :], tree.first_tiles[:-1])
    tops[n_leaves - 1 : 2 * n_leaves - 1] = leaves
    for node in reversed(range(n_leaves - 1)):
        tops[node] = np.maximum(tops[2 * node + 1], tops[2 * node + 2])
    return bounds, tops

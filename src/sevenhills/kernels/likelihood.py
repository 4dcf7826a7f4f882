"""Clusters as Gaussians: joining noise, leave-one-out likelihoods, halving and contacts.

Samples are columns of ``columns`` (d, n), one cluster after another, so that inner loops run over
samples and vectorise.
"""

import numpy as np

from .compile import allocating_inner, inner, kernel, summing_inner
from .triangles import invert_lower

#: Samples that are whitened at once; the block of all features stays in the cache.
_BLOCK = 128
#: Lower bound on a pivot of a covariance, relative to its diagonal.
_MIN_PIVOT = 1e-14
#: Lower bound on the share of the likelihood's denominator that leaving a sample out keeps.
_MIN_SHARE = 1e-9
#: Upper bounds on the steps of 2-means and of linear discriminant analysis.
_MOST_MEANS = 20
_MOST_DISCRIMINANTS = 5


@kernel
def join_along_tree(labels, X, weights, edges, lengths, least, reach, spread, parents, out):
    """Write labels in which noise and small clusters have joined clusters along a spanning tree.

    Edges are taken in ascending order. Two clusters are never joined; a part without a cluster
    joins the one that it touches first, unless the edge is longer than ``reach`` radii of the
    cluster. Clusters are numbered by their first row. Return their number, 0 if none has ``least``
    samples; ``out`` is then not written.

    labels : (N,), -1 for noise
    edges, lengths : (E, 2), (E,), the shortest first
    spread : the variance of all samples
    parents : (N + n_labels,), workspace
    out : (N,), -1 for rows that have joined no cluster
    """
    n_rows = labels.shape[0]
    n_labels = 0
    for i in range(n_rows):
        n_labels = labels[i] + 1 if labels[i] >= n_labels else n_labels
    masses, is_kept = np.zeros(n_labels), np.empty(n_labels, dtype=np.bool_)
    for i in range(n_rows):
        if labels[i] >= 0:
            masses[labels[i]] += weights[i]
    any_kept = False
    for c in range(n_labels):
        is_kept[c] = masses[c] * (1 + 1e-12) >= least
        any_kept = any_kept or is_kept[c]
    if not any_kept:
        return 0
    squares = _square_radii(labels, X, weights, masses, is_kept, spread)
    for i in range(n_rows):
        parents[i] = n_rows + labels[i] if labels[i] >= 0 and is_kept[labels[i]] else i
    for c in range(n_labels):
        parents[n_rows + c] = n_rows + c
    for e in range(lengths.shape[0]):
        one, other = _root(parents, edges[e, 0]), _root(parents, edges[e, 1])
        if one > other:
            one, other = other, one
        if one == other or one >= n_rows:
            continue
        if other < n_rows or lengths[e] ** 2 <= reach**2 * squares[other - n_rows]:
            parents[one] = other
    numbers = np.zeros(n_labels, dtype=np.int64)
    n_found = 0
    for i in range(n_rows):
        root = _root(parents, i) - n_rows
        out[i] = -1
        if root >= 0:
            if numbers[root] == 0:
                n_found += 1
                numbers[root] = n_found
            out[i] = numbers[root] - 1
    return n_found


@inner
def _root(parents, i):
    """Return the representative of a part, halving the path to it."""
    while parents[i] != i:
        parents[i] = parents[parents[i]]
        i = parents[i]
    return i


@allocating_inner
def _square_radii(labels, X, weights, masses, is_kept, spread):
    """Return the variance of every kept cluster, but at least the pooled one.

    If all clusters are single values, the variance is ``spread``.
    """
    n_labels, n_features = masses.shape[0], X.shape[1]
    means = np.zeros((n_labels, n_features))
    for i in range(X.shape[0]):
        if labels[i] >= 0:
            for j in range(n_features):
                means[labels[i], j] += weights[i] / masses[labels[i]] * X[i, j]
    squares = np.zeros(n_labels)
    for i in range(X.shape[0]):
        if labels[i] >= 0:
            total = 0.0
            for j in range(n_features):
                total += (X[i, j] - means[labels[i], j]) ** 2
            squares[labels[i]] += weights[i] / masses[labels[i]] * total
    mass, pooled = 0.0, 0.0
    for c in range(n_labels):
        if is_kept[c]:
            mass += masses[c]
            pooled += masses[c] * squares[c]
    pooled = pooled / mass if pooled > 0 else spread
    for c in range(n_labels):
        squares[c] = squares[c] if squares[c] > pooled else pooled
    return squares


@kernel
def scatter_matrices(columns, weights, offsets, masses, means, scatters):
    """Write the mass, the mean and the scatter matrix of every cluster.

    columns : (d, n), offsets : (k + 1,), masses : (k,), means : (k, d), scatters : (k, d, d)
    """
    n_features = columns.shape[0]
    block = np.empty((n_features, _BLOCK))
    heavy = np.empty(_BLOCK)
    for c in range(masses.shape[0]):
        start, end = offsets[c], offsets[c + 1]
        masses[c] = 0.0
        for i in range(start, end):
            masses[c] += weights[i]
        for j in range(n_features):
            shift = 0.0
            for i in range(start, end):
                shift += weights[i] * (columns[j, i] - columns[j, start])
            means[c, j] = columns[j, start] + shift / masses[c]
        scatters[c] = 0.0
        for first in range(start, end, _BLOCK):
            size = min(_BLOCK, end - first)
            for j in range(n_features):
                for i in range(size):
                    block[j, i] = columns[j, first + i] - means[c, j]
                    heavy[i] = weights[first + i] * block[j, i]
                for m in range(j + 1):
                    scatters[c, j, m] += _dot(heavy, block[m], size)
        for j in range(n_features):
            for m in range(j):
                scatters[c, m, j] = scatters[c, j, m]


@summing_inner
def _dot(a, b, size):
    total = 0.0
    for i in range(size):
        total += a[i] * b[i]
    return total


@kernel
def leave_one_out(columns, weights, offsets, masses, means, scatters, pooled, prior, total, out):
    r"""Write the log likelihood of every sample under the Gaussian of the others of its cluster.

    The covariance of a cluster of n samples is :math:`S = (A + \kappa W) / (n + \kappa)` with its
    scatter matrix A, the pooled covariance W and ``prior`` :math:`\kappa`; the logarithm of the
    share of the cluster is added. One sample is left out, or the row if it weighs less.

    columns, offsets, masses, means, scatters : as in ``scatter_matrices``
    total : the number of all samples
    out : (n,)
    """
    n_features = columns.shape[0]
    factor = np.empty((n_features, n_features))
    block = np.empty((n_features, _BLOCK))
    row, squares = np.empty(_BLOCK), np.empty(_BLOCK)
    for c in range(masses.shape[0]):
        n, count = masses[c], masses[c] + prior
        for j in range(n_features):
            for m in range(j + 1):
                factor[j, m] = (scatters[c, j, m] + prior * pooled[j, m]) / count
        constant = n_features * np.log(2 * np.pi) + _invert_root(factor)
        for first in range(offsets[c], offsets[c + 1], _BLOCK):
            size = min(_BLOCK, offsets[c + 1] - first)
            for j in range(n_features):
                for i in range(size):
                    block[j, i] = columns[j, first + i] - means[c, j]
            _whitened_squares(factor, block, size, row, squares)
            for i in range(size):
                out_of = min(weights[first + i], 1.0)
                ratio = n / (n - out_of)
                left = max(1 - out_of * ratio / count * squares[i], _MIN_SHARE)
                growth = count / (count - out_of)
                out[first + i] = np.log((n - out_of) / (total - out_of)) - 0.5 * (
                    constant
                    + n_features * np.log(growth)
                    + np.log(left)
                    + ratio * ratio * squares[i] / (left * growth)
                )


@inner
def _invert_root(matrix):
    """Replace a lower triangle by the inverse of its Cholesky factor; return log det."""
    n = matrix.shape[0]
    log_det = 0.0
    for j in range(n):
        pivot = matrix[j, j]
        least = _MIN_PIVOT * pivot
        for m in range(j):
            pivot -= matrix[j, m] ** 2
        root = np.sqrt(max(pivot, least))
        log_det += 2 * np.log(root)
        matrix[j, j] = root
        for i in range(j + 1, n):
            value = matrix[i, j]
            for m in range(j):
                value -= matrix[i, m] * matrix[j, m]
            matrix[i, j] = value / root
    invert_lower(matrix)
    return log_det


@inner
def _whitened_squares(factor, block, size, row, squares):
    """Write the squared lengths of samples (d, size) after a product with a lower triangle."""
    squares[:size] = 0.0
    for j in range(block.shape[0]):
        row[:size] = 0.0
        for m in range(j + 1):
            scale = factor[j, m]
            for i in range(size):
                row[i] += scale * block[m, i]
        for i in range(size):
            squares[i] += row[i] * row[i]


@kernel
def halve(columns, weights, mean, axis, precision, prior, means, along, sides):
    """Divide a cluster into two at its mean along an axis, then by 2-means and discriminants.

    Return the smaller of the masses of the two sides.

    precision : (d, d), inverse of the scatter matrix plus ``prior`` pooled covariances
    means : (2, d), along : (n,), workspace
    sides : (n,), output, 0 or 1
    """
    sides[:] = 0
    _assign(columns, axis, _product(axis, mean), along, sides)
    masses, direction, turned = np.empty(2), np.empty(len(axis)), np.empty(len(axis))
    smaller = _side_means(columns, weights, sides, masses, means)
    for is_linear in (False, True):
        for _ in range(_MOST_DISCRIMINANTS if is_linear else _MOST_MEANS):
            if smaller <= 0:
                return smaller
            for j in range(direction.shape[0]):
                direction[j] = means[1, j] - means[0, j]
            offset = 0.0
            if is_linear:
                n = masses[0] + masses[1]
                for j in range(turned.shape[0]):
                    turned[j] = _product(precision[j], direction)
                between = masses[0] * masses[1] / n * _product(direction, turned)
                scale = (n + prior) / max(1 - between, _MIN_SHARE)
                for j in range(direction.shape[0]):
                    direction[j] = scale * turned[j]
                offset = np.log(masses[1] / masses[0])
            middle = 0.5 * (_product(direction, means[0]) + _product(direction, means[1]))
            if not _assign(columns, direction, middle - offset, along, sides):
                break
            smaller = _side_means(columns, weights, sides, masses, means)
    return smaller


@inner
def _product(a, b):
    total = 0.0
    for j in range(a.shape[0]):
        total += a[j] * b[j]
    return total


@inner
def _assign(columns, direction, threshold, along, sides):
    """Write the side of a hyperplane of every sample; return whether any has changed."""
    along[:] = 0.0
    for j in range(columns.shape[0]):
        for i in range(columns.shape[1]):
            along[i] += direction[j] * columns[j, i]
    changed = False
    for i in range(columns.shape[1]):
        side = 1 if along[i] > threshold else 0
        if side != sides[i]:
            changed = True
            sides[i] = side
    return changed


@inner
def _side_means(columns, weights, sides, masses, means):
    """Write the masses and the means of two sides; return the smaller mass."""
    masses[:] = 0.0
    means[:] = 0.0
    for i in range(columns.shape[1]):
        masses[sides[i]] += weights[i]
    if min(masses[0], masses[1]) <= 0:
        return 0.0
    for j in range(columns.shape[0]):
        for i in range(columns.shape[1]):
            means[sides[i], j] += weights[i] * columns[j, i]
        means[0, j] /= masses[0]
        means[1, j] /= masses[1]
    return min(masses[0], masses[1])


@kernel
def valley_depth(along, weights, ends, width, bins):
    r"""Return the depth of the valley between two values, in standard errors.

    With the lowest density V between the ends and the lower P of the highest densities on either
    side of it, the depth is :math:`(P - V) / \sqrt{(P + V) / (2 \sqrt{\pi} h n)}`. The density has
    Gaussian kernels of width h; the first bin is three pooled standard deviations before the end.

    along, weights : (n,)
    ends : low end and high end, in bins of a quarter of ``width``
    bins : (n_bins,), workspace
    """
    n_bins = bins.shape[0]
    step = 0.25 * width
    bins[:] = 0.0
    mass = 0.0
    for i in range(along.shape[0]):
        mass += weights[i]
        place = along[i] / step
        if 0 <= place < n_bins - 1:
            cell = np.int64(place)
            part = place - cell
            bins[cell] += weights[i] * (1 - part)
            bins[cell + 1] += weights[i] * part
    heights = np.zeros(n_bins)
    for k in range(17):
        tap = np.exp(-0.5 * (0.25 * k) ** 2) / (np.sqrt(2 * np.pi) * width * mass)
        for b in range(n_bins - k):
            heights[b] += tap * bins[b + k]
            if k > 0:
                heights[b + k] += tap * bins[b]
    lowest = ends[0]
    for b in range(ends[0], ends[1] + 1):
        if heights[b] < heights[lowest]:
            lowest = b
    valley = heights[lowest]
    before, after = valley, valley
    for b in range(n_bins):
        if b < lowest and heights[b] > before:
            before = heights[b]
        if b > lowest and heights[b] > after:
            after = heights[b]
    peak = min(before, after)
    if peak <= 0:
        return 0.0
    return (peak - valley) / np.sqrt((peak + valley) / (2 * np.sqrt(np.pi) * width * mass))


@kernel
def contact_mass(X, weights, core, some, others, enough):
    """Return the mass of rows of one piece with a row of another within their core distance.

    X : (N, d), weights, core : (N,), some, others : rows; counting stops at ``enough``
    """
    mass = 0.0
    for i in some:
        limit = core[i] ** 2
        for k in others:
            square = 0.0
            for j in range(X.shape[1]):
                square += (X[i, j] - X[k, j]) ** 2
                if square > limit:
                    break
            if square <= limit:
                mass += weights[i]
                break
        if mass >= enough:
            break
    return mass

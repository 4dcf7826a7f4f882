"""Conditional kernels of many rows, in which most kernels have a negligible share.

The kernels of row ``r`` are the entries ``starts[r]`` to ``starts[r + 1] - 1`` of arrays that hold
the rows one after another.
"""

from math import erfc

import numpy as np

from .compile import ZERO, allocating_inner, inner, kernel

_ROOT_HALF = 0.7071067811865476
_ROOT_2PI = 2.5066282746310002
#: Beyond this many standard deviations, all or nothing of a kernel is below a point.
_FAR = 8.3
_FAR_SQUARE = _FAR * _FAR
#: Terms below exp(-40) of the largest are lost in a sum.
_LOST = -40.0
#: The end of a search for a quantile, in standard deviations of the narrowest kernel.
_CLOSE = 1e-10
_MAX_STEPS = 200
#: Kernels of a smaller share, relative to the largest one, do not refine or widen a grid.
_REFINING = 1e-8
#: A kernel refines a grid up to this many standard deviations from its mean.
_REACH = 6.5


@kernel
def active_kernels(
    values,
    images,
    log_heights,
    means,
    features,
    groups,
    factors,
    negligible,
    logs,
    starts,
    chosen,
    log_shares,
    moved,
):
    """Write the kernels of rows whose share is not negligible, and return their number.

    values : (P, n_given), given values, or all latent coordinates of those
    images : (R + 1,), row ``r`` has the values ``images[r]`` to ``images[r + 1] - 1``
    log_heights, groups : (K,), the first the log weights and log determinants of given features
    means, features, factors : (K, M), (M,), (G, M, M), as in :mod:`.conditioning`
    negligible : the share, in log, relative to the largest one, below which kernels are left out
    logs : (S, K), workspace for rows of up to S values
    starts : (R + 1,)
    chosen, log_shares, moved : (P K,), (P K,), (P K, n_free), the kernel, the log share and the
        conditional mean of every entry
    """
    n_kernels = means.shape[0]
    n = ZERO
    starts[0] = 0
    for r in range(starts.shape[0] - 1):
        top = -np.inf
        for p in range(images[r], images[r + 1]):
            top = max(top, _log_shares(values, p, p - images[r], log_heights, means, features,
                                       groups, factors, logs))  # fmt: skip
        first, total = n, 0.0
        for p in range(images[r], images[r + 1]):
            for k in range(n_kernels):
                log = logs[p - images[r], k] - top
                if log >= negligible:
                    chosen[n], log_shares[n] = k, log
                    _move(values, p, means, k, features, factors, groups[k], moved, n)
                    total += np.exp(log)
                    n += 1
        for e in range(first, n):
            log_shares[e] -= np.log(total)
        starts[r + 1] = n
    return n


@inner
def _log_shares(values, p, at, log_heights, means, features, groups, factors, logs):
    """Write the log densities of kernels at given values, and return the largest."""
    n_features, n_given = features.shape[0], values.shape[1]
    n_free = n_features - n_given
    top = -np.inf
    for k in range(means.shape[0]):
        g, square = groups[k], 0.0
        for j in range(n_free, n_features):
            part = 0.0
            for i in range(j, n_features):
                part += (values[p, i - n_free] - means[k, features[i]]) * factors[g, i, j]
            square += part * part
        logs[at, k] = log_heights[k] - 0.5 * square
        if logs[at, k] > top:
            top = logs[at, k]
    return top


@inner
def _move(values, p, means, k, features, factors, g, moved, n):
    """Write the conditional mean of a kernel."""
    n_free = moved.shape[1]
    for j in range(n_free):
        moved[n, j] = means[k, features[j]]
        for i in range(n_free, features.shape[0]):
            moved[n, j] += (values[p, i - n_free] - means[k, features[i]]) * factors[g, i, j]


@kernel
def row_log_sums(points, rows, starts, log_heights, means, triangles, groups, work, out):
    """Write the logs of the sums of the kernels of rows at points, without the constant.

    points, rows : (P, n_free), (P,), points and the row of each
    log_heights, means, groups : (E,), (E, n_free), (E,), of all entries
    triangles : (G, n_free, n_free), lower triangles that map kernels to unit Gaussians
    work : (S,), for rows of up to S kernels
    out : (P,)
    """
    for p in range(points.shape[0]):
        start, end = starts[rows[p]], starts[rows[p] + 1]
        top = _exponents(points, p, start, end, log_heights, means, triangles, groups, work)
        total = 0.0
        for e in range(end - start):
            if work[e] - top > _LOST:
                total += np.exp(work[e] - top)
        out[p] = top + np.log(total) if top > -np.inf else top


@inner
def _exponents(points, p, start, end, log_heights, means, triangles, groups, work):
    """Write the logs of kernels at a point, and return the largest."""
    top, n_free = -np.inf, points.shape[1]
    for e in range(start, end):
        g, square = groups[e], 0.0
        for j in range(n_free):
            part = 0.0
            for i in range(j, n_free):
                part += (points[p, i] - means[e, i]) * triangles[g, i, j]
            square += part * part
        work[e - start] = log_heights[e] - 0.5 * square
        if work[e - start] > top:
            top = work[e - start]
    return top


@kernel
def row_slopes(
    points, rows, starts, log_heights, means, triangles, precisions, groups, work, slopes, scales
):
    """Write the gradients of log sums at points, and the mean precisions of the kernels there.

    precisions : (G, n_free, n_free), those of the kernels
    slopes, scales : (P, n_free), (P, n_free, n_free)
    The other arguments are those of :func:`row_log_sums`.
    """
    n_free = points.shape[1]
    for p in range(points.shape[0]):
        start, end = starts[rows[p]], starts[rows[p] + 1]
        top = _exponents(points, p, start, end, log_heights, means, triangles, groups, work)
        total = 0.0
        for i in range(n_free):
            slopes[p, i] = 0.0
            for j in range(n_free):
                scales[p, i, j] = 0.0
        for e in range(start, end):
            if work[e - start] - top > _LOST:
                share, g = np.exp(work[e - start] - top), groups[e]
                total += share
                for i in range(n_free):
                    for j in range(n_free):
                        precision = share * precisions[g, i, j]
                        scales[p, i, j] += precision
                        slopes[p, i] += precision * (means[e, j] - points[p, j])
        for i in range(n_free):
            slopes[p, i] /= total
            for j in range(n_free):
                scales[p, i, j] /= total


# One feature


@inner
def _below(u):
    """Return the probability below a normal score."""
    if u > _FAR:
        return 1.0
    return 0.5 * erfc(-u * _ROOT_HALF) if u > -_FAR else 0.0


@kernel
def row_tails(points, rows, starts, shares, means, rates, out):
    """Write the probabilities of rows below points.

    points, rows : (P,), (P,), values and the row of each
    shares, means, rates : (E,), of all entries; rates are one over standard deviations
    out : (P,)
    """
    for p in range(points.shape[0]):
        total = 0.0
        for e in range(starts[rows[p]], starts[rows[p] + 1]):
            total += shares[e] * _below((points[p] - means[e]) * rates[e])
        out[p] = min(total, 1.0)


@kernel
def row_heights(points, rows, starts, shares, means, rates, out):
    """Write the densities of rows at points; the arguments are those of :func:`row_tails`."""
    for p in range(points.shape[0]):
        total = 0.0
        for e in range(starts[rows[p]], starts[rows[p] + 1]):
            u = (points[p] - means[e]) * rates[e]
            if u * u < _FAR_SQUARE:
                total += shares[e] * rates[e] * np.exp(-0.5 * u * u)
        out[p] = total / _ROOT_2PI


@kernel
def grid_heights(nodes, node_starts, starts, shares, means, rates, out):
    """Write the densities of rows at the nodes of their grids.

    nodes, node_starts : (N,), (R + 1,), ascending in every row
    out : (N,), zero beyond the reach of all kernels
    """
    out[:] = 0.0
    for r in range(starts.shape[0] - 1):
        for e in range(starts[r], starts[r + 1]):
            n = _first_from(nodes, node_starts[r], node_starts[r + 1], means[e] - _REACH / rates[e])
            height, last = shares[e] * rates[e] / _ROOT_2PI, means[e] + _REACH / rates[e]
            while n < node_starts[r + 1] and nodes[n] < last:
                u = (nodes[n] - means[e]) * rates[e]
                out[n] += height * np.exp(-0.5 * u * u)
                n += 1


@kernel
def grid_tails(nodes, node_starts, starts, shares, means, rates, out):
    """Write the probabilities of rows below the nodes of their grids."""
    out[:] = 0.0
    for r in range(starts.shape[0] - 1):
        end = node_starts[r + 1]
        for e in range(starts[r], starts[r + 1]):
            n = _first_from(nodes, node_starts[r], end, means[e] - _FAR / rates[e])
            last = means[e] + _FAR / rates[e]
            while n < end and nodes[n] < last:
                out[n] += shares[e] * _below((nodes[n] - means[e]) * rates[e])
                n += 1
            while n < end:
                out[n] += shares[e]
                n += 1


@inner
def _first_from(nodes, first, last, value):
    """Return the first of ascending nodes that is not below a value."""
    while first < last:
        middle = (first + last) // 2
        if nodes[middle] < value:
            first = middle + 1
        else:
            last = middle
    return first


@kernel
def row_quantiles(q, scores, starts, shares, means, rates, out):
    """Write quantiles of all rows, by Newton's method safeguarded by bisection.

    q, scores : (N,), probabilities between 0 and 1, and their normal scores
    out : (R, N)
    """
    for r in range(out.shape[0]):
        for i in range(q.shape[0]):
            # The quantile is between the least and the largest one of a kernel.
            low, high, x, narrowest = np.inf, -np.inf, 0.0, np.inf
            for e in range(starts[r], starts[r + 1]):
                own = means[e] + scores[i] / rates[e]
                low, high, x = min(low, own), max(high, own), x + shares[e] * own
                narrowest = min(narrowest, 1.0 / rates[e])
            x = min(max(x, low), high)
            out[r, i] = _solved(q[i], x, low, high, _CLOSE * narrowest, starts[r], starts[r + 1],
                                shares, means, rates)  # fmt: skip


@inner
def _solved(q, x, low, high, close, start, end, shares, means, rates):
    """Return the value between two others that has a probability below it."""
    size = np.inf
    for _ in range(_MAX_STEPS):
        below, height = 0.0, 0.0
        for e in range(start, end):
            u = (x - means[e]) * rates[e]
            below += shares[e] * _below(u)
            if abs(u) < _FAR:
                height += shares[e] * rates[e] * np.exp(-0.5 * u * u)
        if below > q:
            high = x
        else:
            low = x
        step = (q - below) / height * _ROOT_2PI
        if not (low < x + step < high and abs(step) <= 0.5 * size):
            step = 0.5 * (high - low) + low - x
        size = abs(step)
        if size <= close or x + step == x:
            return x + step
        x += step
    return x


@kernel
def grid_nodes(starts, shares, means, rates, step, edges, widths, node_starts, nodes):
    """Write the nodes of a grid for every row, and return their number.

    Nodes are ``step`` standard deviations of the narrowest kernel around them apart.

    edges, widths : (2 S,), (2 S,), workspace for rows of up to S kernels
    node_starts : (R + 1,)
    nodes : (N,), nodes beyond the end of the array are counted only
    """
    n = 0
    node_starts[0] = 0
    for r in range(starts.shape[0] - 1):
        n_edges = _edges(starts[r], starts[r + 1], shares, means, rates, edges, widths)
        x, i = edges[0], 0
        while x < edges[n_edges - 1]:
            if n < nodes.shape[0]:
                nodes[n] = x
            n += 1
            while edges[i + 1] <= x:
                i += 1
            x = max(x + step * widths[i], np.nextafter(x, np.inf))
            # Narrower kernels begin before the next node.
            j = i + 1
            while j < n_edges - 1 and edges[j] < x:
                x = min(x, max(edges[j] + step * widths[j], np.nextafter(edges[j], np.inf)))
                j += 1
        if n < nodes.shape[0]:
            nodes[n] = edges[n_edges - 1]
        n += 1
        node_starts[r + 1] = n
    return n


@allocating_inner
def _edges(start, end, shares, means, rates, edges, widths):
    """Write the ends of kernels, and the least standard deviation between two of them."""
    largest = start
    n = 0
    for e in range(start, end):
        largest = e if shares[e] > shares[largest] else largest
    for e in range(start, end):
        if shares[e] > _REFINING * shares[largest]:
            edges[n], edges[n + 1] = means[e] - _REACH / rates[e], means[e] + _REACH / rates[e]
            n += 2
    edges[:n].sort()
    for i in range(n):
        widths[i] = np.inf
    for e in range(start, end):
        if shares[e] > _REFINING * shares[largest]:
            i = _first_from(edges, 0, n, means[e] - _REACH / rates[e])
            last = means[e] + _REACH / rates[e]
            while i < n and edges[i] < last:
                widths[i] = min(widths[i], 1.0 / rates[e])
                i += 1
    return n

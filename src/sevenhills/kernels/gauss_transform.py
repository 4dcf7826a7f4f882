"""A fast Gauss transform: expansions of sums of kernels in cells, and pruned sums elsewhere.

In the coordinates of a group its kernels are unit Gaussians. Space is cut into cubic cells; in a
cell that many kernels reach, their sum is a Chebyshev series of known error. The sum at a point is
the series of its cell if that error is small relative to the sum. Otherwise the kernels of a tree
are summed, without those that are negligible.
"""

import numpy as np

from .blocks import squared_distances
from .compile import fused_inner, inner, kernel
from .mixture import HIGHEST, LOWEST, TOO_SMALL, split_power, total_of

#: Terms of a series in every feature, fixed so that loops over them are unrolled.
N_TERMS = 16
#: Kernels that are added to moments together, unrolled so that loops over terms vectorize.
BATCH = 4


@kernel
def add_moments(Z, weights, starts, side, basis, products, moments):
    """Add ``sum_k w_k T_a(u_k1) T_b(u_k2) ...`` of every cell, ``u`` being from -1 to 1 in it.

    Z, weights : (N, M), (N,), the kernels, cell by cell
    starts : (C + 1,), the first kernel of every cell
    side : the side of a cell
    basis : (M * BATCH, N_TERMS), workspace, filled with finite numbers
    products : (M, BATCH, N_TERMS**(M - 1)), likewise
    moments : (C, N_TERMS**(M - 1), N_TERMS), changed
    """
    last = Z.shape[1] - 1
    for c in range(moments.shape[0]):
        for start in range(starts[c], starts[c + 1], BATCH):
            for j in range(BATCH):
                k = start + j
                products[0, j, 0] = weights[k] if k < starts[c + 1] else 0.0
                if k < starts[c + 1]:
                    for m in range(last + 1):
                        _chebyshev_at(Z[k, m] / side, basis, m * BATCH + j)
            size = 1
            for m in range(last):
                for j in range(BATCH):
                    for i in range(size):
                        for a in range(N_TERMS):
                            value = products[m, j, i] * basis[m * BATCH + j, a]
                            products[m + 1, j, i * N_TERMS + a] = value
                size *= N_TERMS
            _add_products(products, basis, last, moments, c)


@fused_inner
def _add_products(products, basis, last, moments, c):
    """Add the products of a batch of kernels with the last feature's basis to a cell's moments."""
    row = last * BATCH
    for i in range(moments.shape[1]):
        first, second = products[last, 0, i], products[last, 1, i]
        third, fourth = products[last, 2, i], products[last, 3, i]
        for a in range(moments.shape[2]):
            moments[c, i, a] += (first * basis[row, a] + second * basis[row + 1, a]) + (
                third * basis[row + 2, a] + fourth * basis[row + 3, a]
            )


@fused_inner
def _chebyshev_at(place, out, row):
    """Write the Chebyshev polynomials at a point; cells extend from one integer to the next."""
    u = 2.0 * (place - np.floor(place)) - 1.0
    before = 1.0
    value = u
    out[row, 0] = 1.0
    out[row, 1] = u
    for a in range(2, N_TERMS):
        before, value = value, 2.0 * u * value - before
        out[row, a] = value


@kernel
def translate(tensors, matrices, sources, out):
    """Write the sums of tensors, each multiplied by the matrix of its distance.

    tensors : (S, N_TERMS, K)
    matrices : (n_steps, N_TERMS, N_TERMS), from the first axis of tensors to the last of ``out``
    sources : (T, n_steps), the tensor that is multiplied by every matrix, -1 for none
    out : (T, K, N_TERMS), zeros; changed
    """
    for t in range(sources.shape[0]):
        for step in range(matrices.shape[0]):
            if sources[t, step] >= 0:
                _add_multiplied(tensors, sources[t, step], matrices, step, out, t)


@fused_inner
def _add_multiplied(tensors, s, matrices, step, out, t):
    """Add a tensor, multiplied along its first axis, four terms at a time."""
    for k in range(out.shape[1]):
        for b in range(0, N_TERMS, 4):
            first, second = tensors[s, b, k], tensors[s, b + 1, k]
            third, fourth = tensors[s, b + 2, k], tensors[s, b + 3, k]
            for a in range(out.shape[2]):
                out[t, k, a] += (
                    first * matrices[step, b, a] + second * matrices[step, b + 1, a]
                ) + (third * matrices[step, b + 2, a] + fourth * matrices[step, b + 3, a])


@kernel
def fast_log_sums(
    Y, log_masses, side, n_side, keys, cell_starts, series, errors, boxes, node_starts, tiles,
    log_weights, log_tops, tile_starts, tol, work, bits, values, stack, distances, out,
):  # fmt: skip
    """Write the log sums of all kernels at every point into ``out``, with errors below ``tol``.

    Y : (G, Q, M), the points in the coordinates of every group
    log_masses : (G,), the log of the sum of every group's weights, times its determinant
    side, n_side : the side of a cell, and the number of cells in every direction
    keys, cell_starts : (C,), (G + 1,), the keys of cells with a series, ascending in every group
    series : (C, N_TERMS, N_TERMS**(M - 1)), coefficients for groups whose weights add up to one
    errors : (C,), the largest errors of the series
    boxes, node_starts : (n_nodes, 2, M), (G + 1,), the corners of the nodes of every group's tree
    tiles : (n_tiles, M, S), the kernels in the leaves, in the coordinates of their group
    log_weights, log_tops, tile_starts : (n_tiles, S), (n_tiles,) the largest of them, (G + 1,)
    tol : below one
    work, bits : (3, S), the same memory
    values : (3, G), workspace for the sums, errors and nearest distances of groups
    stack, distances : (depth,), workspace for nodes that wait
    out : (Q,)
    """
    n_groups = Y.shape[0]
    basis = np.empty((1, N_TERMS))
    folded = np.empty((Y.shape[2], series.shape[2]))
    scale = np.max(log_masses)
    log_all = scale + np.log(np.sum(np.exp(log_masses - scale)))
    slack = np.log(0.45 * tol) - log_all
    for i in range(Y.shape[1]):
        for g in range(n_groups):
            values[0, g] = 0.0
            values[1, g] = np.inf
            c = _find_cell(Y, g, i, side, n_side, keys, cell_starts)
            if c >= 0:
                mass = np.exp(log_masses[g] - scale)
                values[0, g] = mass * _series_at(Y, g, i, side, series, c, basis, folded)
                values[1, g] = mass * errors[c]
        total = _settle(values, 0.45 * tol)
        reference = scale
        log_sum = reference + np.log(total) if total > 0.0 else -np.inf
        while True:
            farthest = -2.0 * (slack + log_sum)
            g = _nearest_open_group(Y, i, boxes, node_starts, log_masses, farthest, values)
            if g < 0:
                break
            values[1, g] = 0.0
            reference, total = _walk(
                Y, g, i, boxes, node_starts[g], tiles, log_weights, log_tops, tile_starts[g],
                tile_starts[g + 1], slack, farthest, reference, total, work, bits, stack, distances,
                values[2, g],
            )  # fmt: skip
            log_sum = reference + np.log(total) if total > 0.0 else -np.inf
        out[i] = log_sum


@inner
def _find_cell(Y, g, i, side, n_side, keys, cell_starts):
    """Return the index of the point's cell if it has a series, else -1."""
    start = cell_starts[g]
    end = cell_starts[g + 1]
    if start == end:
        return -1
    key = 0
    half = n_side // 2
    for m in range(Y.shape[2]):
        place = np.floor(Y[g, i, m] / side) + half
        if not (place >= 0.0 and place < n_side):
            return -1
        key = key * n_side + int(place)
    while start < end:
        middle = (start + end) // 2
        if keys[middle] < key:
            start = middle + 1
        else:
            end = middle
    return start if start < cell_starts[g + 1] and keys[start] == key else -1


@inner
def _series_at(Y, g, i, side, series, c, basis, folded):
    """Return the value of a cell's series at a point, one feature after another."""
    _chebyshev_at(Y[g, i, 0] / side, basis, 0)
    _fold_first(series, c, basis, folded)
    size = series.shape[2]
    for m in range(1, Y.shape[2]):
        size //= N_TERMS
        _chebyshev_at(Y[g, i, m] / side, basis, 0)
        for k in range(size):
            total = 0.0
            for a in range(N_TERMS):
                total += basis[0, a] * folded[m - 1, a * size + k]
            folded[m, k] = total
    return folded[Y.shape[2] - 1, 0]


@fused_inner
def _fold_first(series, c, basis, out):
    """Write ``sum_a basis_a series_(c, a, k)``, four terms at a time."""
    for k in range(series.shape[2]):
        out[0, k] = 0.0
    for a in range(0, N_TERMS, 4):
        first, second = basis[0, a], basis[0, a + 1]
        third, fourth = basis[0, a + 2], basis[0, a + 3]
        for k in range(series.shape[2]):
            out[0, k] += (first * series[c, a, k] + second * series[c, a + 1, k]) + (
                third * series[c, a + 2, k] + fourth * series[c, a + 3, k]
            )


@inner
def _settle(values, share):
    """Return the sum over groups whose series are exact enough; give others infinite errors.

    Accepted errors are small relative to a lower bound of the sum.
    """
    least = 0.0
    for g in range(values.shape[1]):
        if values[0, g] > values[1, g]:
            least += values[0, g] - values[1, g]
    budget = share * least if least > TOO_SMALL else -1.0
    total = 0.0
    for g in range(values.shape[1]):
        if values[1, g] <= budget:
            budget -= values[1, g]
            total += values[0, g]
        else:
            values[1, g] = np.inf
    return total if total > 0.0 else 0.0


@inner
def _nearest_open_group(Y, i, boxes, node_starts, log_masses, farthest, values):
    """Return the open group with the largest possible contribution, or -1.

    Groups too far away to matter, or so far that the distance overflows, are closed.
    """
    best = -1
    highest = -np.inf
    for g in range(values.shape[1]):
        if values[1, g] == np.inf:
            distance = _box_distance(Y, g, i, boxes, node_starts[g])
            values[2, g] = distance
            if not distance < np.inf or distance > farthest:
                values[1, g] = 0.0
            elif log_masses[g] - 0.5 * distance > highest:
                highest = log_masses[g] - 0.5 * distance
                best = g
    return best


@inner
def _box_distance(Y, g, i, boxes, node):
    """Return the squared distance of a point from the box of a node."""
    total = 0.0
    for m in range(boxes.shape[2]):
        y = Y[g, i, m]
        gap = boxes[node, 0, m] - y
        gap = gap if gap > y - boxes[node, 1, m] else y - boxes[node, 1, m]
        gap = gap if gap > 0.0 else 0.0
        total += gap * gap
    return total


@inner
def _exponents(Y, g, i, tiles, log_weights, t, reference, work):
    """Write the exponents of a leaf's kernels into ``work[0]``, relative to a reference."""
    squared_distances(Y[g], i, tiles, t, work[0])
    for s in range(tiles.shape[2]):
        value = log_weights[t, s] - 0.5 * work[0, s] - reference
        work[0, s] = value if value > LOWEST else LOWEST


@inner
def _top_exponent(Y, g, i, tiles, log_weights, t):
    """Return the largest exponent of a leaf's kernels."""
    top = -np.inf
    for s in range(tiles.shape[2]):
        total = 0.0
        for m in range(tiles.shape[1]):
            total += (Y[g, i, m] - tiles[t, m, s]) * (Y[g, i, m] - tiles[t, m, s])
        exponent = log_weights[t, s] - 0.5 * total
        top = exponent if exponent > top else top
    return top


@inner
def _walk(
    Y, g, i, boxes, root, tiles, log_weights, log_tops, first_tile, end_tile, slack, farthest,
    reference, total, work, bits, stack, distances, distance,
):  # fmt: skip
    """Add a group's kernels to a sum; return the reference of the sum, and the sum.

    A kernel of weight ``w`` that is left out would add less than ``w`` times exp(slack) of the sum,
    so that all of these together stay below the tolerance.
    """
    n_inner = end_tile - first_tile - 1
    size = tiles.shape[2]
    stack[0] = 0
    distances[0] = distance
    top = 1
    while top > 0:
        top -= 1
        node = stack[top]
        if distances[top] > farthest:
            continue
        if node < n_inner:
            left = _box_distance(Y, g, i, boxes, root + 2 * node + 1)
            right = _box_distance(Y, g, i, boxes, root + 2 * node + 2)
            # The nearer child is visited first.
            far, near = (left, right) if left > right else (right, left)
            second = 2 * node + 1 if left > right else 2 * node + 2
            if far <= farthest:
                stack[top] = second
                distances[top] = far
                top += 1
            stack[top] = 4 * node + 3 - second
            distances[top] = near
            top += 1
            continue
        t = first_tile + node - n_inner
        highest = log_tops[t] - 0.5 * distances[top]
        if total == 0.0 or highest > reference + HIGHEST:
            highest = _top_exponent(Y, g, i, tiles, log_weights, t)
            if highest == -np.inf:
                continue
            if total == 0.0 or highest > reference:
                total *= np.exp(reference - highest) if total > 0.0 else 0.0
                reference = highest
        _exponents(Y, g, i, tiles, log_weights, t, reference, work)
        split_power(work)
        for s in range(size):
            bits[2, s] += bits[1, s] << 52
        total += total_of(work)
        farthest = -2.0 * (slack + reference + np.log(total))
    return reference, total

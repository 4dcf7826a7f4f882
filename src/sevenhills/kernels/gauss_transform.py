"""A fast Gauss transform: expansions of sums of kernels in cells, and pruned sums elsewhere.

In the coordinates of a group its kernels are unit Gaussians. Space is cut into cubic cells; in a
cell that many kernels reach, their sum is a Chebyshev series of known error. The sum at a point is
the series of its cell if that error is small relative to the sum. Otherwise the kernels of a tree
are summed, without those that are negligible.
"""

import numpy as np

from .blocks import squared_distances
from .compile import fused_inner, fused_kernel, inner, kernel
from .mixture import HIGHEST, TOO_SMALL, sum_of_tile

#: Terms of a series in every feature, fixed so that loops over them are unrolled.
N_TERMS = 16


@fused_kernel
def translate(tensors, matrices, sources, out):
    """Write the sums of tensors, each multiplied along its first axis by a matrix.

    tensors : (S, N_TERMS, K)
    matrices : (n_steps, N_TERMS, N_TERMS), from the first axis of tensors to the last of ``out``
    sources : (T, n_steps), the tensor that is multiplied by every matrix, -1 for none
    out : (T, K, N_TERMS), zeros; changed
    """
    for t in range(sources.shape[0]):
        for step in range(matrices.shape[0]):
            s = sources[t, step]
            for k in range(out.shape[1] if s >= 0 else 0):
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
    log_weights, log_tops, tile_starts, log_tol, scale, basis, folded, squares, values, stack,
    distances, out,
):  # fmt: skip
    """Write the log sums of all kernels at every point into ``out``, up to a tolerance.

    Y : (G, Q, M), the points in the coordinates of every group
    log_masses : (G,), the log of the sum of every group's weights, times its determinant
    side, n_side : the side of a cell, and the number of cells in every direction
    keys, cell_starts : (C,), (G + 1,), the keys of cells with a series, ascending in every group
    series : (C, N_TERMS**M), coefficients for groups whose weights add up to one
    errors : (C,), the largest errors of the series
    boxes, node_starts : (n_nodes, 2, M), (G + 1,), the corners of the nodes of every group's tree
    tiles : (n_tiles, M, S), the kernels in the leaves, in the coordinates of their group
    log_weights, log_tops, tile_starts : (n_tiles, S), (n_tiles,) the largest of them, (G + 1,)
    log_tol : the log of the relative error of one kind, of two that add up, below zero
    scale : the largest of ``log_masses``
    basis, folded : (N_TERMS,), (M, N_TERMS**(M - 1)), workspaces for a series
    squares : (S,), workspace
    values : (3, G), workspace for the sums, errors and nearest distances of groups
    stack, distances : (depth,), workspace for nodes that wait
    out : (Q,)
    """
    n_groups = Y.shape[0]
    log_all = 0.0
    for g in range(n_groups):
        log_all += np.exp(log_masses[g] - scale)
    slack = log_tol - (scale + np.log(log_all))
    share = np.exp(log_tol)
    for i in range(Y.shape[1]):
        for g in range(n_groups):
            values[0, g] = 0.0
            values[1, g] = np.inf
            c = _find_cell(Y, g, i, side, n_side, keys, cell_starts)
            if c >= 0:
                mass = np.exp(log_masses[g] - scale)
                values[0, g] = mass * _series_at(Y, g, i, side, series, c, basis, folded)
                values[1, g] = mass * errors[c]
        total = _settle(values, share)
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
                tile_starts[g + 1], slack, farthest, reference, total, squares, stack, distances,
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
        key = key * n_side + np.int64(place)
    while start < end:
        middle = (start + end) // 2
        if keys[middle] < key:
            start = middle + 1
        else:
            end = middle
    return start if start < cell_starts[g + 1] and keys[start] == key else -1


@fused_inner
def _series_at(Y, g, i, side, series, c, basis, folded):
    """Return the value of a cell's series at a point, one feature after another."""
    source = series[c]
    size = source.shape[0]
    for m in range(Y.shape[2]):
        _write_polynomials(Y[g, i, m] / side, basis)
        size //= N_TERMS
        target = folded[m]
        for k in range(size):
            target[k] = 0.0
        # Four terms at a time keep the sums in registers.
        for a in range(0, N_TERMS, 4):
            first, second, third, fourth = basis[a], basis[a + 1], basis[a + 2], basis[a + 3]
            for k in range(a * size, (a + 1) * size):
                target[k - a * size] += (first * source[k] + second * source[k + size]) + (
                    third * source[k + 2 * size] + fourth * source[k + 3 * size]
                )
        source = target
    return source[0]


@fused_inner
def _write_polynomials(place, out):
    """Write the Chebyshev polynomials at a point; cells extend from one integer to the next."""
    u = 2.0 * (place - np.floor(place)) - 1.0
    before = 1.0
    value = u
    out[0] = 1.0
    out[1] = u
    for a in range(2, N_TERMS):
        before, value = value, 2.0 * u * value - before
        out[a] = value


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
def _walk(
    Y, g, i, boxes, root, tiles, log_weights, log_tops, first_tile, end_tile, slack, farthest,
    reference, total, squares, stack, distances, distance,
):  # fmt: skip
    """Add a group's kernels to a sum; return the reference of the sum, and the sum.

    A kernel of weight ``w`` that is left out would add less than ``w`` times exp(slack) of the sum,
    so that all of these together stay below the tolerance.
    """
    n_inner = end_tile - first_tile - 1
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
        squared_distances(Y[g], i, tiles, t, squares)
        if total == 0.0 or highest > reference + HIGHEST:
            highest = -np.inf
            for s in range(squares.shape[0]):
                exponent = log_weights[t, s] - 0.5 * squares[s]
                highest = exponent if exponent > highest else highest
            if highest == -np.inf:
                continue
            if total == 0.0 or highest > reference:
                total *= np.exp(reference - highest) if total > 0.0 else 0.0
                reference = highest
        total += sum_of_tile(squares, log_weights[t], reference)
        farthest = -2.0 * (slack + reference + np.log(total))
    return reference, total

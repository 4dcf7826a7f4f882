"""Silhouettes of many partitions of one ordering, in one pass over the distances.

In the ordering every cluster is made of runs, so the sums of distances that all the partitions
need are sums over runs of elementary segments, the pieces between neighbouring boundaries of any
partition. For a block of rows at a time the distances to all points are added up by segment, and
a binary tree over the segments gives the sum of every distinct run without cancellation.
"""

import numpy as np

from .compile import inner, kernel
from .distances import squared_distances

#: Rows in a block; a number known to the compiler keeps its loops short.
ROWS = 64


@kernel
def sum_segments(X, weights, rows, block, edges, sums, lows, squares):
    """Add up the distances from every row of a block to the points of every segment.

    Parameters
    ----------
    X : (N, M)
        The points in order.
    weights : (N,)
        How many samples every point is.
    rows : (n_blocks, M, ROWS)
        The same points in blocks, feature-major.
    block : int
        The block to take.
    edges : (E + 1,)
        Where the segments begin and the last one ends.
    sums, lows : (2 E, ROWS)
        The sums and minima of distances, a binary tree over the segments.
    squares : (ROWS,)
        Room to work in.
    """
    n_segments = edges.shape[0] - 1
    for e in range(n_segments):
        leaf = n_segments + e
        for s in range(ROWS):
            sums[leaf, s] = 0.0
            lows[leaf, s] = np.inf
        for j in range(edges[e], edges[e + 1]):
            weight = weights[j]
            squared_distances(X, j, rows, block, squares)
            for s in range(ROWS):
                distance = np.sqrt(squares[s])
                sums[leaf, s] += weight * distance
                lows[leaf, s] = distance if distance < lows[leaf, s] else lows[leaf, s]
    for node in range(n_segments - 1, 0, -1):
        left = 2 * node
        right = left + 1
        for s in range(ROWS):
            sums[node, s] = sums[left, s] + sums[right, s]
            lows[node, s] = lows[left, s] if lows[left, s] < lows[right, s] else lows[right, s]


@kernel
def weigh_runs(runs, edges, weights, out):
    """Write the sum of the weights (N,) of the points of every run (R, 3) into ``out``."""
    for r in range(runs.shape[0]):
        out[r] = 0.0
        for i in range(edges[runs[r, 0]], edges[runs[r, 1]]):
            out[r] += weights[i]


@kernel
def sum_runs(runs, sums, lows, run_sums, run_lows):
    """Derive the sum of every run from the tree over segments, and the minimum of noise.

    Parameters
    ----------
    runs : (R, 3)
        First and last + 1 segment of every distinct run, and whether (1 or 0) it is noise. A run
        that begins like the one before it only adds what is new.
    sums, lows : (2 E, ROWS)
        See :func:`sum_segments`.
    run_sums, run_lows : (R, ROWS)
        The sums of distances from every row, and the minima of noise.
    """
    n_segments = sums.shape[0] // 2
    for r in range(runs.shape[0]):
        noise = runs[r, 2]
        left = runs[r, 0] + n_segments
        right = runs[r, 1] + n_segments
        chained = r > 0 and runs[r - 1, 0] == runs[r, 0] and runs[r - 1, 2] == noise
        if chained:
            left = runs[r - 1, 1] + n_segments
        for s in range(ROWS):
            run_sums[r, s] = run_sums[r - 1, s] if chained else 0.0
        for s in range(ROWS * noise):
            run_lows[r, s] = run_lows[r - 1, s] if chained else np.inf
        while left < right:
            if left % 2 == 1:
                _add_node(left, r, noise, sums, lows, run_sums, run_lows)
                left += 1
            if right % 2 == 1:
                right -= 1
                _add_node(right, r, noise, sums, lows, run_sums, run_lows)
            left //= 2
            right //= 2


@inner
def _add_node(node, r, noise, sums, lows, run_sums, run_lows):
    """Add one node of the tree to a run."""
    for s in range(ROWS):
        run_sums[r, s] += sums[node, s]
    for s in range(ROWS * noise):
        run_lows[r, s] = lows[node, s] if lows[node, s] < run_lows[r, s] else run_lows[r, s]


@kernel
def row_silhouettes(
    places, weights, masses, edges, runs, parts, offsets, run_sums, run_lows, own, work, out
):
    """Return, for every partition, the silhouettes of some rows.

    Parameters
    ----------
    places : (n_rows,)
        Where the rows are in the order, ascending; at most as many as a block holds.
    weights : (n_rows,)
        How many samples every row is.
    masses : (R,)
        The sum of the weights of every run.
    edges, runs, run_sums, run_lows
        See above.
    parts : (P, 2)
        The parts of all partitions, in order: run and label, -1 for noise. The parts of a
        cluster have nothing but noise between them.
    offsets : (C + 1,)
        Where the parts of every partition begin.
    own : (ROWS,)
        Room for the label of every row.
    work : (6, ROWS)
        Room for the sum of the distances from every row to its own cluster, for the mass of that,
        for the mean distance to the nearest other cluster, for a sum, and for the sum and the
        minimum of the distances to noise.
    out : (C, 2, ROWS)
        The silhouettes, with every noise point on its own, and with all noise as one.
    """
    for c in range(offsets.shape[0] - 1):
        for s in range(ROWS):
            own[s] = -1
            work[2, s] = np.inf
            work[3, s] = 0.0
            work[4, s] = 0.0
            work[5, s] = np.inf
        noise_mass, mass = 0.0, 0.0
        row = 0
        for p in range(offsets[c], offsets[c + 1]):
            r = parts[p, 0]
            while row < places.shape[0] and places[row] < edges[runs[r, 1]]:
                own[row] = parts[p, 1]
                row += 1
            if parts[p, 1] == -1:
                noise_mass += masses[r]
                for s in range(ROWS):
                    work[4, s] += run_sums[r, s]
                    work[5, s] = run_lows[r, s] if run_lows[r, s] < work[5, s] else work[5, s]
        for p in range(offsets[c], offsets[c + 1]):
            label = parts[p, 1]
            if label == -1:
                continue
            r = parts[p, 0]
            mass += masses[r]
            for s in range(ROWS):
                work[3, s] += run_sums[r, s]
            if p + 2 >= offsets[c + 1] or parts[p + 2, 1] != label:
                outside = 1.0 / mass
                for s in range(ROWS):
                    mean = np.inf if own[s] == label else work[3, s] * outside
                    work[0, s] = work[3, s] if own[s] == label else work[0, s]
                    work[1, s] = mass if own[s] == label else work[1, s]
                    work[2, s] = mean if mean < work[2, s] else work[2, s]
                    work[3, s] = 0.0
                mass = 0.0
        for s in range(places.shape[0]):
            between, noise, nearest = work[2, s], work[4, s], work[5, s]
            # What is left of a cluster without one sample of this point.
            itself = weights[s] if weights[s] < 1.0 else 1.0
            out[c, 0, s] = 0.0
            out[c, 1, s] = 0.0
            if own[s] >= 0:
                within = work[0, s] / (work[1, s] - itself)
                out[c, 0, s] = _silhouette(within, nearest if nearest < between else between)
                if noise_mass > 0.0 and noise < between * noise_mass:
                    between = noise / noise_mass
                out[c, 1, s] = _silhouette(within, between)
            elif noise_mass > itself:
                out[c, 1, s] = _silhouette(noise / (noise_mass - itself), between)


@kernel
def add_rows(weights, values, out, block):
    """Add up weighted values (C, 2, ROWS) of a block of rows into ``out`` (n_blocks, C, 2)."""
    for c in range(values.shape[0]):
        for i in range(2):
            total = 0.0
            for s in range(weights.shape[0]):
                total += weights[s] * values[c, i, s]
            out[block, c, i] = total


@inner
def _silhouette(within, between):
    """How much nearer a point is to its own cluster than to the next, from -1 to 1."""
    larger = within if within > between else between
    return (between - within) / larger if larger > 0.0 else 0.0

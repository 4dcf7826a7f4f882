"""Silhouettes of many partitions of one ordering, in one pass over the distances.

In the ordering every cluster is made of runs, so the sums of distances that all the partitions
need are sums over runs of elementary segments, the pieces between neighboring boundaries of any
partition. For a block of rows at a time the distances to all points are added up by segment, and
a binary tree over the segments gives the sum of every distinct run without cancellation.
"""

import numpy as np

from .compile import fused_inner, inner, kernel

#: Rows in a block, a constant so that the compiler can unroll loops.
ROWS = 64


@kernel
def sum_segments(X, weights, rows, block, edges, sums, lows, squares):
    """Add up the distances from every row of a block to the points of every segment.

    ``X`` (N, M) are the points in order, ``rows`` (n_blocks, M, ROWS) blocks of points, and
    ``edges`` (E + 1,) the starts of the segments, and the end. Output: ``sums``, ``lows``
    (2 E, ROWS), the weighted sums and the minima of distances, as binary trees over the segments.
    ``squares`` (2, ROWS) is a workspace.
    """
    n_segments = edges.shape[0] - 1
    for e in range(n_segments):
        _sum_segment(
            X, weights, rows, block, edges[e], edges[e + 1], sums, lows, squares, n_segments + e
        )
    for node in range(n_segments - 1, 0, -1):
        left = 2 * node
        right = left + 1
        for s in range(ROWS):
            sums[node, s] = sums[left, s] + sums[right, s]
            lows[node, s] = lows[left, s] if lows[left, s] < lows[right, s] else lows[right, s]


@fused_inner
def _sum_segment(X, weights, rows, block, start, end, sums, lows, squares, leaf):
    """Write sums and minima of the distances from every row of a block to the points of a segment.

    Two points at a time share the loads of rows, and two features the loads of squares.
    """
    n_features = X.shape[1]
    for s in range(ROWS):
        sums[leaf, s] = 0.0
        lows[leaf, s] = np.inf
    for i in range(start, end, 2):
        # The last of an odd number of points is its own partner, without weight.
        j = i + 1 if i + 1 < end else i
        weight, other_weight = weights[i], weights[j] * (j - i)
        for s in range(ROWS):
            squares[0, s] = 0.0
            squares[1, s] = 0.0
        odd = n_features % 2
        for m in range(odd):
            p, q = X[i, m], X[j, m]
            for s in range(ROWS):
                a, b = p - rows[block, m, s], q - rows[block, m, s]
                squares[0, s] += a * a
                squares[1, s] += b * b
        for m in range(odd, n_features, 2):
            p, q, r, t = X[i, m], X[j, m], X[i, m + 1], X[j, m + 1]
            for s in range(ROWS):
                a, b = p - rows[block, m, s], q - rows[block, m, s]
                c, d = r - rows[block, m + 1, s], t - rows[block, m + 1, s]
                squares[0, s] += a * a + c * c
                squares[1, s] += b * b + d * d
        for s in range(ROWS):
            a, b = squares[0, s], squares[1, s]
            nearer = a if a < b else b
            lows[leaf, s] = nearer if nearer < lows[leaf, s] else lows[leaf, s]
            sums[leaf, s] += weight * np.sqrt(a) + other_weight * np.sqrt(b)
    for s in range(ROWS):
        lows[leaf, s] = np.sqrt(lows[leaf, s])


@kernel
def sum_runs(runs, sums, lows, run_sums, run_lows):
    """Write sums of distances over runs, and minima over runs of noise, both of shape (R, ROWS).

    ``runs`` (R, 3) are first segment, last + 1, and noise (1 or 0) of distinct runs. A run that
    begins like the one before it only adds the segments that follow.
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
        # A node at either end is added if its parent extends beyond the run.
        while left < right:
            for side in range(2):
                end = right if side == 1 else left
                if end % 2 == 1:
                    node = end - side
                    for s in range(ROWS):
                        run_sums[r, s] += sums[node, s]
                    for s in range(ROWS * noise):
                        low = lows[node, s]
                        run_lows[r, s] = low if low < run_lows[r, s] else run_lows[r, s]
            left = (left + 1) // 2
            right //= 2


@kernel
def row_silhouettes(
    places, weights, masses, edges, runs, parts, offsets, run_sums, run_lows, own, work, out
):
    """Write the silhouettes of some rows for every partition.

    ``places`` (n,) are the positions of at most ROWS rows, ascending, and ``weights`` (ROWS,) their
    weights; ``masses`` (R,) are those of runs. ``parts`` (P, 2) are run and label, -1 for noise, of
    the parts of all partitions, which begin at ``offsets`` (C + 1,); the parts of a cluster have
    nothing but noise between them. Output: ``out`` (C, 2, ROWS), with every noise point on its
    own, and with all noise as one cluster. Workspaces: ``own`` (ROWS,), the label of every row, and
    ``work`` (6, ROWS): the sum of distances to the own cluster, its weight, the mean distance to
    the nearest other cluster, a sum, and the sum and the minimum of distances to noise.
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
        # Without branches, of which the compiler makes vectors.
        for s in range(ROWS):
            between, noise, nearest = work[2, s], work[4, s], work[5, s]
            is_member = own[s] >= 0
            # A point of less than one sample takes only its own weight out of its cluster.
            itself = weights[s] if weights[s] < 1.0 else 1.0
            others = (work[1, s] if is_member else noise_mass) - itself
            within = (work[0, s] if is_member else noise) / others
            to_noise = noise / noise_mass
            nearest = nearest if nearest < between else between
            joined = to_noise if is_member and to_noise < between else between
            alone, joint = _silhouette(within, nearest), _silhouette(within, joined)
            out[c, 0, s] = alone if is_member else 0.0
            out[c, 1, s] = joint if is_member or noise_mass > itself else 0.0


@inner
def _silhouette(within, between):
    """Return the silhouette, from mean distances within the own and to the nearest cluster."""
    larger = within if within > between else between
    share = (between - within) / larger
    return share if larger > 0.0 else 0.0

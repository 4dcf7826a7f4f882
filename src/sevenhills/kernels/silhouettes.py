"""Silhouettes of many partitions of one ordering, in one pass over the distances.

In the ordering every cluster is made of runs, so the sums of distances that all the partitions
need are sums over runs of elementary segments, the pieces between neighbouring boundaries of any
partition. For a block of rows at a time the distances to all points are added up by segment, and
a binary tree over the segments gives the sum of every distinct run without cancellation.
"""

import numpy as np

from .compile import kernel
from .distances import squared_distances


@kernel
def silhouette_block(
    X, rows, block, edges, runs, parts, offsets, sums, lows, run_sums, run_lows, work, out
):
    """Add up, for every partition, the silhouettes of the points of one block of rows.

    Parameters
    ----------
    X : (N, M)
        The points in order.
    rows : (n_blocks, M, S)
        The same points in blocks, feature-major.
    block : int
        The block to score.
    edges : (E + 1,)
        Where the segments begin and the last one ends.
    runs : (R, 3)
        First and last + 1 segment of every distinct run, and whether (1 or 0) it is noise.
    parts : (P, 2)
        The parts of all partitions, in order: run and label, -1 for noise. The parts of a
        cluster have nothing but noise between them.
    offsets : (C + 1,)
        Where the parts of every partition begin.
    sums, lows : (2 E, S)
        Room for the sums and minima of distances from every row, a binary tree over segments.
    run_sums, run_lows : (R, S)
        Room for the same by run; minima of noise only.
    work : (6, S)
        Room for what is known of every row.
    out : (n_blocks, C, 2)
        The sums of silhouettes, with every noise point on its own, and with all noise as one.
    """
    _sum_segments(X, rows, block, edges, sums, lows)
    _sum_runs(runs, sums, lows, run_sums, run_lows)
    size = rows.shape[2]
    start = block * size
    n_rows = X.shape[0] - start if X.shape[0] - start < size else size
    for c in range(offsets.shape[0] - 1):
        _compare_clusters(
            start, n_rows, edges, runs, parts, offsets[c], offsets[c + 1], run_sums, run_lows, work
        )
        single, joint = 0.0, 0.0
        for s in range(n_rows):
            single += work[0, s]
            joint += work[1, s]
        out[block, c, 0] = single
        out[block, c, 1] = joint


@kernel
def _sum_segments(X, rows, block, edges, sums, lows):
    """Add up the distances from every row to the points of every segment."""
    n_segments = edges.shape[0] - 1
    size = rows.shape[2]
    squares = np.empty(size)
    for e in range(n_segments):
        leaf = n_segments + e
        for s in range(size):
            sums[leaf, s] = 0.0
            lows[leaf, s] = np.inf
        for j in range(edges[e], edges[e + 1]):
            squared_distances(X, j, rows, block, squares)
            for s in range(size):
                distance = np.sqrt(squares[s])
                sums[leaf, s] += distance
                lows[leaf, s] = distance if distance < lows[leaf, s] else lows[leaf, s]
    for node in range(n_segments - 1, 0, -1):
        left = 2 * node
        right = left + 1
        for s in range(size):
            sums[node, s] = sums[left, s] + sums[right, s]
            lows[node, s] = lows[left, s] if lows[left, s] < lows[right, s] else lows[right, s]


@kernel
def _sum_runs(runs, sums, lows, run_sums, run_lows):
    """Derive the sum of every run from the tree over segments, and the minimum of noise.

    A run that begins like the one before it only adds what is new.
    """
    n_segments = sums.shape[0] // 2
    size = sums.shape[1]
    for r in range(runs.shape[0]):
        noise = runs[r, 2]
        left = runs[r, 0] + n_segments
        right = runs[r, 1] + n_segments
        if r > 0 and runs[r - 1, 0] == runs[r, 0] and runs[r - 1, 2] == noise:
            left = runs[r - 1, 1] + n_segments
            for s in range(size):
                run_sums[r, s] = run_sums[r - 1, s]
            for s in range(size * noise):
                run_lows[r, s] = run_lows[r - 1, s]
        else:
            for s in range(size):
                run_sums[r, s] = 0.0
            for s in range(size * noise):
                run_lows[r, s] = np.inf
        while left < right:
            if left % 2 == 1:
                _add_node(left, r, noise, sums, lows, run_sums, run_lows)
                left += 1
            if right % 2 == 1:
                right -= 1
                _add_node(right, r, noise, sums, lows, run_sums, run_lows)
            left //= 2
            right //= 2


@kernel
def _add_node(node, r, noise, sums, lows, run_sums, run_lows):
    """Add one node of the tree to a run."""
    for s in range(sums.shape[1]):
        run_sums[r, s] += sums[node, s]
    for s in range(sums.shape[1] * noise):
        run_lows[r, s] = lows[node, s] if lows[node, s] < run_lows[r, s] else run_lows[r, s]


@kernel
def _compare_clusters(start, n_rows, edges, runs, parts, first, last, run_sums, run_lows, work):
    """Write the two silhouettes of every row in one partition into ``work[0]`` and ``work[1]``."""
    own, within, between, total, noise, nearest = (
        work[0],
        work[1],
        work[2],
        work[3],
        work[4],
        work[5],
    )
    size = work.shape[1]
    for s in range(size):
        between[s] = np.inf
        total[s] = 0.0
        noise[s] = 0.0
        nearest[s] = np.inf
    n_noise = 0
    for p in range(first, last):
        r = parts[p, 0]
        low = edges[runs[r, 0]] - start
        high = edges[runs[r, 1]] - start
        for s in range(low if low > 0 else 0, high if high < size else size):
            own[s] = parts[p, 1]
        if parts[p, 1] == -1:
            n_noise += high - low
            for s in range(size):
                noise[s] += run_sums[r, s]
                nearest[s] = run_lows[r, s] if run_lows[r, s] < nearest[s] else nearest[s]
    n_members = 0
    for p in range(first, last):
        label = parts[p, 1]
        if label >= 0:
            r = parts[p, 0]
            n_members += edges[runs[r, 1]] - edges[runs[r, 0]]
            for s in range(size):
                total[s] += run_sums[r, s]
            if p + 2 >= last or parts[p + 2, 1] != label:
                outside, inside = 1.0 / n_members, 1.0 / (n_members - 1)
                n_members = 0
                for s in range(size):
                    mean = total[s] * outside
                    within[s] = total[s] * inside if own[s] == label else within[s]
                    mean = np.inf if own[s] == label else mean
                    between[s] = mean if mean < between[s] else between[s]
                    total[s] = 0.0
    for s in range(n_rows):
        if own[s] == -1:
            work[0, s] = 0.0
            work[1, s] = _silhouette(noise[s] / (n_noise - 1), between[s]) if n_noise > 1 else 0.0
        else:
            a, b = within[s], between[s]
            work[0, s] = _silhouette(a, nearest[s] if nearest[s] < b else b)
            if n_noise > 0 and noise[s] / n_noise < b:
                b = noise[s] / n_noise
            work[1, s] = _silhouette(a, b)


@kernel
def _silhouette(within, between):
    """How much nearer a point is to its own cluster than to the next, from -1 to 1."""
    larger = within if within > between else between
    return (between - within) / larger if larger > 0.0 else 0.0

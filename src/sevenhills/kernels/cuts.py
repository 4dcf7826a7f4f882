"""Cutting an ordering into runs: DBSCAN cuts at a height and xi cuts at steep flanks.

A cut partitions the ordering into runs ``(start, end, label)``, label -1 being noise; runs of
noise are maximal. The rules are those of scikit-learn's ``cluster_optics_dbscan`` and
``cluster_optics_xi``, except that a cluster with a single member becomes noise, and that points
have weights. Written by hand because a hundred cuts in Python take longer than the rest of a fit.

Both kernels fill ``runs`` (n, 3) and ``offsets`` (n_cuts + 1,) from cut number ``done`` on, stop
when the next cut might not fit, and return the number of the first missing cut.
"""

import numpy as np

from .compile import ZERO, inner, kernel

_NOISE = np.int64(-1)
#: Clusters up to this total weight count as a single sample.
_SINGLE = 1.5
#: The weight of a flat stretch may exceed its limit by this, because of rounding.
_ROUNDING = 1e-6


def all_cuts(
    reachability: np.ndarray,
    core: np.ndarray,
    predecessor: np.ndarray,
    weights: np.ndarray,
    heights: np.ndarray,
    steepness: np.ndarray,
    min_samples: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Return runs and offsets of the cuts at all heights, then of those at all steepnesses.

    Arrays are in the order of the points, and predecessors are positions.
    """
    n_points, n_cuts = len(reachability), len(heights) + len(steepness)
    plot = np.append(reachability, np.inf)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = plot[:-1] / plot[1:]
    flanks, found = np.empty((2, n_points), dtype=np.int64), np.empty((n_points, 3), dtype=np.int64)
    between, complements = np.empty(n_points), 1 - steepness
    offsets = np.zeros(n_cuts + 1, dtype=np.int64)
    runs, done = np.empty((8 * n_points + 64, 3), dtype=np.int64), 0
    while True:
        if done < len(heights):
            done = _dbscan_cuts(reachability, core, weights, heights, runs, offsets, done)
        if len(heights) <= done < n_cuts:
            done = _xi_cuts(
                plot, ratio, predecessor, weights, complements, min_samples, flanks, between,
                found, runs, offsets, done,
            )  # fmt: skip
        if done == n_cuts:
            return runs[: offsets[-1]], offsets
        runs = np.concatenate([runs, np.empty_like(runs)])


@kernel
def _dbscan_cuts(reachability, core, weights, heights, runs, offsets, done):
    """Cut at heights: a point above the height starts a cluster if it is core, else it is noise."""
    n_points = reachability.shape[0]
    while done < heights.shape[0] and offsets[done] + n_points + 1 <= runs.shape[0]:
        height = heights[done]
        first = offsets[done]
        count = first
        label, size = _NOISE, 0.0
        for i in range(n_points):
            far = reachability[i] > height
            if far and core[i] <= height:
                count = _demote_single(runs, first, count, label, size)
                label = label if 0.0 < size <= _SINGLE else label + 1
                size = 0.0
            if (far and core[i] > height) or label == -1:
                count = _append(runs, first, count, i, i + 1, _NOISE)
            else:
                count = _append(runs, first, count, i, i + 1, label)
                size += weights[i]
        count = _demote_single(runs, first, count, label, size)
        done += 1
        offsets[done] = count
    return done


@inner
def _append(runs, first, count, start, end, label):
    """Add a run, or lengthen the last one if it has the same label."""
    if count > first and runs[count - 1, 2] == label:
        runs[count - 1, 1] = end
        return count
    runs[count, 0] = start
    runs[count, 1] = end
    runs[count, 2] = label
    return count + 1


@inner
def _demote_single(runs, first, count, label, size):
    """Turn the last cluster into noise if it has one member, joined to adjacent noise."""
    if size == 0.0 or size > _SINGLE:
        return count
    begin = count - 1
    last = begin
    while last >= first and (runs[last, 2] == label or runs[last, 2] == _NOISE):
        if runs[last, 2] == label:
            begin = last
        last -= 1
    end = runs[count - 1, 1]
    return _append(runs, first, begin, runs[begin, 0], end, _NOISE)


@kernel
def _xi_cuts(
    plot, ratio, predecessor, weights, complements, min_samples, flanks, between, found, runs,
    offsets, done,
):  # fmt: skip
    """Match steep descents with steep ascents; of nested clusters the innermost is kept.

    The last cuts are at steepnesses, of which the ``complements`` are given.

    ``flanks`` (2, N) and ``between`` (N,) hold start, end and highest later value of the open
    descents, ``found`` (N, 3) the clusters of a cut by position, labeled by order of appearance.
    """
    n_points, n_before = ratio.shape[0], offsets.shape[0] - 1 - complements.shape[0]
    while done + 1 < offsets.shape[0] and offsets[done] + n_points + 1 <= runs.shape[0]:
        complement = complements[done - n_before]
        n_found = ZERO
        n_open = ZERO
        highest = 0.0
        index = ZERO
        while index < n_points:
            highest = plot[index] if plot[index] > highest else highest
            rising = ratio[index] <= complement
            if not (rising or ratio[index] >= 1 / complement):
                index += 1
                continue
            n_open = _close_descents(plot, complement, highest, flanks, between, n_open)
            start = index
            index = _extend_flank(ratio, weights, complement, start, min_samples, rising)
            if rising:
                for descent in range(n_open - 1, -1, -1):
                    n_found = _match(
                        plot, predecessor, weights, complement, flanks[0, descent],
                        flanks[1, descent], between[descent], start, index, found, n_found,
                    )  # fmt: skip
            else:
                flanks[0, n_open] = start
                flanks[1, n_open] = index
                between[n_open] = 0.0
                n_open += 1
            index += 1
            highest = plot[index]
        first = offsets[done]
        count, end = first, ZERO
        for i in range(n_found):
            if found[i, 0] > end:
                count = _append(runs, first, count, end, found[i, 0], _NOISE)
            end = found[i, 1]
            count = _append(runs, first, count, found[i, 0], end, found[i, 2])
        if n_points > end:
            count = _append(runs, first, count, end, n_points, _NOISE)
        done += 1
        offsets[done] = count
    return done


@inner
def _close_descents(plot, complement, highest, flanks, between, n_open):
    """Drop the descents that the plot has risen above; update the highest value of the others."""
    kept = ZERO
    if highest == np.inf:
        return kept
    for i in range(n_open):
        if highest <= plot[flanks[0, i]] * complement:
            flanks[0, kept] = flanks[0, i]
            flanks[1, kept] = flanks[1, i]
            between[kept] = between[i] if between[i] > highest else highest
            kept += 1
    return kept


@inner
def _extend_flank(ratio, weights, complement, start, min_samples, rising):
    """Return the last steep point of a flank, which ends where it turns or is flat for too long."""
    flat = 0.0
    end = start
    for i in range(start, ratio.shape[0]):
        if (ratio[i] <= complement) if rising else (ratio[i] >= 1 / complement):
            flat = 0.0
            end = i
        elif (ratio[i] > 1) if rising else (ratio[i] < 1):
            return end
        else:
            flat += weights[i]
            if flat > min_samples + _ROUNDING:
                return end
    return end


@inner
def _match(
    plot, predecessor, weights, complement, down_start, down_end, between, up_start, up_end,
    found, n_found,
):  # fmt: skip
    """Add the cluster between a descent and an ascent, if it is valid and overlaps no other."""
    start, end = down_start, up_end
    after = plot[up_end + 1]
    if after * complement < between:
        return n_found
    if plot[down_start] * complement >= after:
        while start < down_end and plot[start + 1] > after:
            start += 1
    elif after * complement >= plot[down_start]:
        while end > up_start and plot[end - 1] > plot[down_start]:
            end -= 1
    while start < end and plot[start] <= plot[end]:
        if start <= predecessor[end] and predecessor[end] < end:
            break
        end -= 1
    if start > down_end or end < up_start:
        return n_found
    size = 0.0
    for i in range(start, end + 1):
        size += weights[i]
        if size > _SINGLE:
            break
    if size <= _SINGLE:
        return n_found
    slot = n_found
    while slot > 0 and found[slot - 1, 0] > end:
        slot -= 1
    if slot > 0 and found[slot - 1, 1] > start:
        return n_found
    for i in range(n_found, slot, -1):
        for j in range(3):
            found[i, j] = found[i - 1, j]
    found[slot, 0] = start
    found[slot, 1] = end + 1
    found[slot, 2] = n_found
    return n_found + 1


@kernel
def first_equals(runs, offsets, first):
    """Write the number of the first cut with the same runs, for every cut, into ``first``.

    The ends of runs are the starts of the next ones.
    """
    for c in range(first.shape[0]):
        start, length = offsets[c], offsets[c + 1] - offsets[c]
        first[c] = c
        for d in range(c):
            if first[d] == d and offsets[d + 1] - offsets[d] == length:
                shift, i = offsets[d] - start, start
                while (
                    i < start + length
                    and runs[i, 0] == runs[i + shift, 0]
                    and runs[i, 2] == runs[i + shift, 2]
                ):
                    i += 1
                if i == start + length:
                    first[c] = d
                    break

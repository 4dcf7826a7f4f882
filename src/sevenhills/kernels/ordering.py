"""The OPTICS ordering without a radius, by a lazily resolved Prim's algorithm.

Each step takes the unordered point of smallest reachability and lets it lower the reachability of
all others. Almost none of that has to be computed.

Two points are *linked* if one is among the nearest neighbors of the other; a point just ordered
makes its offers to the points linked to it at once. Any other point is at least as far from it as
the last of that point's neighbors, the point's *floor*. So the point needs no further offers once
its reachability is below its floor: it is *settled*.

Offers to points that are not settled are found lazily. A point just ordered is a *message* at the
root of the k-d tree, with a lower bound on the reachability that it can offer to any point below.
It goes down the tree to nodes where its bound is small, waits at the others until its bound is
the smallest value known, and is dropped where all points are settled or an earlier message is at
least as good; distances are computed only in the leaves that it reaches. In low dimension the
whole takes about N log N.

Messages wait in lists by the size of their bounds. All messages of one list are due as soon as the
next point's reachability is of that size, so that ties are settled by true values. Messages may
arrive in any order: of equal offers the earliest sender's counts.

Few points are ordered without a tree, by :mod:`.direct_ordering`, with the same results to the bit.
"""

import math
from collections.abc import Callable

import numpy as np

from .blocks import Blocks, squared_distances
from .compile import ZERO, inner, kernel

_NONE = -1
#: scikit-learn rounds distances to 15 decimals.
_DECIMALS = 1e15
#: Margins of bounds for this rounding and for that of sums.
_RELATIVE = 1e-13
_ABSOLUTE = 1e-15
#: The number of lists of messages whose bounds have the same binary exponent.
_FINENESS = 16
#: Binary exponents of the smallest bounds, which share a list, and of the largest number.
_LOWEST, _HIGHEST = -50, 1024
_N_LISTS = (_HIGHEST - _LOWEST + 1) * _FINENESS
#: Messages of a list that lie next to each other in memory: two cache lines.
_CHUNK = 16
#: Distances to less than one in this number of points of a leaf are computed one by one.
_FEW = 8
#: The number of points ordered by one call of a kernel, which cannot be interrupted.
_STEP = 10_000

#: The state of a node: the smallest reachability below it and the index of that point; an upper
#: bound on the final reachability of the unordered points below (ceiling), which senders up to a
#: position in the order give (rank); the least floor of points that are not settled.
_NODE = np.dtype(
    [("smallest", "f8"), ("index", "i8"), ("ceiling", "f8"), ("rank", "i8"), ("floor", "f8")]
)
#: A message, and the node where it waits.
_MESSAGE = np.dtype([("sender", "i4"), ("node", "i4")])


def order_points(
    X: np.ndarray,
    coordinates: np.ndarray,
    blocks: Blocks,
    core: np.ndarray,
    neighbors: np.ndarray,
    ranks: np.ndarray,
    progress: Callable[[float], None] | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return order, reachability and predecessors of points, starting at that of rank zero.

    ``coordinates`` (N, M) are the points in the coordinates of the boxes, ``core`` (N,) the core
    distances and ``neighbors`` (N, K) the nearest points by ascending distance, -1 for none. Of
    points of the same reachability that of the smallest rank (N,) comes first; ranks ascend in
    every leaf. ``progress`` is called with the fraction done.
    """
    n_points, n_nodes = X.shape[0], blocks.lower.shape[0]
    nodes = np.full(n_nodes, np.array((np.inf, n_points, np.inf, n_points, 0.0), dtype=_NODE))
    nodes["index"][0] = 0
    occupied = np.arange(blocks.members.shape[1]) < blocks.sizes[:, None]
    reach, floors = np.where(occupied, np.inf, -np.inf), np.full(occupied.shape, np.inf)
    source = np.full(reach.shape, _NONE)
    home = np.empty(n_points, dtype=np.int64)
    home[blocks.members[occupied]] = np.flatnonzero(occupied)
    starts, links = _link(X, neighbors, home, floors)
    ranked = np.empty(n_points, dtype=np.int64)
    ranked[ranks] = np.arange(n_points)
    order, position, predecessor = np.empty((3, n_points), dtype=np.int64)
    reachability = np.empty(n_points)
    offer = np.rint(core * _DECIMALS) / _DECIMALS
    row, slots = np.empty(reach.shape[1]), np.empty(reach.shape[1], dtype=np.int64)
    stack, trail = np.empty((2, n_nodes), dtype=np.int64)
    lists = np.full(_N_LISTS, _NONE)
    mail, below = np.empty(0, dtype=_MESSAGE), np.empty(0, dtype=np.int64)
    pool = np.array([_NONE, 0, 0])
    done = 0
    while done < n_points:
        if progress is not None:
            progress(done / n_points)
        if pool[1] + n_nodes > len(below):
            mail, below = _enlarge(mail, below, pool, room=n_points // _CHUNK + n_nodes)
        done = _order(
            X, coordinates, core, offer, blocks.columns, blocks.members, blocks.lower,
            blocks.upper, starts, links, floors, nodes, mail, below, pool, lists, home, ranks,
            ranked, reach, source, row, slots, stack, trail, order, position, reachability,
            predecessor, done,
            min(n_points, done + _STEP),
        )  # fmt: skip
    return order, reachability, predecessor


def _link(
    X: np.ndarray, neighbors: np.ndarray, home: np.ndarray, floors: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the starts of the links of every point, and the places of the points linked to.

    Write the floors by place.
    """
    ends = np.zeros(len(X), dtype=np.int64)
    _count_links(X, neighbors, home, ends, floors.reshape(-1))
    np.rint(floors * _DECIMALS, out=floors)
    floors /= _DECIMALS
    starts = np.append(0, np.cumsum(ends))
    ends[:] = starts[:-1]
    links = np.empty(starts[-1], dtype=np.int32)
    _write_links(neighbors, home, ends, links)
    return starts, links


@kernel
def _count_links(X, neighbors, home, counts, floors):
    """Add the number of links of every point to ``counts`` (N,), and write floors by place."""
    for i in range(neighbors.shape[0]):
        last = i
        for k in range(neighbors.shape[1]):
            j = neighbors[i, k]
            if j >= 0:
                last = j
                counts[i] += j != i
                counts[j] += j != i and not _is_neighbor(neighbors, j, i)
        total = 0.0
        for m in range(X.shape[1]):
            step = X[i, m] - X[last, m]
            total += step * step
        floors[home[i]] = np.sqrt(total)


@kernel
def _write_links(neighbors, home, ends, links):
    """Write the places of the points linked to every point; its links end at ``ends`` (N,)."""
    for i in range(neighbors.shape[0]):
        for k in range(neighbors.shape[1]):
            j = neighbors[i, k]
            if j >= 0 and j != i:
                links[ends[i]] = home[j]
                ends[i] += 1
                if not _is_neighbor(neighbors, j, i):
                    links[ends[j]] = home[i]
                    ends[j] += 1


@inner
def _is_neighbor(neighbors, i, j):
    """Whether a point is among the neighbors of another."""
    found = False
    for k in range(neighbors.shape[1]):
        found |= neighbors[i, k] == j
    return found


def _enlarge(
    mail: np.ndarray, below: np.ndarray, pool: np.ndarray, room: int
) -> tuple[np.ndarray, np.ndarray]:
    """Make space for more chunks of messages.

    The pool holds the first free chunk, the number in use, and the first list with any messages.
    """
    used, size = len(below), 2 * len(below) + room
    more = np.arange(used + 1, size + 1)
    more[-1] = pool[0]
    pool[0] = used
    space = np.empty((size - used) * _CHUNK, dtype=_MESSAGE)
    return np.concatenate([mail, space]), np.concatenate([below, more])


@kernel
def _order(
    X, coordinates, core, offer, columns, members, lower, upper, starts, links, floors, nodes, mail,
    below, pool, lists, home, ranks, ranked, reach, source, row, slots, stack, trail, order,
    position, reachability, predecessor, done, stop,
):  # fmt: skip
    """Order points until ``stop`` are ordered or the mail is full; return the number ordered.

    Columns, members, lower and upper are those of the blocks, ``nodes`` (n_nodes,) and ``mail``
    records, ``lists`` (n_lists,) the last messages of lists, and ``below`` (n_chunks,) those before
    the first of a chunk. By leaf and slot, ``reach`` and ``source`` are the reachability so far,
    minus infinity for ordered points, and its sender; ``home`` (N,) is the index of a point in
    these tables, ``ranks`` (N,) its rank, and ``ranked`` (N,) are the points by rank. ``row``,
    ``slots``, ``stack`` and ``trail`` are workspaces, the last arrays the output.
    """
    leaf_size = reach.shape[1]
    first_leaf = reach.shape[0] - 1
    while done < stop and pool[1] + nodes.shape[0] <= below.shape[0]:
        due = _list_of(nodes[0].smallest)
        while pool[2] <= due and lists[pool[2]] == _NONE:
            pool[2] += 1
        if pool[2] <= due:
            message = lists[pool[2]]
            lists[pool[2]] = message - 1
            if message % _CHUNK == 0:
                chunk = message // _CHUNK
                lists[pool[2]] = below[chunk]
                below[chunk] = pool[0]
                pool[0] = chunk
                pool[1] -= 1
            sender = np.int64(mail[message].sender)
            node = np.int64(mail[message].node)
        else:
            sender = ranked[nodes[0].index]
            node = ZERO
            leaf = home[sender] // leaf_size
            slot = home[sender] % leaf_size
            order[done] = sender
            position[sender] = done
            reachability[sender] = reach[leaf, slot]
            predecessor[sender] = source[leaf, slot]
            reach[leaf, slot] = -np.inf
            for link in range(starts[sender], starts[sender + 1]):
                _offer(sender, links[link], X, core, offer, members, ranks, reach, source, nodes)
            _summarize_leaf(first_leaf + leaf, leaf, done, members, ranks, reach, floors, nodes)
            _climb(first_leaf + leaf, nodes)
            done += 1
            due = _list_of(nodes[0].smallest)
        _spread(
            node, sender, due, done, X, coordinates, core, offer, columns, members, ranks, lower,
            upper, floors, nodes, mail, below, pool, lists, reach, source, position, row, slots,
            stack, trail,
        )  # fmt: skip
    return done


@inner
def _list_of(bound):
    """Return the number of the list for messages of a bound."""
    if bound == np.inf:
        return _N_LISTS - 1
    mantissa, exponent = math.frexp(bound)
    if bound == 0.0 or exponent < _LOWEST:
        return 0
    return (exponent - _LOWEST) * _FINENESS + int((2.0 * mantissa - 1.0) * _FINENESS)


@inner
def _offer(sender, place, X, core, offer, members, ranks, reach, source, nodes):
    """Lower the reachability of a linked point, and that of the nodes above it."""
    leaf = place // reach.shape[1]
    slot = place - leaf * reach.shape[1]
    if reach[leaf, slot] <= offer[sender]:
        return
    point = members[leaf, slot]
    value = _reachability(_squared_distance(X, sender, point), core[sender])
    if value < reach[leaf, slot]:
        reach[leaf, slot] = value
        source[leaf, slot] = sender
        node = leaf + reach.shape[0]
        while node > 0:
            node -= 1
            if value > nodes[node].smallest or (
                value == nodes[node].smallest and ranks[point] > nodes[node].index
            ):
                break
            nodes[node].smallest = value
            nodes[node].index = ranks[point]
            node = (node + 1) // 2


@inner
def _squared_distance(X, i, j):
    """Return the squared distance of two points, to the bit that of :func:`squared_distances`."""
    total = 0.0
    for m in range(X.shape[1]):
        step = X[i, m] - X[j, m]
        total += step * step
    return total


@inner
def _reachability(square, core):
    """Return the reachability that a point of a core distance offers at a squared distance."""
    distance = np.sqrt(square)
    return np.rint((distance if distance > core else core) * _DECIMALS) / _DECIMALS


@inner
def _spread(
    start, sender, due, latest, X, coordinates, core, offer, columns, members, ranks, lower, upper,
    floors, nodes, mail, below, pool, lists, reach, source, position, row, slots, stack, trail,
):  # fmt: skip
    """Pass a message on from a node to all leaves below where it is due.

    Elsewhere the message waits, unless it is useless for all points below.
    """
    first_leaf = reach.shape[0] - 1
    stack[0] = start
    n_open, n_passed, n_applied = 1, 0, 0
    while n_open > 0:
        n_open -= 1
        node = stack[n_open]
        bound = _bound(node, coordinates, sender, position, offer, lower, upper, nodes)
        if bound == np.inf:
            continue
        when = _list_of(bound)
        if when > due:
            _leave(node, sender, when, mail, below, pool, lists)
        elif node < first_leaf:
            trail[n_passed] = node
            n_passed += 1
            stack[n_open] = 2 * node + 1
            stack[n_open + 1] = 2 * node + 2
            n_open += 2
        else:
            leaf = node - first_leaf
            _apply(
                sender, bound, leaf, X, core, columns, members, position, row, slots, floors, reach,
                source,
            )  # fmt: skip
            _summarize_leaf(node, leaf, latest, members, ranks, reach, floors, nodes)
            n_applied += 1
    if n_applied > 0:
        for i in range(n_passed - 1, -1, -1):
            _summarize(trail[i], nodes)
        _climb(start, nodes)


@inner
def _bound(node, coordinates, sender, position, offer, lower, upper, nodes):
    """Return a lower bound on a sender's offers below a node; infinity if all are useless.

    The upper bound on these offers may lower the node's ceiling.
    """
    near, far = 0.0, 0.0
    for m in range(coordinates.shape[1]):
        below = coordinates[sender, m] - lower[node, m]
        above = upper[node, m] - coordinates[sender, m]
        gap = below if below < above else above
        if gap < 0.0:
            near += gap * gap
        gap = above if below < above else below
        far += gap * gap
    ceiling = nodes[node].ceiling
    low = np.sqrt(near) * (1.0 - _RELATIVE) - _ABSOLUTE
    low = low if low > offer[sender] else offer[sender]
    low = low if low > nodes[node].floor else nodes[node].floor
    if low > ceiling or (low == ceiling and position[sender] > nodes[node].rank):
        return np.inf
    if far < ceiling * ceiling:
        high = np.sqrt(far) * (1.0 + _RELATIVE) + _ABSOLUTE
        high = high if high > offer[sender] else offer[sender]
        if high < ceiling:
            nodes[node].ceiling = high
            nodes[node].rank = position[sender]
    return low


@inner
def _leave(node, sender, when, mail, below, pool, lists):
    """Leave a message at a node."""
    message = lists[when] + 1
    if message % _CHUNK == 0:
        chunk = pool[0]
        pool[0] = below[chunk]
        pool[1] += 1
        below[chunk] = message - 1
        message = chunk * _CHUNK
    mail[message].sender = sender
    mail[message].node = node
    lists[when] = message
    pool[2] = when if when < pool[2] else pool[2]


@inner
def _apply(
    sender, bound, leaf, X, core, columns, members, position, row, slots, floors, reach, source
):
    """Lower the reachability of the points of a leaf by the offers of one sender."""
    n_open = 0
    for i in range(reach.shape[1]):
        slots[n_open] = i
        n_open += reach[leaf, i] >= bound and reach[leaf, i] >= floors[leaf, i]
    if n_open * _FEW > reach.shape[1]:
        squared_distances(X, sender, columns, leaf, row)
    else:
        for j in range(n_open):
            row[slots[j]] = _squared_distance(X, sender, members[leaf, slots[j]])
    for j in range(n_open):
        i = slots[j]
        if row[i] * (1.0 - _RELATIVE) - _ABSOLUTE > reach[leaf, i] * reach[leaf, i]:
            continue
        value = _reachability(row[i], core[sender])
        if value < reach[leaf, i] or (
            value == reach[leaf, i] and position[sender] < position[source[leaf, i]]
        ):
            reach[leaf, i] = value
            source[leaf, i] = sender


@inner
def _climb(node, nodes):
    """Update all ancestors of a node."""
    while node > 0:
        node = (node - 1) // 2
        _summarize(node, nodes)


@inner
def _summarize(node, nodes):
    """Derive the state of an inner node from its children."""
    left = 2 * node + 1
    right = left + 1
    best = left
    if nodes[right].smallest < nodes[left].smallest or (
        nodes[right].smallest == nodes[left].smallest and nodes[right].index < nodes[left].index
    ):
        best = right
    nodes[node].smallest = nodes[best].smallest
    nodes[node].index = nodes[best].index
    worst = left
    if nodes[right].ceiling > nodes[left].ceiling or (
        nodes[right].ceiling == nodes[left].ceiling and nodes[right].rank > nodes[left].rank
    ):
        worst = right
    if nodes[worst].ceiling <= nodes[node].ceiling:
        nodes[node].ceiling = nodes[worst].ceiling
        nodes[node].rank = nodes[worst].rank
    floor = nodes[left].floor
    nodes[node].floor = floor if floor < nodes[right].floor else nodes[right].floor


@inner
def _summarize_leaf(node, leaf, latest, members, ranks, reach, floors, nodes):
    """Derive the state of a leaf from its points."""
    smallest, largest, floor, slot = np.inf, -np.inf, np.inf, -1
    for i in range(reach.shape[1]):
        value = reach[leaf, i]
        largest = value if value > largest else largest
        if value < smallest and value != -np.inf:
            smallest = value
            slot = i
        if value >= floors[leaf, i] and floors[leaf, i] < floor:
            floor = floors[leaf, i]
    nodes[node].smallest = smallest
    nodes[node].index = ranks[members[leaf, slot]] if slot >= 0 else members.size
    nodes[node].floor = floor
    if largest <= nodes[node].ceiling:
        nodes[node].ceiling = largest
        nodes[node].rank = latest

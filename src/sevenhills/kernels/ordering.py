"""The OPTICS ordering without a radius, by a lazily resolved Prim's algorithm.

Each step takes the unordered point of smallest reachability and lets it lower the reachability of
all others. Almost none of that has to be computed.

Two points are *linked* if one is among the nearest neighbors of the other; a point just ordered
makes its offers to the points linked to it at once. Any other point is at least as far from it as
the last of that point's neighbors, the point's *floor*. So the point needs no further offers once
its reachability is below its floor: it is *settled*.

In the plane nearly every point is *surrounded*: for each place beyond its floor, a neighbor is
nearer, and offers less. The point's offers bring all its neighbors into the order before it could
bring such a place, so that it needs no offers but those to its neighbors.

Other offers to points that are not settled are found lazily. A point just ordered is a *message*
at the root of the k-d tree, with a lower bound on the reachability that it can offer to any point
below. It goes down the tree to nodes where its bound is small, waits at the others until its bound
is the smallest value known, and is dropped where all points are settled or an earlier message is at
least as good; distances are computed only in the leaves that it reaches. In low dimension the whole
takes about N log N.

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
#: The margin, relative to the width of all points, by which neighbors of a surrounded point are
#: nearer: far above rounding.
_SLACK = 1e-12
_HALF = math.sqrt(0.5)
#: Directions that divide the plane into eight sectors.
_RAYS = (
    (1.0, 0.0), (_HALF, _HALF), (0.0, 1.0), (-_HALF, _HALF),
    (-1.0, 0.0), (-_HALF, -_HALF), (0.0, -1.0), (_HALF, -_HALF),
)  # fmt: skip
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
    floors: np.ndarray,
    surrounded: np.ndarray,
    ranks: np.ndarray,
    progress: Callable[[float], None] | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return order, reachability and predecessors of points, starting at that of rank zero.

    The points ``X`` (N, M) are given leaf by leaf, and ``coordinates`` (N, M) are those in the
    coordinates of the boxes. ``core`` (N,) are the core distances and ``neighbors`` (N, K) the
    nearest points by ascending distance, -1 for none; see :func:`find_floors` for ``floors`` and
    ``surrounded``. Of points of the same reachability that of the smallest rank (N,) comes first;
    ranks ascend in every leaf. ``progress`` is called with the fraction done.
    """
    n_points, n_nodes, n_leaves = X.shape[0], blocks.lower.shape[0], len(blocks.sizes)
    nodes = np.full(n_nodes, np.array((np.inf, n_points, np.inf, n_points, 0.0), dtype=_NODE))
    nodes["index"][0] = 0
    firsts = np.append(0, np.cumsum(blocks.sizes))
    leaves = np.repeat(np.arange(n_leaves), blocks.sizes)
    reach, source = np.full(n_points, np.inf), np.full(n_points, _NONE)
    starts, links = _link(neighbors, surrounded)
    ranked = np.empty(n_points, dtype=np.int64)
    ranked[ranks] = np.arange(n_points)
    order, position, predecessor = np.empty((3, n_points), dtype=np.int64)
    reachability = np.empty(n_points)
    offer = np.rint(core * _DECIMALS) / _DECIMALS
    leaf_size = blocks.members.shape[1]
    row, slots = np.empty(leaf_size), np.empty(leaf_size, dtype=np.int64)
    stack = np.empty(n_nodes, dtype=np.int64)
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
            X, coordinates, core, offer, neighbors, surrounded, starts, links, floors,
            blocks.columns, firsts, leaves, blocks.lower, blocks.upper, nodes, mail, below, pool,
            lists, ranks, ranked, reach, source, row, slots, stack, order, position, reachability,
            predecessor, done, min(n_points, done + _STEP),
        )  # fmt: skip
    return order, reachability, predecessor


@kernel
def find_floors(X, core, neighbors, width, floors, surrounded, first, last):
    """Write the ``floors`` (N,) of some points, and which are ``surrounded`` (N,).

    ``width`` is that of all points. A neighbor at u covers a sector if it is nearer to all places
    there beyond the floor f: if r.u > |u|^2 / 2f for both of the rays r that bound the sector.
    """
    slack = _SLACK * (1.0 + width)
    for i in range(first, last):
        farthest = i
        for k in range(neighbors.shape[1]):
            farthest = np.int64(neighbors[i, k]) if neighbors[i, k] >= 0 else farthest
        floor = np.sqrt(_squared_distance(X, i, farthest))
        floors[i] = np.rint(floor * _DECIMALS) / _DECIMALS
        uncovered = 255  # a bit for every sector
        if X.shape[1] == 2 and core[i] + slack < floor:
            for k in range(neighbors.shape[1]):
                j = np.int64(neighbors[i, k])
                if j < 0 or uncovered == 0:
                    break
                square = _squared_distance(X, i, j)
                if core[j] + slack >= floor or np.sqrt(square) + slack >= floor:
                    continue
                least = square / (2.0 * floor) + slack
                sides = 0
                for s in range(8):
                    along = _RAYS[s][0] * (X[j, 0] - X[i, 0]) + _RAYS[s][1] * (X[j, 1] - X[i, 1])
                    sides |= (along > least) << s
                uncovered &= ~(sides & (sides >> 1 | sides << 7))
        surrounded[i] = uncovered == 0


def _link(neighbors: np.ndarray, surrounded: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the starts of every point's links to points not among its neighbors, and these.

    Points that are surrounded have none.
    """
    ends = np.zeros(len(neighbors), dtype=np.int64)
    _collect_links(neighbors, surrounded, ends, np.empty(0, dtype=np.int32))
    starts = np.append(0, np.cumsum(ends))
    ends[:] = starts[:-1]
    links = np.empty(starts[-1], dtype=np.int32)
    _collect_links(neighbors, surrounded, ends, links)
    return starts, links


@kernel
def _collect_links(neighbors, surrounded, ends, links):
    """Add the links to the ``ends`` (N,) of those of every point; write them if there is room."""
    for i in range(neighbors.shape[0]):
        for k in range(neighbors.shape[1]):
            j = neighbors[i, k]
            if j >= 0 and not surrounded[j] and not _is_neighbor(neighbors, j, i):
                if links.shape[0] > 0:
                    links[ends[j]] = i
                ends[j] += 1


@inner
def _is_neighbor(neighbors, i, j):
    """Whether a point is another's neighbor, or the same."""
    found = i == j
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
    X, coordinates, core, offer, neighbors, surrounded, starts, links, floors, columns, firsts,
    leaves, lower, upper, nodes, mail, below, pool, lists, ranks, ranked, reach, source, row, slots,
    stack, order, position, reachability, predecessor, done, stop,
):  # fmt: skip
    """Order points until ``stop`` are ordered or the mail is full; return the number ordered.

    Columns, lower and upper are those of the blocks, ``firsts`` (n_leaves + 1,) the first points of
    leaves, ``leaves`` (N,) the leaves of points, ``nodes`` (n_nodes,) and ``mail`` records,
    ``lists`` (n_lists,) the last messages of lists, and ``below`` (n_chunks,) those before the
    first of a chunk. ``reach`` and ``source`` (N,) are the reachability so far, minus infinity for
    ordered points, and its sender; ``ranks`` (N,) are the ranks of points, and ``ranked`` (N,) the
    points by rank. ``row``, ``slots`` and ``stack`` are workspaces, the last arrays the output.
    """
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
            order[done] = sender
            position[sender] = done
            reachability[sender] = reach[sender]
            predecessor[sender] = source[sender]
            reach[sender] = -np.inf
            n_near = neighbors.shape[1]
            for k in range(n_near + starts[sender + 1] - starts[sender]):
                place = starts[sender] + k - n_near
                point = np.int64(neighbors[sender, k] if k < n_near else links[place])
                if point >= 0 and reach[point] > offer[sender]:
                    _offer(sender, point, X, core, leaves, ranks, reach, source, nodes)
            leaf = leaves[sender]
            _summarize_leaf(leaf, done, firsts, ranks, reach, floors, nodes)
            _climb(nodes.shape[0] // 2 + leaf, nodes)
            done += 1
            if surrounded[sender]:
                continue
            due = _list_of(nodes[0].smallest)
        _spread(
            node, sender, due, done, X, coordinates, core, offer, columns, firsts, ranks, lower,
            upper, floors, nodes, mail, below, pool, lists, reach, source, position, row, slots,
            stack,
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
    return (exponent - _LOWEST) * _FINENESS + np.int64((2.0 * mantissa - 1.0) * _FINENESS)


@inner
def _offer(sender, point, X, core, leaves, ranks, reach, source, nodes):
    """Lower the reachability of a linked point, and that of the nodes above it."""
    value = _reachability(_squared_distance(X, sender, point), core[sender])
    if value < reach[point]:
        reach[point] = value
        source[point] = sender
        node = nodes.shape[0] // 2 + leaves[point] + 1
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
    start, sender, due, latest, X, coordinates, core, offer, columns, firsts, ranks, lower, upper,
    floors, nodes, mail, below, pool, lists, reach, source, position, row, slots, stack,
):  # fmt: skip
    """Pass a message on from a node to all leaves below where it is due.

    Elsewhere the message waits, unless it is useless for all points below.
    """
    first_leaf = nodes.shape[0] // 2
    stack[0] = start
    n_open = 1
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
            stack[n_open] = 2 * node + 1
            stack[n_open + 1] = 2 * node + 2
            n_open += 2
        else:
            leaf = node - first_leaf
            _apply(
                sender, bound, leaf, X, core, columns, firsts, position, row, slots, floors, reach,
                source,
            )  # fmt: skip
            _summarize_leaf(leaf, latest, firsts, ranks, reach, floors, nodes)
            _climb(node, nodes)


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
    sender, bound, leaf, X, core, columns, firsts, position, row, slots, floors, reach, source
):
    """Lower the reachability of the points of a leaf by the offers of one sender."""
    first = firsts[leaf]
    n_open = 0
    for i in range(first, firsts[leaf + 1]):
        slots[n_open] = i
        n_open += reach[i] >= bound and reach[i] >= floors[i]
    if n_open * _FEW > row.shape[0]:
        squared_distances(X, sender, columns, leaf, row)
    else:
        for j in range(n_open):
            row[slots[j] - first] = _squared_distance(X, sender, slots[j])
    for j in range(n_open):
        i = slots[j]
        square = row[i - first]
        if square * (1.0 - _RELATIVE) - _ABSOLUTE > reach[i] * reach[i]:
            continue
        value = _reachability(square, core[sender])
        if value < reach[i] or (value == reach[i] and position[sender] < position[source[i]]):
            reach[i] = value
            source[i] = sender


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
def _summarize_leaf(leaf, latest, firsts, ranks, reach, floors, nodes):
    """Derive the state of a leaf from its points."""
    smallest, largest, floor, point = np.inf, -np.inf, np.inf, -1
    for i in range(firsts[leaf], firsts[leaf + 1]):
        value = reach[i]
        largest = value if value > largest else largest
        # Without branches, which no processor can predict.
        is_next = value < smallest and value != -np.inf
        smallest = value if is_next else smallest
        point = i if is_next else point
        is_lower = value >= floors[i] and floors[i] < floor
        floor = floors[i] if is_lower else floor
    node = nodes.shape[0] // 2 + leaf
    nodes[node].smallest = smallest
    nodes[node].index = ranks[point] if point >= 0 else reach.shape[0]
    nodes[node].floor = floor
    if largest <= nodes[node].ceiling:
        nodes[node].ceiling = largest
        nodes[node].rank = latest

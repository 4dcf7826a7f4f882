"""The OPTICS ordering without a radius, by a lazily resolved Prim's algorithm.

Each step takes the unordered point of smallest reachability and lets it lower the reachability of
all others. Almost none of that has to be computed: a point just ordered is first a *message* at
the root of the k-d tree, with a lower bound on the reachability that it can offer to any point
below. It goes down the tree to nodes where its bound is small, waits at the others until its bound
is the smallest value known, and is dropped where an earlier message is at least as good; distances
are computed only in the leaves that it reaches. In low dimension the whole takes about N log N.

The messages of a node wait in a list. When the smallest of their bounds is due, all messages go on
whose bounds are larger by no more than a factor, so that a list is read a few times only. A node's
*key* is the pair (smallest reachability below it, index of that point), where a waiting message
counts as its bound with index -1: it comes first among equals, so that ties are settled by true
values. When the root's key has a true index, that point is next. Messages may arrive in any order:
of equal offers the earliest sender's counts.

Few points are ordered without a tree, by :mod:`.direct_ordering`, with the same results to the bit.
"""

from collections.abc import Callable

import numpy as np

from .blocks import Blocks, squared_distances
from .compile import inner, kernel

_NONE = -1
#: scikit-learn rounds distances to 15 decimals.
_DECIMALS = 1e15
#: Margins of bounds for this rounding and for that of sums.
_RELATIVE = 1e-13
_ABSOLUTE = 1e-15
#: A message goes on at once to where its bound is larger by this factor at most.
_EAGER = 1.3
#: Distances to less than one in this number of points of a leaf are computed one by one.
_FEW = 8
#: The number of points ordered by one call of a kernel, which cannot be interrupted.
_STEP = 10_000

#: The state of a node: its key (smallest, index); an upper bound on the final reachability of the
#: unordered points below (ceiling), which senders up to a position in the order give (rank); the
#: first of its messages and the least of their bounds.
_NODE = np.dtype(
    [
        ("smallest", "f8"),
        ("index", "i8"),
        ("ceiling", "f8"),
        ("rank", "i8"),
        ("first", "i8"),
        ("least", "f8"),
    ]
)
#: A message, and the next one in the list of a node or in the list of free messages.
_MESSAGE = np.dtype([("bound", "f8"), ("sender", "i4"), ("next", "i4")])


def order_points(
    X: np.ndarray,
    coordinates: np.ndarray,
    blocks: Blocks,
    core: np.ndarray,
    progress: Callable[[float], None] | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return order, reachability and predecessors of points, starting at the first row.

    ``coordinates`` (N, M) are the points in the coordinates of the boxes, ``core`` (N,) the core
    distances; ``progress`` is called with the fraction done.
    """
    n_points, n_nodes = X.shape[0], blocks.lower.shape[0]
    blank = np.array((np.inf, n_points, np.inf, n_points, _NONE, np.inf), dtype=_NODE)
    nodes = np.full(n_nodes, blank)
    nodes["index"][0] = 0
    occupied = np.arange(blocks.members.shape[1]) < blocks.sizes[:, None]
    reach = np.where(occupied, np.inf, -np.inf)
    source = np.full(reach.shape, _NONE)
    home = np.empty(n_points, dtype=np.int64)
    home[blocks.members[occupied]] = np.flatnonzero(occupied)
    order, position, predecessor = np.empty((3, n_points), dtype=np.int64)
    reachability = np.empty(n_points)
    offer = np.rint(core * _DECIMALS) / _DECIMALS
    row, slots = np.empty(reach.shape[1]), np.empty(reach.shape[1], dtype=np.int64)
    stack, trail = np.empty((2, n_nodes), dtype=np.int64)
    mail, pool = np.empty(0, dtype=_MESSAGE), np.array([_NONE, 0])
    done = 0
    while done < n_points:
        if progress is not None:
            progress(done / n_points)
        if pool[1] + 2 * len(reach) > len(mail):
            mail, pool = _enlarge(mail, pool, room=n_points + 2 * len(reach))
        done = _order(
            X, coordinates, core, offer, blocks.columns, blocks.members, blocks.lower,
            blocks.upper, nodes, mail, pool, home, reach, source, row, slots, stack, trail, order,
            position, reachability, predecessor, done, min(n_points, done + _STEP), 0,
        )  # fmt: skip
    return order, reachability, predecessor


def _enlarge(mail: np.ndarray, pool: np.ndarray, room: int) -> tuple[np.ndarray, np.ndarray]:
    """Make space for more messages; the pool holds the first free message and the number in use."""
    used, size = len(mail), 2 * len(mail) + room
    larger = np.empty(size, dtype=_MESSAGE)
    larger[:used] = mail
    larger["next"][used:] = np.arange(used + 1, size + 1)
    larger["next"][-1] = pool[0]
    return larger, np.array([used, pool[1]])


@kernel
def _order(
    X, coordinates, core, offer, columns, members, lower, upper, nodes, mail, pool, home, reach,
    source, row, slots, stack, trail, order, position, reachability, predecessor, done, stop, root,
):  # fmt: skip
    """Order points until ``stop`` are ordered or the mail is full; return the number ordered.

    Columns, members, lower and upper are those of the blocks, ``nodes`` (n_nodes,) and ``mail``
    records. By leaf and slot, ``reach`` and ``source`` are the reachability so far, minus infinity
    for ordered points, and its sender; ``home`` (N,) is the index of a point in these tables.
    ``row``, ``slots``, ``stack`` and ``trail`` are workspaces, the last arrays the output.
    """
    leaf_size = reach.shape[1]
    first_leaf = reach.shape[0] - 1
    node = root
    rival = np.inf
    while done < stop and pool[1] + 2 * reach.shape[0] <= mail.shape[0]:
        if node > 0 and (nodes[node].smallest > rival or nodes[node].index != _NONE):
            # The next point may be elsewhere: search again from the root.
            _climb(node, nodes)
            node = root
            rival = np.inf
        elif nodes[node].index != _NONE:
            # The next point is known.
            point = nodes[root].index
            leaf = home[point] // leaf_size
            slot = home[point] % leaf_size
            order[done] = point
            position[point] = done
            reachability[point] = reach[leaf, slot]
            predecessor[point] = source[leaf, slot]
            reach[leaf, slot] = -np.inf
            _summarize_leaf(first_leaf + leaf, leaf, done, members, reach, nodes)
            _climb(first_leaf + leaf, nodes)
            _spread(
                root, point, _EAGER * offer[point], done, X, coordinates, core, offer, columns,
                members, lower, upper, nodes, mail, pool, reach, source, position, row, slots,
                stack, trail,
            )  # fmt: skip
            done += 1
        elif nodes[node].least > nodes[node].smallest:
            # The next point or message is below; the rival is the best value elsewhere.
            if nodes[node].least < rival:
                rival = nodes[node].least
            node = 2 * node + 1
            other = node + 1
            if _precedes(other, node, nodes):
                node = other
                other -= 1
            if nodes[other].smallest < rival:
                rival = nodes[other].smallest
        else:
            # A message is next: pass it on, with the messages of similar bounds.
            _sweep(
                node, done, X, coordinates, core, offer, columns, members, lower, upper, nodes,
                mail, pool, reach, source, position, row, slots, stack, trail,
            )  # fmt: skip
    _climb(node, nodes)
    return done


@inner
def _spread(
    root, sender, limit, latest, X, coordinates, core, offer, columns, members, lower, upper, nodes,
    mail, pool, reach, source, position, row, slots, stack, trail,
):  # fmt: skip
    """Apply a message to all leaves below a node for which its bound is within a limit.

    Elsewhere the message waits, unless an earlier one is as good for all points below.
    """
    first_leaf = reach.shape[0] - 1
    stack[0] = root
    n_open, n_passed = 1, 0
    while n_open > 0:
        n_open -= 1
        node = stack[n_open]
        bound = _bound(node, coordinates, sender, position, offer, lower, upper, nodes)
        if bound > limit:
            if bound < np.inf:
                _leave(node, sender, bound, nodes, mail, pool)
        elif node < first_leaf:
            trail[n_passed] = node
            n_passed += 1
            stack[n_open] = 2 * node + 1
            stack[n_open + 1] = 2 * node + 2
            n_open += 2
        else:
            leaf = node - first_leaf
            _apply(sender, bound, leaf, X, core, columns, position, row, slots, reach, source)
            _summarize_leaf(node, leaf, latest, members, reach, nodes)
    for i in range(n_passed - 1, -1, -1):
        _summarize(trail[i], nodes)


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
def _leave(node, sender, bound, nodes, mail, pool):
    """Leave a message at a node."""
    message = pool[0]
    pool[0] = mail[message].next
    pool[1] += 1
    mail[message].bound = bound
    mail[message].sender = sender
    mail[message].next = nodes[node].first
    nodes[node].first = message
    nodes[node].least = bound if bound < nodes[node].least else nodes[node].least
    _admit_message(node, nodes)


@inner
def _sweep(
    node, latest, X, coordinates, core, offer, columns, members, lower, upper, nodes, mail, pool,
    reach, source, position, row, slots, stack, trail,
):  # fmt: skip
    """Pass on the messages of smallest bounds from a node, and drop useless messages."""
    n_leaves = reach.shape[0]
    leaf = node - n_leaves + 1
    limit = _EAGER * nodes[node].least
    message = nodes[node].first
    nodes[node].first = _NONE
    nodes[node].least = np.inf
    while message != _NONE:
        following = mail[message].next
        bound = mail[message].bound
        # Of the type of points, as senders are elsewhere: another one compiles functions twice.
        sender = np.int64(mail[message].sender)
        useless = bound > nodes[node].ceiling or (
            bound == nodes[node].ceiling and position[sender] > nodes[node].rank
        )
        if not useless and (bound > limit or pool[1] + 2 * n_leaves > mail.shape[0]):
            mail[message].next = nodes[node].first
            nodes[node].first = message
            nodes[node].least = bound if bound < nodes[node].least else nodes[node].least
        else:
            mail[message].next = pool[0]
            pool[0] = message
            pool[1] -= 1
            if not useless and leaf >= 0:
                _apply(sender, bound, leaf, X, core, columns, position, row, slots, reach, source)
            elif not useless:
                for child in range(2 * node + 1, 2 * node + 3):
                    _spread(
                        child, sender, limit, latest, X, coordinates, core, offer, columns, members,
                        lower, upper, nodes, mail, pool, reach, source, position, row, slots, stack,
                        trail,
                    )  # fmt: skip
        message = following
    if leaf >= 0:
        _summarize_leaf(node, leaf, latest, members, reach, nodes)
    else:
        _summarize(node, nodes)


@inner
def _apply(sender, bound, leaf, X, core, columns, position, row, slots, reach, source):
    """Lower the reachability of the points of a leaf by the offers of one sender."""
    n_open = 0
    for i in range(reach.shape[1]):
        slots[n_open] = i
        n_open += reach[leaf, i] >= bound
    if n_open * _FEW > reach.shape[1]:
        squared_distances(X, sender, columns, leaf, row)
    else:
        for j in range(n_open):
            total = 0.0
            for m in range(X.shape[1]):
                step = X[sender, m] - columns[leaf, m, slots[j]]
                total += step * step
            row[slots[j]] = total
    for j in range(n_open):
        i = slots[j]
        distance = np.sqrt(row[i])
        distance = distance if distance > core[sender] else core[sender]
        value = np.rint(distance * _DECIMALS) / _DECIMALS
        if value < reach[leaf, i] or (
            value == reach[leaf, i] and position[sender] < position[source[leaf, i]]
        ):
            reach[leaf, i] = value
            source[leaf, i] = sender


@inner
def _precedes(one, other, nodes):
    """Whether the key of one node is smaller than that of another."""
    return nodes[one].smallest < nodes[other].smallest or (
        nodes[one].smallest == nodes[other].smallest and nodes[one].index < nodes[other].index
    )


@inner
def _climb(node, nodes):
    """Update all ancestors of a node."""
    while node > 0:
        node = (node - 1) // 2
        _summarize(node, nodes)


@inner
def _summarize(node, nodes):
    """Derive key and ceiling of an inner node from its children and its messages."""
    left = 2 * node + 1
    right = left + 1
    best = right if _precedes(right, left, nodes) else left
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
    _admit_message(node, nodes)


@inner
def _summarize_leaf(node, leaf, latest, members, reach, nodes):
    """Derive key and ceiling of a leaf from its points and its messages."""
    smallest, largest, slot = np.inf, -np.inf, -1
    for i in range(reach.shape[1]):
        value = reach[leaf, i]
        largest = value if value > largest else largest
        if value < smallest and value != -np.inf:
            smallest = value
            slot = i
    nodes[node].smallest = smallest
    nodes[node].index = members[leaf, slot] if slot >= 0 else members.size
    if largest <= nodes[node].ceiling:
        nodes[node].ceiling = largest
        nodes[node].rank = latest
    _admit_message(node, nodes)


@inner
def _admit_message(node, nodes):
    """Lower the key of a node to the least bound of its messages."""
    if nodes[node].least <= nodes[node].smallest and nodes[node].first != _NONE:
        nodes[node].smallest = nodes[node].least
        nodes[node].index = _NONE

"""The OPTICS ordering without a radius, by a lazily resolved Prim's algorithm.

Each step takes the unordered point of smallest reachability and lets it lower the reachability of
all others. Almost none of that has to be computed: a point just ordered is first a *message* at
the root of the k-d tree, with a lower bound on the reachability that it can offer to any point
below. A message moves down to the children only when its bound is below everything else that is
known, and is dropped where an earlier one is sure to be as good; distances are computed only in
the leaves that it reaches. In low dimension the whole takes about N log N.

The messages of a node form a pairing heap. A node's *key* is the pair (smallest reachability below
it, index of that point), where a waiting message counts as its bound with index -1: it comes first
among equals, so that ties are settled by true values. When the root's key has a true index, that
point is next. Messages may arrive in any order: of equal offers the earliest sender's counts.
"""

import numpy as np

from .blocks import Blocks
from .compile import inner, kernel
from .distances import squared_distances

_NONE = -1
#: scikit-learn rounds distances to 15 decimals.
_DECIMALS = 1e15
#: Bounds leave room for that and for the rounding of sums.
_RELATIVE = 1e-13
_ABSOLUTE = 1e-15

#: What is known of every node of the tree. No unordered point below it will end up above the
#: ceiling, thanks to senders no later than the rank; the heap is its message of smallest bound.
_NODE = np.dtype(
    [("smallest", "f8"), ("index", "i8"), ("ceiling", "f8"), ("rank", "i8"), ("heap", "i8")]
)
#: A message; child and sibling link the messages of a node into a heap, and the free ones.
_MESSAGE = np.dtype([("bound", "f8"), ("sender", "i8"), ("child", "i8"), ("sibling", "i8")])


def order_points(
    X: np.ndarray, blocks: Blocks, core: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return order, reachability and predecessor of every point, starting at the first row."""
    n_points, n_nodes = X.shape[0], blocks.lower.shape[0]
    nodes = np.full(n_nodes, np.array((np.inf, n_points, np.inf, n_points, _NONE), dtype=_NODE))
    nodes["index"][0] = 0
    occupied = np.arange(blocks.members.shape[1]) < blocks.sizes[:, None]
    reach = np.where(occupied, np.inf, -np.inf)
    source = np.full(reach.shape, _NONE)
    home = np.empty(n_points, dtype=np.int64)
    home[blocks.members[occupied]] = np.flatnonzero(occupied)
    order, position, predecessor = np.empty((3, n_points), dtype=np.int64)
    reachability = np.empty(n_points)
    offer = np.rint(core * _DECIMALS) / _DECIMALS
    row = np.empty(reach.shape[1])
    mail, pool = np.empty(0, dtype=_MESSAGE), np.array([_NONE, 0])
    done = 0
    while done < n_points:
        mail, pool = _enlarge(mail, pool, room=n_points + 64)
        done = _order(
            X, core, offer, blocks.columns, blocks.members, blocks.lower, blocks.upper, nodes,
            mail, pool, home, reach, source, row, order, position, reachability, predecessor,
            done, 0,
        )  # fmt: skip
    return order, reachability, predecessor


def _enlarge(mail: np.ndarray, pool: np.ndarray, room: int) -> tuple[np.ndarray, np.ndarray]:
    """Add room for messages; the pool holds the first free one and the number in use."""
    used, size = len(mail), 2 * len(mail) + room
    larger = np.empty(size, dtype=_MESSAGE)
    larger[:used] = mail
    larger["sibling"][used:] = np.arange(used + 1, size + 1)
    larger["sibling"][-1] = pool[0]
    return larger, np.array([used, pool[1]])


@kernel
def _order(
    X, core, offer, columns, members, lower, upper, nodes, mail, pool, home, reach,
    source, row, order, position, reachability, predecessor, done, root,
):  # fmt: skip
    """Order points until all are ordered or the mail is full; return how many are.

    A point once ordered has ``reach`` minus infinity.
    """
    leaf_size = reach.shape[1]
    first_leaf = reach.shape[0] - 1
    node = root
    rival = np.inf
    while done < order.shape[0] and pool[1] + 2 <= mail.shape[0]:
        top = nodes[node].heap
        if node > 0 and (nodes[node].smallest > rival or nodes[node].index != _NONE):
            # Nothing here comes next for sure: look again from the root.
            _climb(node, nodes, mail)
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
            _summarise_leaf(first_leaf + leaf, leaf, done, members, reach, nodes, mail)
            _climb(first_leaf + leaf, nodes, mail)
            _deliver(root, X, point, position, offer, lower, upper, nodes, mail, pool)
            done += 1
        elif top == _NONE or mail[top].bound > nodes[node].smallest:
            # What comes next is below; the rival is the best that is not.
            if top != _NONE and mail[top].bound < rival:
                rival = mail[top].bound
            node = 2 * node + 1
            other = node + 1
            if _precedes(other, node, nodes):
                node = other
                other -= 1
            if nodes[other].smallest < rival:
                rival = nodes[other].smallest
        else:
            # A message comes next: pass it on, or let it reach the points of its leaf.
            sender = _pop(node, nodes, mail, pool)
            if node < first_leaf:
                for child in range(2 * node + 1, 2 * node + 3):
                    _deliver(child, X, sender, position, offer, lower, upper, nodes, mail, pool)
                _summarise(node, nodes, mail)
            else:
                leaf = node - first_leaf
                squared_distances(X, sender, columns, leaf, row)
                _apply(sender, leaf, core, offer, position, row, reach, source)
                _summarise_leaf(node, leaf, done, members, reach, nodes, mail)
    _climb(node, nodes, mail)
    return done


@inner
def _deliver(node, X, sender, position, offer, lower, upper, nodes, mail, pool):
    """Leave a message at a node, unless an earlier one is as good for all points below."""
    near, far = 0.0, 0.0
    for m in range(X.shape[1]):
        below = X[sender, m] - lower[node, m]
        above = upper[node, m] - X[sender, m]
        gap = below if below < above else above
        if gap < 0.0:
            near += gap * gap
        gap = above if below < above else below
        far += gap * gap
    ceiling = nodes[node].ceiling
    low = np.sqrt(near) * (1.0 - _RELATIVE) - _ABSOLUTE
    low = low if low > offer[sender] else offer[sender]
    if low > ceiling or (low == ceiling and position[sender] > nodes[node].rank):
        return
    if far < ceiling * ceiling:
        high = np.sqrt(far) * (1.0 + _RELATIVE) + _ABSOLUTE
        high = high if high > offer[sender] else offer[sender]
        if high < ceiling:
            nodes[node].ceiling = high
            nodes[node].rank = position[sender]
    message = pool[0]
    pool[0] = mail[message].sibling
    pool[1] += 1
    mail[message].bound = low
    mail[message].sender = sender
    mail[message].child = _NONE
    mail[message].sibling = _NONE
    nodes[node].heap = _meld(nodes[node].heap, message, mail)
    _admit_message(node, nodes, mail)


@inner
def _apply(sender, leaf, core, offer, position, squares, reach, source):
    """Let one sender lower the reachability of the points of a leaf."""
    for i in range(reach.shape[1]):
        if reach[leaf, i] >= offer[sender]:
            distance = np.sqrt(squares[i])
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
def _climb(node, nodes, mail):
    """Bring all ancestors of a node up to date."""
    while node > 0:
        node = (node - 1) // 2
        _summarise(node, nodes, mail)


@inner
def _summarise(node, nodes, mail):
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
    _admit_message(node, nodes, mail)


@inner
def _summarise_leaf(node, leaf, latest, members, reach, nodes, mail):
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
    _admit_message(node, nodes, mail)


@inner
def _admit_message(node, nodes, mail):
    """Let the first message of a node lower its key."""
    top = nodes[node].heap
    if top != _NONE and mail[top].bound <= nodes[node].smallest:
        nodes[node].smallest = mail[top].bound
        nodes[node].index = _NONE


@inner
def _pop(node, nodes, mail, pool):
    """Take the message of smallest bound away from a node and return its sender."""
    top = nodes[node].heap
    pairs = mail[top].sibling
    rest = mail[top].child
    while rest != _NONE:
        one = rest
        other = mail[one].sibling
        rest = other
        mail[one].sibling = _NONE
        if other != _NONE:
            rest = mail[other].sibling
            mail[other].sibling = _NONE
            one = _meld(one, other, mail)
        mail[one].sibling = pairs
        pairs = one
    heap = pairs
    if heap != _NONE:
        pairs = mail[heap].sibling
        mail[heap].sibling = _NONE
    while pairs != _NONE:
        one = pairs
        pairs = mail[one].sibling
        mail[one].sibling = _NONE
        heap = _meld(heap, one, mail)
    nodes[node].heap = heap
    mail[top].sibling = pool[0]
    pool[0] = top
    pool[1] -= 1
    return mail[top].sender


@inner
def _meld(one, other, mail):
    """Join two pairing heaps."""
    if one == _NONE:
        return other
    if mail[other].bound < mail[one].bound:
        mail[one].sibling = mail[other].child
        mail[other].child = one
        return other
    mail[other].sibling = mail[one].child
    mail[one].child = other
    return one

"""Squared Euclidean distances from one point to a block of points."""

from .compile import inner


@inner
def squared_distances(X, i, blocks, b, out):
    """Write the squared distances from ``X[i]`` (M,) to ``blocks[b]`` (M, S) into ``out`` (S,).

    The squares are added up in the order of the features, as scikit-learn and scipy do, so that
    the result is theirs to the bit. Four features a sweep keep the sums in registers.
    """
    n_features = X.shape[1]
    size = out.shape[0]
    p = X[i, 0]
    for s in range(size):
        out[s] = (p - blocks[b, 0, s]) * (p - blocks[b, 0, s])
    m = 1
    while m + 4 <= n_features:
        p, q, r, t = X[i, m], X[i, m + 1], X[i, m + 2], X[i, m + 3]
        for s in range(size):
            total = out[s] + (p - blocks[b, m, s]) * (p - blocks[b, m, s])
            total += (q - blocks[b, m + 1, s]) * (q - blocks[b, m + 1, s])
            total += (r - blocks[b, m + 2, s]) * (r - blocks[b, m + 2, s])
            out[s] = total + (t - blocks[b, m + 3, s]) * (t - blocks[b, m + 3, s])
        m += 4
    while m < n_features:
        p = X[i, m]
        for s in range(size):
            out[s] += (p - blocks[b, m, s]) * (p - blocks[b, m, s])
        m += 1

"""Means and covariances of neighbourhoods."""

from .compile import kernel


@kernel
def neighborhood_moments(points, neighbours, weights, rows, n_neighbors, means, scatters):
    """Write mean and covariance of the nearest neighbours of some points.

    Parameters
    ----------
    points : (N, M)
    neighbours : (N, K)
        The neighbours of every point, the nearest first.
    weights : (N,)
        How often points count; 0 for those that do not.
    rows : (R,)
        The points whose neighbourhoods are asked for; each counts as a neighbour of itself.
    n_neighbors : int
        What the weights of neighbours add up to, the farthest having a part of its own only; less
        if there are not as many.
    means, scatters : (R, M), (R, M, M)
        Relative to the point; with ``ddof=0``.
    """
    n_features = points.shape[1]
    for r in range(rows.shape[0]):
        i = rows[r]
        means[r] = 0.0
        scatters[r] = 0.0
        size = 0.0
        for k in range(neighbours.shape[1]):
            j = neighbours[i, k]
            part = min(weights[j], n_neighbors - size)
            if part <= 0:
                continue
            # About the mean so far: sums about the point would cancel where it weighs little.
            share = part / (size + part)
            for a in range(n_features):
                apart = points[j, a] - points[i, a] - means[r, a]
                for b in range(a + 1):
                    other = points[j, b] - points[i, b] - means[r, b]
                    scatters[r, a, b] += share * size * apart * other
            for a in range(n_features):
                means[r, a] += share * (points[j, a] - points[i, a] - means[r, a])
            size += part
            if size >= n_neighbors:
                break
        for a in range(n_features):
            for b in range(a + 1):
                scatters[r, a, b] /= size
                scatters[r, b, a] = scatters[r, a, b]

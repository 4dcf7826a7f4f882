"""Means and covariances of neighborhoods."""

from .compile import kernel


@kernel
def neighborhood_moments(points, neighbors, weights, rows, n_neighbors, means, covariances):
    """Write mean and covariance of the nearest neighbors of some points.

    Parameters
    ----------
    points : (N, M)
    neighbors : (N, K)
        The neighbors of every point, the nearest first.
    weights : (N,)
        The number of samples that each point stands for; 0 leaves a point out.
    rows : (R,)
        The points whose neighborhoods are computed; each is a neighbor of itself.
    n_neighbors : int
        The number of samples of a neighborhood, or fewer if there are not enough. The last neighbor
        counts in part.
    means, covariances : (R, M), (R, M, M)
        Output, relative to the point; with ``ddof=0``.
    """
    n_features = points.shape[1]
    for r in range(rows.shape[0]):
        i = rows[r]
        means[r] = 0.0
        covariances[r] = 0.0
        size = 0.0
        for k in range(neighbors.shape[1]):
            j = neighbors[i, k]
            part = min(weights[j], n_neighbors - size)
            if part <= 0:
                continue
            # About the mean so far: sums about a point of small weight would lose digits.
            share = part / (size + part)
            for a in range(n_features):
                apart = points[j, a] - points[i, a] - means[r, a]
                for b in range(a + 1):
                    other = points[j, b] - points[i, b] - means[r, b]
                    covariances[r, a, b] += share * size * apart * other
            for a in range(n_features):
                means[r, a] += share * (points[j, a] - points[i, a] - means[r, a])
            size += part
            if size >= n_neighbors:
                break
        for a in range(n_features):
            for b in range(a + 1):
                covariances[r, a, b] /= size
                covariances[r, b, a] = covariances[r, a, b]

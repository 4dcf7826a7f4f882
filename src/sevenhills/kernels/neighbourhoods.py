"""Means and covariances of neighbourhoods."""

from .compile import kernel


@kernel
def neighbourhood_moments(points, neighbours, seen, rows, n_neighbors, means, scatters):
    """Write mean and covariance of the nearest seen neighbours of some points.

    Parameters
    ----------
    points : (N, M)
    neighbours : (N, K)
        The neighbours of every point, the nearest first.
    seen : (N,)
        Which points count.
    rows : (R,)
        The points whose neighbourhoods are asked for; each is a seen neighbour of itself.
    n_neighbors : int
        How many seen neighbours to take, or all there are.
    means, scatters : (R, M), (R, M, M)
        Relative to the point; with ``ddof=0``.
    """
    n_features = points.shape[1]
    for r in range(rows.shape[0]):
        i = rows[r]
        means[r] = 0.0
        scatters[r] = 0.0
        count = 0
        for k in range(neighbours.shape[1]):
            j = neighbours[i, k]
            if not seen[j]:
                continue
            for a in range(n_features):
                apart = points[j, a] - points[i, a]
                means[r, a] += apart
                for b in range(a + 1):
                    scatters[r, a, b] += apart * (points[j, b] - points[i, b])
            count += 1
            if count == n_neighbors:
                break
        for a in range(n_features):
            means[r, a] /= count
            for b in range(a + 1):
                scatters[r, a, b] = scatters[r, a, b] / count - means[r, a] * means[r, b]
                scatters[r, b, a] = scatters[r, a, b]

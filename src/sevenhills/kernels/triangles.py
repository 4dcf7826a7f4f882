"""Triangular matrices, small ones inside of loops: a call of LAPACK takes longer."""

from .compile import inner


@inner
def invert_lower(matrix):
    """Replace a lower triangle by its inverse; the rest of the matrix is not read."""
    n = matrix.shape[0]
    for j in range(n):
        matrix[j, j] = 1.0 / matrix[j, j]
        for i in range(j + 1, n):
            value = 0.0
            for m in range(j, i):
                value -= matrix[i, m] * matrix[m, j]
            matrix[i, j] = value / matrix[i, i]

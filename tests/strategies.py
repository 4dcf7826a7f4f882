"""Data as people have it: ties, lattices, duplicates, tiny and huge scales."""

import numpy as np
from hypothesis import strategies as st


@st.composite
def samples(draw, min_samples=5, max_samples=120, max_features=6, scales=(1.0,)):
    """Samples of every awkward kind."""
    n_samples = draw(st.integers(min_samples, max_samples))
    n_features = draw(st.integers(1, max_features))
    rng = np.random.RandomState(draw(st.integers(0, 2**31)))
    kind = draw(st.sampled_from(["normal", "lattice", "repeated", "clusters", "line", "outliers"]))
    X = rng.standard_normal((n_samples, n_features))
    if kind == "lattice":
        X = np.round(2 * X)
    elif kind == "repeated":
        X = X[rng.randint(n_samples, size=n_samples)]
    elif kind == "clusters":
        X = X * 0.1 ** rng.randint(3, size=(n_samples, 1)) + 10 * rng.randint(
            3, size=(n_samples, 1)
        )
    elif kind == "line":
        X = X[:, :1] * rng.standard_normal(n_features)
    elif kind == "outliers":
        X[: n_samples // 5] *= 100
    return X * draw(st.sampled_from(scales))

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


# Clouds: where the samples come from, the simplest first


def _normal(rng, n_samples, n_features):
    return rng.standard_normal((n_samples, n_features))


def _lattice(rng, n_samples, n_features):
    return np.round(rng.choice([0.5, 1.0, 3.0]) * _normal(rng, n_samples, n_features))


def _clusters(rng, n_samples, n_features):
    """Clusters of very different numbers and widths, far apart or touching."""
    n_clusters = rng.randint(2, 7)
    shares = rng.dirichlet(np.full(n_clusters, 0.4))
    centres = rng.choice([3.0, 30.0, 1e4]) * _normal(rng, n_clusters, n_features)
    widths = 10.0 ** rng.uniform(-4, 1, n_clusters)
    label = rng.choice(n_clusters, n_samples, p=shares)
    return centres[label] + widths[label, None] * _normal(rng, n_samples, n_features)


def _curve(rng, n_samples, n_features):
    """A bent line, so thin that it has no width, or with a little."""
    t = rng.uniform(-3, 3, (n_samples, 1))
    speeds = rng.uniform(0.2, 2, n_features)
    width = rng.choice([0.0, 1e-6, 0.05])
    return np.cos(t * speeds + np.arange(n_features)) + width * _normal(rng, n_samples, n_features)


def _heavy_tails(rng, n_samples, n_features):
    return rng.standard_t(rng.choice([0.5, 1.0, 3.0]), (n_samples, n_features))


def _few_values(rng, n_samples, n_features):
    """Classes and counts, most of them one value."""
    return rng.binomial(rng.choice([1, 3]), rng.choice([0.02, 0.5]), (n_samples, n_features)) * 1.0


def _skewed(rng, n_samples, n_features):
    return np.exp(rng.choice([1.0, 4.0]) * _normal(rng, n_samples, n_features))


CLOUDS = {
    "normal": _normal,
    "lattice": _lattice,
    "clusters": _clusters,
    "curve": _curve,
    "heavy tails": _heavy_tails,
    "few values": _few_values,
    "skewed": _skewed,
}


# Twists: what happens to a cloud, in this order


def _repeat(rng, X):
    return X[rng.randint(max(1, len(X) // rng.randint(1, 9)), size=len(X))]


def _round(rng, X):
    return np.round(X, rng.randint(0, 3))


def _add_outliers(rng, X):
    far = rng.permutation(len(X))[: 1 + len(X) // 20]
    X[far] *= 10.0 ** rng.uniform(1, 6, (len(far), 1))
    return X


def _make_constant(rng, X):
    constant = rng.uniform(size=X.shape[1]) < 0.4
    X[:, constant] = X[0, constant]
    return X


def _make_collinear(rng, X):
    """Columns that are sums of others but for a relative 1e-9 to 1e-15."""
    n_features = X.shape[1]
    n_free = rng.randint(1, n_features + 1)
    noise = 10.0 ** rng.uniform(-15, -9)
    mixing = rng.standard_normal((n_free, n_features - n_free))
    rest = X[:, :n_free] @ mixing
    X[:, n_free:] = rest + noise * np.abs(rest).max(initial=0) * _normal(rng, *rest.shape)
    return X


def _shift(rng, X):
    """Far from the origin, by up to a thousand million times the spread."""
    spread = np.ptp(X, axis=0)
    return X + np.where(spread > 0, spread, 1.0) * 10.0 ** rng.uniform(0, 9, X.shape[1])


def _stretch(rng, X):
    """Every column in a unit of its own."""
    return X * 10.0 ** rng.uniform(-12, 12, X.shape[1])


def _shrink(rng, X):
    """So small that squares are below the smallest float."""
    return X * 1e-250


def _enlarge(rng, X):
    """So large that squares are beyond the largest float."""
    return X * 1e250


TWISTS = {
    "repeated": _repeat,
    "rounded": _round,
    "outliers": _add_outliers,
    "constant": _make_constant,
    "collinear": _make_collinear,
    "shifted": _shift,
    "stretched": _stretch,
    "tiny": _shrink,
    "huge": _enlarge,
}
#: Those that keep samples within some orders of magnitude of one data unit.
MODERATE = ("repeated", "rounded", "outliers", "constant", "collinear")


@st.composite
def awkward(
    draw,
    min_samples=2,
    max_samples=300,
    min_features=1,
    max_features=30,
    twists=tuple(TWISTS),
    max_twists=3,
):
    """Draw valid but awkward samples: a cloud, and what happens to it.

    Only a seed, two sizes and some names are drawn, so that examples are cheap to make and shrink.
    """
    most = draw(st.sampled_from([min(max_samples, 12), max_samples, max_samples]))
    n_samples = draw(st.integers(min_samples, most))
    n_features = draw(st.integers(min_features, max_features))
    cloud = draw(st.sampled_from(list(CLOUDS)))
    chosen = draw(st.sets(st.sampled_from(twists), max_size=max_twists)) if twists else ()
    rng = np.random.RandomState(draw(st.integers(0, 2**32 - 1)))
    X = CLOUDS[cloud](rng, n_samples, n_features)
    for name in TWISTS:
        if name in chosen:
            X = TWISTS[name](rng, X)
    return X


# Weights of rows


@st.composite
def wild_weights(draw, min_size=1, max_size=50):
    """Positive weights: equal, whole, fractional, tiny, huge, and all of these at once."""
    size = draw(st.integers(min_size, max_size))
    rng = np.random.RandomState(draw(st.integers(0, 2**31)))
    kind = draw(st.sampled_from(["ones", "whole", "fractional", "little", "wild", "one heavy"]))
    if kind == "whole":
        return rng.randint(1, 30, size=size).astype(float)
    if kind == "fractional":
        return rng.exponential(5.0, size=size) + 1e-3
    if kind == "little":
        return np.full(size, draw(st.sampled_from([1e-3, 1e-12, 0.5 / size])))
    if kind == "wild":
        return 10.0 ** rng.uniform(-12, 12, size=size)
    weights = np.ones(size)
    if kind == "one heavy":
        weights[rng.randint(size)] = draw(st.sampled_from([50.0, 1e12]))
    return weights


def repeats_of(n_rows, seed):
    """How often rows are repeated in slow twins."""
    return np.random.RandomState(seed).randint(1, 5, size=n_rows)


@st.composite
def partition_sizes(draw, n_rows):
    """Sizes of the partitions of some rows, which may be empty."""
    inner = draw(st.lists(st.integers(0, n_rows), max_size=7))
    return tuple(np.diff([0, *sorted(inner), n_rows]).tolist())

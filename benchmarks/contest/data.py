"""The data sets: development sets for the design of methods, test sets for the final comparison.

They were fixed before the methods that they judge; do not change a draw or a parameter, add a set.
Real sets ship with scikit-learn and statsmodels; nothing is fetched.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import RandomState

Split = tuple[np.ndarray, np.ndarray]
Draw = Callable[[int, RandomState], np.ndarray]

N_TEST = 2000
#: Seeds of the random parameters of a family, which are the same for all its draws.
FIXED = {
    "student5": 11,
    "banana10": 12,
    "copula6": 13,
    "mix20": 14,
    "factor40": 15,
    "student_mix8": 21,
    "manifold10": 22,
    "mix50": 23,
    "mixed5": 24,
}


@dataclass(frozen=True)
class DataSet:
    """A data set and its splits.

    Parameters
    ----------
    name : str
    role : {"development", "test"}
    kind : {"real", "synthetic"}
    note : str
        What it is there for.
    source : callable
        From the number of a split to raw training and test rows.
    """

    name: str
    role: str
    kind: str
    note: str
    source: Callable[[int], Split]

    def split(self, s: int) -> Split:
        """Return training and test rows of split ``s``, standardized by the training rows."""
        return standardized(*self.source(s))


def standardized(train: np.ndarray, test: np.ndarray) -> Split:
    """Drop columns that are constant in training; standardize by the training rows."""
    varies = np.ptp(train, axis=0) > 0
    train, test = train[:, varies], test[:, varies]
    mean, std = train.mean(axis=0), train.std(axis=0)
    return (train - mean) / std, (test - mean) / std


def shuffled(load: Callable[[], Any]) -> Callable[[int], Split]:
    """Return a source that holds out a random fifth of real rows."""

    def source(s: int) -> Split:
        rows = _columns(load())
        order = RandomState(s).permutation(len(rows))
        n_train = int(0.8 * len(rows))
        return rows[order[:n_train]], rows[order[n_train:]]

    return source


def drawn(draw: Draw, n: int) -> Callable[[int], Split]:
    """Return a source that draws training and test rows independently."""

    def source(s: int) -> Split:
        return (
            _columns(draw(n, RandomState(1000 + s))),
            _columns(draw(N_TEST, RandomState(2000 + s))),
        )

    return source


def _columns(rows: Any) -> np.ndarray:
    """Return rows as a float64 matrix; a vector becomes one column."""
    rows = np.asarray(rows, dtype=np.float64)
    return rows[:, None] if rows.ndim == 1 else rows


# Real sets


def _sklearn(name: str) -> Callable[[], np.ndarray]:
    """Return a loader of the inputs of one of scikit-learn's data sets."""

    def load() -> np.ndarray:
        from sklearn import datasets

        return getattr(datasets, f"load_{name}")().data

    return load


def _statsmodels(name: str, *columns: str) -> Callable[[], np.ndarray]:
    """Return a loader of columns of one of statsmodels' data sets."""

    def load() -> np.ndarray:
        return _frame(name)[list(columns)].to_numpy()

    return load


def _frame(name: str) -> Any:
    """Return a data set of statsmodels as a frame."""
    # Imported here, because methods do not need statsmodels.
    from importlib import import_module

    return import_module(f"statsmodels.datasets.{name}").load_pandas().data


def _digits10() -> np.ndarray:
    """Return images of digits along their first ten principal axes."""
    images = _sklearn("digits")()
    centered = images - images.mean(axis=0)
    return centered @ np.linalg.svd(centered, full_matrices=False)[2][:10].T


def _elnino() -> np.ndarray:
    """Return sea surface temperatures; rows are years, columns are months."""
    return _frame("elnino").drop(columns="YEAR").to_numpy()


def _macrodata() -> np.ndarray:
    """Return quarterly growth of volumes and differences of rates."""
    frame = _frame("macrodata")
    volumes = frame[["realgdp", "realcons", "realinv", "realgovt", "realdpi", "m1"]].to_numpy()
    rates = frame[["unemp", "infl"]].to_numpy()
    return np.hstack([np.diff(np.log(volumes), axis=0), np.diff(rates, axis=0)])


# Parts of synthetic sets


def _rotation(n_features: int, rng: RandomState) -> np.ndarray:
    """Return a random orthogonal matrix."""
    return np.linalg.qr(rng.standard_normal((n_features, n_features)))[0]


def _root(n_features: int, rng: RandomState) -> np.ndarray:
    """Return a factor of a random covariance with standard deviations from 0.3 to 1.5."""
    scales = np.exp(rng.uniform(np.log(0.3), np.log(1.5), size=n_features))
    return _rotation(n_features, rng) * scales


def _correlated(n_features: int, rng: RandomState) -> np.ndarray:
    """Return a factor of a random correlation matrix."""
    root = rng.standard_normal((n_features, n_features + 1))
    return root / np.linalg.norm(root, axis=1, keepdims=True)


def _mixture(
    name: str, n_components: int, n_features: int, spread: float, dof: float = np.inf
) -> Draw:
    """Return a mixture of Gaussians, or of Student's t, with random centers and covariances."""
    fixed = RandomState(FIXED[name])
    weights = fixed.dirichlet(np.full(n_components, 5.0))
    centers = spread * fixed.standard_normal((n_components, n_features))
    roots = np.stack([_root(n_features, fixed) for _ in range(n_components)])

    def draw(n: int, rng: RandomState) -> np.ndarray:
        which = rng.choice(n_components, size=n, p=weights)
        noise = np.einsum("nij,nj->ni", roots[which], rng.standard_normal((n, n_features)))
        if np.isfinite(dof):
            noise *= np.sqrt(dof / rng.chisquare(dof, size=(n, 1)))
        return centers[which] + noise

    return draw


# Synthetic sets for development


def _spiral2(n: int, rng: RandomState) -> np.ndarray:
    """Draw uniformly along a spiral of 2.5 turns with an outer radius of 1."""
    turn = 5 * np.pi * np.sqrt(rng.uniform(size=n))
    radius = turn / (5 * np.pi)
    arm = np.column_stack([radius * np.cos(turn), radius * np.sin(turn)])
    return arm + 0.03 * rng.standard_normal((n, 2))


def _student5(n: int, rng: RandomState) -> np.ndarray:
    """Draw correlated Student's t with 3 degrees of freedom."""
    root = _correlated(5, RandomState(FIXED["student5"]))
    noise = rng.standard_normal((n, root.shape[1])) @ root.T
    return noise * np.sqrt(3 / rng.chisquare(3, size=(n, 1)))


def _banana10(n: int, rng: RandomState) -> np.ndarray:
    """Draw two latent variables, mapped nonlinearly to ten coordinates."""
    fixed = RandomState(FIXED["banana10"])
    linear, waves, squares = (fixed.standard_normal((2, 10)) for _ in range(3))
    pace, phase = fixed.uniform(1, 2.5, size=10), fixed.uniform(0, 2 * np.pi, size=10)
    latent = rng.standard_normal((n, 2))
    bent = latent @ linear + np.sin(pace * (latent @ waves) + phase) + 0.5 * latent**2 @ squares
    return bent + 0.15 * rng.standard_normal((n, 10))


def _copula6(n: int, rng: RandomState) -> np.ndarray:
    """Draw gamma margins joined by a Gaussian copula."""
    from scipy.stats import gamma, norm

    root = _correlated(6, RandomState(FIXED["copula6"]))
    normal = rng.standard_normal((n, root.shape[1])) @ root.T
    return gamma.ppf(norm.cdf(normal), 1.5)


def _factor40(n: int, rng: RandomState) -> np.ndarray:
    """Draw a Gaussian factor model of four factors with independent noise in every coordinate."""
    fixed = RandomState(FIXED["factor40"])
    loadings, noise = fixed.standard_normal((4, 40)), fixed.uniform(0.3, 1.0, size=40)
    return rng.standard_normal((n, 4)) @ loadings + noise * rng.standard_normal((n, 40))


def _cube3(n: int, rng: RandomState) -> np.ndarray:
    """Draw uniformly from a cube."""
    return rng.uniform(size=(n, 3))


def _lattice2(n: int, rng: RandomState) -> np.ndarray:
    """Draw three Gaussians and round them to quarters, so that rows are tied."""
    centers = np.array([[0.0, 0.0], [3.0, 1.0], [1.0, 4.0]])
    scales = np.array([0.6, 0.9, 0.75])
    which = rng.randint(3, size=n)
    rows = centers[which] + scales[which, None] * rng.standard_normal((n, 2))
    return np.round(rows * 4) / 4


def _rings2(n: int, rng: RandomState) -> np.ndarray:
    """Draw two concentric noisy rings, in proportion to their lengths."""
    outer = rng.uniform(size=n) < 2 / 3
    radius = np.where(outer, 2.0, 1.0) + 0.08 * rng.standard_normal(n)
    angle = rng.uniform(0, 2 * np.pi, size=n)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])


# Synthetic sets for the test


def _pinwheel2(n: int, rng: RandomState) -> np.ndarray:
    """Draw five spiral arms, with a curvature that grows outwards."""
    arm = rng.randint(5, size=n)
    along = 1 + 0.3 * rng.standard_normal(n)
    across = 0.05 * rng.standard_normal(n)
    angle = 2 * np.pi * arm / 5 + 0.25 * np.exp(along)
    cos, sin = np.cos(angle), np.sin(angle)
    return np.column_stack([along * cos - across * sin, along * sin + across * cos])


def _swissroll3(n: int, rng: RandomState) -> np.ndarray:
    """Draw from a rolled sheet."""
    from sklearn.datasets import make_swiss_roll

    return make_swiss_roll(n, noise=0.5, random_state=rng)[0]


def _lognormal1(n: int, rng: RandomState) -> np.ndarray:
    """Draw a skewed positive variable."""
    return np.exp(0.8 * rng.standard_normal(n))


def _checkerboard2(n: int, rng: RandomState) -> np.ndarray:
    """Draw uniformly from the dark squares of a four by four board."""
    row = rng.randint(4, size=n)
    column = 2 * rng.randint(2, size=n) + row % 2
    return np.column_stack([column, row]) + rng.uniform(size=(n, 2))


def _manifold10(n: int, rng: RandomState) -> np.ndarray:
    """Draw three latent variables through a random network into ten coordinates."""
    fixed = RandomState(FIXED["manifold10"])
    first, shift = fixed.standard_normal((3, 16)), 0.5 * fixed.standard_normal(16)
    second = fixed.standard_normal((16, 10)) / 4
    hidden = np.tanh(rng.standard_normal((n, 3)) @ first + shift)
    return hidden @ second + 0.1 * rng.standard_normal((n, 10))


def _mixed5(n: int, rng: RandomState) -> np.ndarray:
    """Draw a class of four, a count and three measures that depend on the class."""
    fixed = RandomState(FIXED["mixed5"])
    rates = np.array([1.0, 3.0, 6.0, 12.0])
    centers = 1.5 * fixed.standard_normal((4, 2, 3))
    roots = np.stack([_root(3, fixed) for _ in range(8)]).reshape(4, 2, 3, 3)
    level = rng.choice(4, size=n, p=[0.4, 0.3, 0.2, 0.1])
    side = rng.randint(2, size=n)
    noise = np.einsum("nij,nj->ni", roots[level, side], rng.standard_normal((n, 3)))
    return np.column_stack([level, rng.poisson(rates[level]), centers[level, side] + noise])


def _arcs2(n: int, rng: RandomState) -> np.ndarray:
    """Draw three interleaved half circles."""
    centers = np.array([[0.0, 0.0], [1.0, 0.4], [2.0, 0.0]])
    upwards = np.array([1.0, -1.0, 1.0])
    which = rng.randint(3, size=n)
    angle = rng.uniform(0, np.pi, size=n)
    arc = np.column_stack([np.cos(angle), upwards[which] * np.sin(angle)])
    return centers[which] + arc + 0.08 * rng.standard_normal((n, 2))


def _walks24(n: int, rng: RandomState) -> np.ndarray:
    """Draw the positions of walks of twelve steps, each with its own turning rate."""
    heading = rng.uniform(-np.pi, np.pi, size=(n, 1))
    turn = 0.25 * rng.standard_normal((n, 1))
    speed = rng.gamma(2.0, 0.5, size=(n, 1))
    # Without noise in every step, walks would have three dimensions only, and no density.
    angle = heading + turn * np.arange(12) + 0.1 * rng.standard_normal((n, 12))
    length = speed * np.exp(0.15 * rng.standard_normal((n, 12)))
    steps = np.stack([length * np.cos(angle), length * np.sin(angle)], axis=2)
    return np.cumsum(steps, axis=1).reshape(n, 24)


_STAR98 = ["LOWINC", "PERASIAN", "PERBLACK", "PERHISP", "PERMINTE"]
_STAR98 += ["AVYRSEXP", "AVSALK", "PERSPENK"]
_CCARD = ["AVGEXP", "AGE", "INCOME", "INCOMESQ", "OWNRENT"]

#: role, kind: name, note, source
_SETS: dict[tuple[str, str], list[tuple[str, str, Callable[[int], Split]]]] = {
    ("development", "real"): [
        ("iris", "150 x 4, rounded", shuffled(_sklearn("iris"))),
        ("wine", "178 x 13", shuffled(_sklearn("wine"))),
        ("diabetes", "442 x 10, one column binary", shuffled(_sklearn("diabetes"))),
        ("engel", "235 x 2, spread grows", shuffled(_statsmodels("engel", "income", "foodexp"))),
        ("sunspots", "309 x 1, skewed", shuffled(_statsmodels("sunspots", "SUNACTIVITY"))),
        ("counties", "301 x 1, heavy tail", shuffled(_statsmodels("cancer", "population"))),
    ],
    ("development", "synthetic"): [
        ("spiral2", "one thin arm", drawn(_spiral2, 1500)),
        ("student5", "heavy tails", drawn(_student5, 1000)),
        ("banana10", "bent surface", drawn(_banana10, 2000)),
        ("copula6", "skewed margins", drawn(_copula6, 1000)),
        ("mix20", "8 Gaussians", drawn(_mixture("mix20", 8, 20, 0.6), 1500)),
        ("factor40", "4 factors, few rows", drawn(_factor40, 500)),
        ("cube3", "sharp edges", drawn(_cube3, 1000)),
        ("lattice2", "tied rows", drawn(_lattice2, 1000)),
        ("rings2", "many rows", drawn(_rings2, 8000)),
    ],
    ("test", "real"): [
        ("digits10", "1797 x 10, principal axes of images", shuffled(_digits10)),
        ("breast_cancer", "569 x 30, skewed", shuffled(_sklearn("breast_cancer"))),
        ("macrodata", "202 x 8, growth of an economy", shuffled(_macrodata)),
        ("ccard", "72 x 5, a square and a binary", shuffled(_statsmodels("ccard", *_CCARD))),
        ("elnino", "61 x 12, hardly any rows", shuffled(_elnino)),
        ("star98", "303 x 8, shares", shuffled(_statsmodels("star98", *_STAR98))),
    ],
    ("test", "synthetic"): [
        ("pinwheel2", "5 bent arms", drawn(_pinwheel2, 2000)),
        ("swissroll3", "a rolled sheet", drawn(_swissroll3, 2000)),
        ("lognormal1", "skewed", drawn(_lognormal1, 1000)),
        ("checkerboard2", "sharp edges", drawn(_checkerboard2, 2000)),
        (
            "student_mix8",
            "3 heavy-tailed clusters",
            drawn(_mixture("student_mix8", 3, 8, 1.5, dof=4), 1500),
        ),
        ("manifold10", "bent space of 3 dimensions", drawn(_manifold10, 2000)),
        ("mix50", "5 Gaussians", drawn(_mixture("mix50", 5, 50, 0.4), 2000)),
        ("mixed5", "a class, a count, measures", drawn(_mixed5, 1500)),
        ("arcs2", "many rows", drawn(_arcs2, 12000)),
        ("walks24", "trajectories", drawn(_walks24, 1500)),
    ],
}

SETS: dict[str, DataSet] = {
    name: DataSet(name, role, kind, note, source)
    for (role, kind), entries in _SETS.items()
    for name, note, source in entries
}

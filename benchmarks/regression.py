"""Coverage and size of predicted intervals and regions, beside the truth and other methods.

``python -m benchmarks.regression [--draws N] [--laws NAME,NAME]`` prints the coverage and the mean
size of regions of 90 % for new rows of five laws, and for tables. The size is a length, or an area
for two targets. "oracle" is the true conditional highest-density region, "quantiles" are
conformalized quantiles of gradient boosting, "forest" is a symmetric interval around the mean of a
forest; both are calibrated by half of the training rows, by the whole box for two targets. "MAPIE"
are its CV+ intervals around the same forest, with five folds, if MAPIE is installed. It refuses two
targets, which is a dash. The coverage of our intervals of two targets is that of a single one.

``python -m benchmarks.regression costs`` prints the CPU time and the memory of conditionals of
10,000 rows.
"""

import sys
import tracemalloc
from argparse import ArgumentParser
from functools import partial
from importlib.util import find_spec

import numpy as np
from benchmarks.measuring import Bars, best_of
from numpy.random import RandomState
from scipy.stats import norm
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor

from sevenhills import AutoROME, DensityRegressor

BARS = Bars(
    at_least={"coverage, least": 0.88},
    at_most={
        "coverage, most": 0.92,
        "size, ratio to the oracle": 1.15,
        "CPU ms of a row": 1,
        "MB of 10,000 rows": 100,
    },
)
CONFIDENCE = 0.9
N_TRAIN, N_TEST = 1000, 2000
#: Rows of a test for which a size is computed; that of the oracle is a mean over a grid.
N_SIZED = 500
report = partial(print, file=sys.stderr, flush=True)


class Branches:
    """Two branches y = +-x with normal noise."""

    std = 0.2

    def draw(self, n, rng):
        """Return features and targets."""
        X = rng.uniform(0, 3, size=(n, 1))
        return X, rng.choice([-1, 1], size=n) * X[:, 0] + self.std * rng.standard_normal(n)

    def pdf(self, X, y):
        """Return the conditional densities (n, m) of targets (m,)."""
        return sum(0.5 * norm.pdf(y, sign * X[:, :1], self.std) for sign in (-1, 1))

    grid = np.linspace(-5, 5, 4001)


class Fan:
    """A line with noise that grows."""

    grid = np.linspace(-12, 16, 4001)

    def draw(self, n, rng):
        """Return features and targets."""
        X = rng.uniform(0, 3, size=(n, 1))
        return X, X[:, 0] + self._std(X[:, 0]) * rng.standard_normal(n)

    def _std(self, x):
        return 0.1 + 0.7 * x

    def pdf(self, X, y):
        """Return the conditional densities (n, m) of targets (m,)."""
        return norm.pdf(y, X[:, :1], self._std(X[:, :1]))


class Ring:
    """A circle of radius 1 with normal noise of the radius."""

    grid, std = np.linspace(-1.8, 1.8, 4001), 0.1

    def draw(self, n, rng):
        """Return features and targets."""
        angle, radius = rng.uniform(0, 2 * np.pi, size=n), 1 + self.std * rng.standard_normal(n)
        return (radius * np.cos(angle))[:, None], radius * np.sin(angle)

    def pdf(self, X, y):
        """Return the conditional densities (n, m) of targets (m,)."""
        radius = np.hypot(X[:, :1], y)
        joint = norm.pdf(radius, 1, self.std) / radius.clip(1e-9)
        return joint / joint.sum(axis=1, keepdims=True) / (y[1] - y[0])


class Skewed:
    """Log-normal noise whose scale depends on one of two features."""

    grid = np.linspace(-4, 30, 8001)

    def draw(self, n, rng):
        """Return features and targets."""
        X = rng.uniform(-1, 1, size=(n, 2))
        return X, 2 * X[:, 1] + self._scale(X[:, 0]) * rng.lognormal(sigma=0.6, size=n)

    def _scale(self, x):
        return np.exp(0.5 * x)

    def pdf(self, X, y):
        """Return the conditional densities (n, m) of targets (m,)."""
        apart = (y - 2 * X[:, 1:]) / self._scale(X[:, :1])
        safe = apart.clip(1e-12)
        found = norm.pdf(np.log(safe) / 0.6) / 0.6 / safe / self._scale(X[:, :1])
        return np.where(apart > 0, found, 0.0)


class TwoTargets:
    """Two targets on two branches, (x, -x) and (-x, x), with normal noise."""

    std = 0.3

    def draw(self, n, rng):
        """Return features and targets."""
        X = rng.uniform(0.5, 3, size=(n, 1))
        middle = rng.choice([-1, 1], size=(n, 1)) * X
        return X, np.hstack([middle, -middle]) + self.std * rng.standard_normal((n, 2))

    def pdf(self, X, y):
        """Return the conditional densities (n, m) of targets (m, 2)."""
        first, second = norm(X[:, :1], self.std), norm(-X[:, :1], self.std)
        one = first.pdf(y[:, 0]) * second.pdf(y[:, 1])
        return 0.5 * one + 0.5 * second.pdf(y[:, 0]) * first.pdf(y[:, 1])

    @property
    def grid(self):
        """The values of targets at which the oracle is computed."""
        axis = np.linspace(-4.5, 4.5, 181)
        return np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)


LAWS = {"branches": Branches, "fan": Fan, "ring": Ring, "skewed": Skewed, "two targets": TwoTargets}


def oracle_size(law, X):
    """Return the mean size of the true highest-density regions."""
    grid = law.grid
    cell = grid[1] - grid[0] if grid.ndim == 1 else (grid[1, 0] - grid[0, 0]) ** 2
    sizes = []
    for rows in np.array_split(X, -(-len(X) // 50)):
        heights = -np.sort(-law.pdf(rows, grid), axis=1)
        sums = np.cumsum(heights, axis=1)
        inside = sums < CONFIDENCE * sums[:, -1:]
        sizes.append((inside.sum(axis=1) + 1) * cell)
    return float(np.concatenate(sizes).mean())


# Methods: functions of training and test rows that return coverage and mean size


def ours(kind, X, y, X_test, y_test):
    """Return the coverage and size of our regions or intervals."""
    model = DensityRegressor().fit(X, y)
    if kind == "region":
        inside = model.predict_region(X_test, CONFIDENCE).contains(y_test)
        return inside.mean(), model.predict_region(X_test[:N_SIZED], CONFIDENCE).size().mean()
    ends = model.predict_interval(X_test, CONFIDENCE)
    inside = ((y_test >= ends[..., 0]) & (y_test <= ends[..., 1])).reshape(len(y_test), -1)
    return inside.mean(), np.ptp(ends, axis=-1).reshape(len(y_test), -1).prod(axis=1).mean()


def conformal_box(predict, X, y, X_test, y_test):
    """Return coverage and size of boxes that are widened by a conformal quantile of excesses.

    ``predict`` fits a column of targets, and returns a function from rows to low and high ends.
    """
    y, y_test = y.reshape(len(y), -1), y_test.reshape(len(y_test), -1)
    half = len(X) // 2
    fits = [predict(X[:half], column) for column in y[:half].T]

    def ends(rows):
        return np.stack([fit(rows) for fit in fits], axis=-1)

    low, high = ends(X[half:])
    units = np.ptp(y[:half], axis=0)
    excess = np.sort((np.maximum(low - y[half:], y[half:] - high) / units).max(axis=1))
    margin = excess[int(np.ceil(CONFIDENCE * (len(excess) + 1))) - 1] * units
    low, high = ends(X_test)
    inside = ((y_test >= low - margin) & (y_test <= high + margin)).all(axis=1)
    return inside.mean(), np.prod((high - low + 2 * margin).clip(0), axis=1).mean()


def quantiles(X, y):
    """Fit gradient boosting to two quantiles."""
    models = [
        GradientBoostingRegressor(loss="quantile", alpha=q, random_state=0).fit(X, y)
        for q in ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2)
    ]
    return lambda rows: np.sort([each.predict(rows) for each in models], axis=0)


def forest(X, y):
    """Fit a forest to the mean."""
    model = RandomForestRegressor(min_samples_leaf=5, random_state=0).fit(X, y)
    return lambda rows: np.tile(model.predict(rows), (2, 1))


def mapie(X, y, X_test, y_test):
    """Return the coverage and size of MAPIE's CV+ intervals; NaN for two targets."""
    from mapie.regression import CrossConformalRegressor

    if y.ndim == 2:
        return np.nan, np.nan
    estimator = RandomForestRegressor(min_samples_leaf=5, random_state=0)
    model = CrossConformalRegressor(estimator, confidence_level=CONFIDENCE, random_state=0)
    low, high = model.fit_conformalize(X, y).predict_interval(X_test)[1][:, :, 0].T
    return ((y_test >= low) & (y_test <= high)).mean(), (high - low).mean()


METHODS = {
    "region": partial(ours, "region"),
    "interval": partial(ours, "interval"),
    "quantiles": partial(conformal_box, quantiles),
    "forest": partial(conformal_box, forest),
}
if find_spec("mapie"):
    METHODS["MAPIE"] = mapie


def tables():
    """Yield names, features and targets of tables."""
    X, y = load_diabetes(return_X_y=True)
    yield "diabetes", X, y
    yield "diabetes, 2 features", X[:, [2, 8]], y
    columns = load_breast_cancer().data
    # The mean radius and texture, given smoothness and concavity.
    yield "breast cancer, 2 targets", columns[:, [4, 6]], columns[:, :2]


def print_row(*cells):
    """Print a row of a table; numbers have three decimals, NaN is a dash."""
    texts = (
        each if isinstance(each, str) else "-" if np.isnan(each) else f"{each:.3f}"
        for each in cells
    )
    print("|", " | ".join(texts), "|", flush=True)


def measured(name, splits):
    """Print and return mean coverage and size (n_methods, 2) over training and test rows."""
    found = np.array([[method(*split) for method in METHODS.values()] for split in splits])
    means = found.mean(axis=0)
    report(name, *(f"{each}: {values}" for each, values in zip(METHODS, means, strict=True)))
    return means


def main():
    """Print coverage and size of all methods."""
    parser = ArgumentParser()
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--laws", default=",".join(LAWS))
    options = parser.parse_args()
    head = [text for name in METHODS for text in (f"{name}, coverage", "size")]
    print_row("law", "oracle, size", *head)
    print_row(*["---"] * (len(head) + 2))
    for name in filter(None, options.laws.split(",")):
        law, splits, sizes = LAWS[name](), [], []
        for seed in range(options.draws):
            rng = RandomState(seed)
            splits.append((*law.draw(N_TRAIN, rng), *law.draw(N_TEST, rng)))
            sizes.append(oracle_size(law, splits[-1][2][:N_SIZED]))
        found, size = measured(name, splits), np.mean(sizes)
        print_row(name, size, *found.ravel())
        check_coverage(name, found)
        BARS.check("size, ratio to the oracle", found[0, 1] / size, name)
    for name, X, y in tables():
        splits = []
        for seed in range(options.draws):
            train, test = np.split(RandomState(seed).permutation(len(X)), [2 * len(X) // 3])
            splits.append((X[train], y[train], X[test], y[test]))
        print_row(name, "-", *measured(name, splits).ravel())


def check_coverage(name, found):
    """Check the bars of our regions and intervals."""
    for kind, coverage in zip(METHODS, found[:2, 0], strict=False):
        BARS.check("coverage, least", coverage, f"{name}, {kind}")
        BARS.check("coverage, most", coverage, f"{name}, {kind}")


def bent(n, n_features, seed):
    """Draw features, and a target on two branches."""
    rng = RandomState(seed)
    X = rng.uniform(-2, 2, size=(n, n_features - 1))
    y = rng.choice([-1, 1], size=n) * X[:, 0] + X[:, 1] ** 2 + 0.2 * rng.standard_normal(n)
    return X, y


def costs():
    """Print the CPU time and the memory of conditionals of 10,000 rows."""
    questions = {
        "quantiles": lambda rows, y: rows.ppf([0.05, 0.5, 0.95]),
        "means": lambda rows, y: rows.mean(),
        "log densities": lambda rows, y: rows.logpdf(y),
        "samples": lambda rows, y: rows.sample(10, random_state=0),
        "probabilities": lambda rows, y: rows.cdf(y),
        "regions": lambda rows, y: rows.hdr_intervals(0.9),
        "modes": lambda rows, y: rows.mode(),
    }
    print_row("rows", "kernels", *(f"{name}, CPU s" for name in questions), "MB")
    print_row(*["---"] * (len(questions) + 3))
    for n, n_features in ((1000, 3), (3000, 5)):
        density = AutoROME().fit(np.column_stack(bent(n, n_features, 0))).density_
        X, y = bent(10_000, n_features, 1)

        def ask(question, n_rows, density=density, X=X, y=y):
            return question(density.conditional(dict(enumerate(X[:n_rows].T))), y[:n_rows])

        seconds, memory = [], 0.0
        for question in questions.values():
            ask(question, 9)  # compiles
            seconds.append(best_of(partial(ask, question, len(X)), 1))
            tracemalloc.start()
            ask(question, len(X))
            memory = max(memory, tracemalloc.get_traced_memory()[1] / 1e6)
            tracemalloc.stop()
        name = f"{n:,} x {n_features}"
        print_row(name, str(density.n_kernels), *seconds, memory)
        for question, each in zip(questions, seconds, strict=True):
            BARS.check("CPU ms of a row", 1e3 * each / len(X), f"{question}, {name}")
        BARS.check("CPU ms of a row", 1e3 * sum(seconds[:5]) / len(X), f"the first five, {name}")
        BARS.check("MB of 10,000 rows", memory, name)
    sys.exit(BARS.verdict())


if __name__ == "__main__":
    BARS.run(main, {"costs": costs})

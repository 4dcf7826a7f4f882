"""AutoROME with a map for every feature, beside AutoROME without and an earlier version of it.

Start it with ``make bench-transform``. Gains are differences of the mean log density of held-out
rows, in nats. The earlier version, whose members had normal scores of their own, runs in a process
that imports the package from another folder: ``python -m benchmarks.transforms FOLDER``.
"""

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from benchmarks.contest.data import SETS, standardized
from benchmarks.measuring import Bars, best_of
from numpy.random import RandomState

from sevenhills import AutoROME, datasets

BARS = Bars(
    at_least={"sets": 40, "mean gain": 0.3, "mean gain over the earlier version": 0.0},
    at_most={
        "loss": 0.05,
        "loss without skewness": 0.005,
        "median bias of held_out_": 0.05,
        "time of a score, ratio": 1.3,
        "time of all fits, ratio to the earlier version": 1.0,
    },
)
N_TEST = 2000
#: Kinds of sets without skewness.
PLAIN = ("gaussian", "mixture")


def _correlated(rng, n, n_features, seed=0):
    """Normal variables with random correlations, which the seed fixes."""
    root = RandomState(seed).standard_normal((n_features, n_features + 2))
    root /= np.linalg.norm(root, axis=1, keepdims=True)
    return rng.standard_normal((n, n_features + 2)) @ root.T


def _blobs(n_components, n_features, spread, seed):
    fixed = RandomState(seed)
    centers = spread * fixed.standard_normal((n_components, n_features))
    roots = 0.5 * fixed.standard_normal((n_components, n_features, n_features))

    def draw(n, rng):
        which = rng.randint(n_components, size=n)
        noise = rng.standard_normal((n, n_features))
        return centers[which] + np.einsum("nij,nj->ni", roots[which], noise)

    return draw


# Skewed features, heavy tails


def _skewed(n_features, seed):
    """Correlated features, each a power or an exponential of a normal variable."""
    rates = RandomState(seed).uniform(0.3, 1.2, size=n_features)

    def draw(n, rng):
        return np.exp(rates * _correlated(rng, n, n_features, seed))

    return draw


def _incomes(n, rng):
    """Draw income, wealth and debt: skewed, with a common factor."""
    z = _correlated(rng, n, 3, 31)
    return np.column_stack(
        [np.exp(0.6 * z[:, 0]), np.exp(1.5 * z[:, 1]), np.exp(z[:, 2] + z[:, 0])]
    )


def _half_skewed(n, rng):
    """Draw three normal features and three skewed ones that depend on them."""
    z = _correlated(rng, n, 6, 32)
    return np.column_stack([z[:, :3], np.exp(z[:, 3:])])


def _skewed_clusters(n, rng):
    """Draw two clusters of gamma variables."""
    which = rng.randint(2, size=n)
    return rng.gamma(2.0, size=(n, 3)) + 12.0 * which[:, None]


def _shares(n, rng):
    """Draw three of four shares of a whole."""
    return rng.dirichlet([0.8, 1.5, 3.0, 6.0], size=n)[:, :3]


def _tails(n_features, dof):
    def draw(n, rng):
        normal = _correlated(rng, n, n_features, 33)
        return normal * np.sqrt(dof / rng.chisquare(dof, size=(n, n_features)))

    return draw


def _contaminated(n, rng):
    """Draw normal variables, of which a tenth is six times as wide."""
    return rng.standard_normal((n, 4)) * np.where(rng.uniform(size=(n, 4)) < 0.1, 6.0, 1.0)


# Repeated and rounded values


def _slabs(n_features, share, width, seed):
    """Skewed features with many values in a narrow slab, such as zeros with measurement noise."""

    def draw(n, rng):
        z = _correlated(rng, n, n_features, seed)
        low = np.quantile(RandomState(seed).standard_normal(9999), share)
        jitter = width * rng.uniform(-1, 1, size=z.shape)
        return np.where(z < low, jitter, np.expm1(z - low) + jitter)

    return draw


def _zeros(n, rng):
    """Draw amounts of which four in ten are exactly zero, and two measures."""
    z = _correlated(rng, n, 3, 41)
    return np.column_stack([np.expm1(np.maximum(z[:, 0] + 0.25, 0.0)), z[:, 1], np.exp(z[:, 2])])


def _capped(n, rng):
    """Draw a measure with exact values at a limit of detection."""
    z = _correlated(rng, n, 2, 42)
    return np.column_stack([np.maximum(z[:, 0], -0.5), z[:, 1]])


def _counts(n, rng):
    """Draw counts with a common rate, and an age in years."""
    rate = rng.gamma(2.0, 4.0, size=n)
    age = np.round(np.clip(40 + 12 * rng.standard_normal(n), 18, 90))
    return np.column_stack([rng.poisson(rate), rng.poisson(2 * rate + 3), age])


def _prices(n, rng):
    """Draw prices in tens, areas in square meters and distances in hundred meters."""
    z = _correlated(rng, n, 3, 43)
    price, area = np.exp(5 + 0.6 * z[:, 0]), np.exp(4 + 0.4 * z[:, 1] + 0.3 * z[:, 0])
    return np.column_stack(
        [10 * np.round(price / 10), np.round(area), np.round(np.exp(2 + z[:, 2]), 1)]
    )


def _rounded_normal(n, rng):
    return np.round(10 * _correlated(rng, n, 3, 44))


# Near-copies


def _copies(noise, bend, n_copies):
    """A skewed feature and copies of it with little noise, in proportion to its size or not."""

    def draw(n, rng):
        x = np.exp(0.8 * rng.standard_normal(n)) if bend else rng.standard_normal(n)
        size = x[:, None] if bend == "relative" else 1.0
        near = x[:, None] + noise * size * rng.standard_normal((n, n_copies))
        return np.column_stack([x, near, rng.standard_normal(n)])

    return draw


def _copies_among_others(n, rng):
    """Draw three near-copies beside three skewed features that they depend on a little."""
    z = _correlated(rng, n, 4, 45)
    x = np.exp(0.6 * z[:, 0])
    near = x[:, None] + 0.02 * rng.standard_normal((n, 2))
    return np.column_stack([x, near, np.exp(z[:, 1:])])


def _sums(n, rng):
    """Draw skewed parts and their sum, which has a small error."""
    parts = rng.gamma(1.5, size=(n, 3))
    return np.column_stack([parts, parts.sum(axis=1) + 0.05 * rng.standard_normal(n)])


def _areas(n, rng):
    """Draw radius, perimeter and area of cells with small errors."""
    radius = np.exp(2 + 0.3 * rng.standard_normal(n))
    errors = np.exp(0.02 * rng.standard_normal((n, 2)))
    return np.column_stack([radius, 2 * np.pi * radius, np.pi * radius**2]) * np.column_stack(
        [np.ones(n), errors]
    )


# Realistic tables


def _claims(n, rng):
    """Draw age, car value, kilometers, number of years without claim, and size of claim."""
    z = _correlated(rng, n, 4, 51)
    age = np.clip(45 + 14 * z[:, 0], 18, 85)
    value = np.exp(9.5 + 0.5 * z[:, 1] + 0.01 * age)
    years = np.minimum(rng.poisson(np.maximum(age - 18, 0) / 4), 15)
    claim = np.exp(7 + 1.1 * z[:, 3] + 0.3 * z[:, 1])
    return np.column_stack([np.round(age), value, 1e3 * rng.gamma(4, 4, size=n), years, claim])


def _houses(n, rng):
    """Draw area, lot, distance to the center, age and price of houses."""
    z = _correlated(rng, n, 4, 52)
    area = np.exp(4.8 + 0.35 * z[:, 0])
    lot = area * np.exp(1.2 + 0.7 * z[:, 1])
    distance, age = rng.gamma(2, 4, size=n), 60 * rng.beta(1, 2, size=n)
    price = 2000 * area * np.exp(-0.03 * distance - 0.005 * age + 0.15 * z[:, 3])
    return np.column_stack([area, lot, distance, age, price])


def _weather(n, rng):
    """Draw temperature, humidity, wind, pressure and rain, which is mostly almost zero."""
    season = rng.uniform(0, 2 * np.pi, size=n)
    z = _correlated(rng, n, 4, 53)
    temperature = 10 - 9 * np.cos(season) + 4 * z[:, 0]
    humidity = 100 / (1 + np.exp(-(1 + 0.8 * z[:, 1] - 0.05 * temperature)))
    rain = np.where(z[:, 3] > 0.5, np.exp(z[:, 3] + 0.5 * z[:, 1]), 0.0)
    rain = rain + 0.02 * rng.uniform(size=n)
    wind, pressure = np.exp(1 + 0.5 * z[:, 2]), 1013 + 8 * z[:, 3]
    return np.column_stack([temperature, humidity, wind, pressure, rain])


def _clinic(n, rng):
    """Draw laboratory values: some normal, some skewed, by two groups."""
    ill = rng.uniform(size=n) < 0.3
    z = _correlated(rng, n, 7, 54) + 0.8 * ill[:, None]
    return np.column_stack([np.exp(0.4 * z[:, :3]), z[:, 3:5], np.exp(1.1 * z[:, 5:])])


def _sensors(n, rng):
    """Draw the readings of a machine: two states, drifts, a saturated gauge."""
    on = rng.uniform(size=n) < 0.6
    load = np.where(on, 50 + 15 * rng.standard_normal(n), 2 * rng.gamma(1, 1, size=n))
    heat = 20 + 0.6 * load + 3 * rng.standard_normal(n)
    gauge = np.minimum(load + 2 * rng.standard_normal(n), 70 + 0.05 * rng.standard_normal(n))
    return np.column_stack([load, heat, gauge, rng.gamma(3, 1 + on, size=n)])


def _commutes(n, rng):
    """Draw distance, duration and cost of ways to work."""
    distance = np.exp(2 + 0.9 * rng.standard_normal(n))
    duration = 8 + distance * np.exp(0.5 + 0.35 * rng.standard_normal(n))
    return np.column_stack([distance, duration, 0.3 * distance + rng.gamma(2, 0.5, size=n)])


def _retail(n, rng):
    """Draw visits, articles, expenses and days since the last visit of customers."""
    rate = rng.gamma(1.2, 5.0, size=n)
    visits = 1 + rng.poisson(rate)
    articles = rng.poisson(3.0 * visits) + 1
    expense = articles * np.exp(2 + 0.5 * rng.standard_normal(n))
    return np.column_stack([visits, articles, expense, rng.exponential(200 / visits)])


def _soil(n, rng):
    """Draw shares of sand, silt and clay, acidity, and a content that depends on them."""
    sand, silt, _ = rng.dirichlet([4.0, 3.0, 1.5], size=n).T
    acid = 6 + 0.8 * rng.standard_normal(n)
    carbon = np.exp(0.5 * rng.standard_normal(n) + 2 * silt - 0.2 * acid)
    return np.column_stack([sand, silt, acid, carbon])


# scikit-learn's tables


def _table(name, columns=slice(None)):
    def load():
        from sklearn import datasets as tables

        return getattr(tables, f"load_{name}")().data[:, columns]

    return load


#: name: (kind, number of training rows, draw), or (kind, None, load) for a table.
OWN = {
    "normal1": ("gaussian", 400, lambda n, rng: rng.standard_normal((n, 1))),
    "normal3": ("gaussian", 500, lambda n, rng: _correlated(rng, n, 3, 1)),
    "normal10": ("gaussian", 300, lambda n, rng: _correlated(rng, n, 10, 2)),
    "normal20": ("gaussian", 600, lambda n, rng: _correlated(rng, n, 20, 3)),
    "blobs2": ("mixture", 800, _blobs(4, 2, 3.0, 4)),
    "blobs2 of 8": ("mixture", 1000, _blobs(8, 2, 3.0, 5)),
    "blobs5": ("mixture", 800, _blobs(3, 5, 2.0, 6)),
    "blobs8": ("mixture", 800, _blobs(5, 8, 1.0, 7)),
    "exponential1": ("skewed", 500, lambda n, rng: rng.exponential(size=(n, 1))),
    "gamma4": ("skewed", 500, lambda n, rng: rng.gamma(1.5, size=(n, 4))),
    "lognormal3": ("skewed", 500, _skewed(3, 8)),
    "lognormal8": ("skewed", 600, _skewed(8, 9)),
    "lognormal20": ("skewed", 400, _skewed(20, 10)),
    "few skewed rows": ("skewed", 80, _skewed(5, 11)),
    "incomes": ("skewed", 700, _incomes),
    "half skewed": ("skewed", 500, _half_skewed),
    "skewed clusters": ("skewed", 800, _skewed_clusters),
    "shares": ("skewed", 600, _shares),
    "t3, 1 feature": ("tails", 500, _tails(1, 3.0)),
    "t3, 4 features": ("tails", 700, _tails(4, 3.0)),
    "laplace": ("tails", 600, lambda n, rng: rng.laplace(size=(n, 3))),
    "contaminated": ("tails", 700, _contaminated),
    "slabs4": ("atoms", 700, _slabs(4, 0.5, 0.01, 12)),
    "slabs6": ("atoms", 500, _slabs(6, 0.3, 0.02, 13)),
    "slab1": ("atoms", 400, _slabs(1, 0.6, 0.005, 14)),
    "zeros": ("atoms", 600, _zeros),
    "capped": ("atoms", 500, _capped),
    "counts": ("rounded", 600, _counts),
    "prices": ("rounded", 600, _prices),
    "rounded normal": ("rounded", 600, _rounded_normal),
    "copies": ("copies", 500, _copies(0.02, None, 2)),
    "skewed copies": ("copies", 500, _copies(0.03, "absolute", 2)),
    "relative copies": ("copies", 500, _copies(0.03, "relative", 2)),
    "four copies": ("copies", 600, _copies(0.05, "absolute", 4)),
    "copies among others": ("copies", 600, _copies_among_others),
    "sums": ("copies", 600, _sums),
    "areas": ("copies", 500, _areas),
    "claims": ("table", 700, _claims),
    "houses": ("table", 700, _houses),
    "weather": ("table", 700, _weather),
    "clinic": ("table", 600, _clinic),
    "sensors": ("table", 800, _sensors),
    "commutes": ("table", 500, _commutes),
    "retail": ("table", 700, _retail),
    "soil": ("table", 500, _soil),
    "iris": ("table", None, _table("iris")),
    "wine": ("table", None, _table("wine")),
    "diabetes": ("table", None, _table("diabetes")),
    "breast cancer": ("table", None, _table("breast_cancer")),
    "digits": ("table", None, _table("digits", [19, 20, 27, 28, 35, 36, 43, 44])),
}
#: Sets of the contest, and distributions of the package with the number of training rows.
CONTEST = {"cube3": "mixture", "copula6": "skewed", "lattice2": "rounded", "student5": "tails"}
CONTEST |= {"spiral2": "mixture", "lognormal1": "skewed", "checkerboard2": "mixture"}
PACKAGE = {"aniso": 1000, "varied": 1000, "gaussian": 1000, "two_moons": 1000}


def split(name):
    """Return the kind of a set, and standardized training and test rows."""
    if name in CONTEST:
        return CONTEST[name], *SETS[name].split(0)
    if name in PACKAGE:
        train, test = datasets.load(name).split(run=0, n_samples=PACKAGE[name])
        return "mixture", *standardized(train, test)
    kind, n_train, source = OWN[name]
    if n_train is None:
        rows = source()
        order = RandomState(0).permutation(len(rows))
        n_train = int(0.7 * len(rows))
        return kind, *standardized(rows[order[:n_train]], rows[order[n_train:]])
    # The parameters of a set are fixed by seeds of their own.
    draws = (source(n, RandomState(seed)) for n, seed in ((n_train, 1), (N_TEST, 2)))
    return kind, *standardized(*draws)


NAMES = (*OWN, *CONTEST, *PACKAGE)


def fitted(train, **parameters):
    """Return a fit and its CPU time."""
    start = time.process_time()
    model = AutoROME(**parameters).fit(train)
    return model, time.process_time() - start


def earlier():
    """Print score and CPU time of every set, one line each."""
    warm_up()
    for name in NAMES:
        _, train, test = split(name)
        model, seconds = fitted(train)
        print(json.dumps([name, model.score(test), seconds]), flush=True)


def warm_up():
    """Compile, so that no set is charged for it."""
    AutoROME().fit(RandomState(0).standard_normal((400, 2)) ** 2)


def run_earlier(folder):
    """Run another version of the package, and return its scores and CPU times by set."""
    environment = dict(os.environ, PYTHONPATH=str(Path(folder) / "src"))
    command = [sys.executable, "-m", "benchmarks.transforms", "earlier"]
    root = Path(__file__).parent.parent
    output = subprocess.run(
        command, check=True, capture_output=True, text=True, cwd=root, env=environment
    ).stdout
    return {name: tuple(rest) for name, *rest in map(json.loads, output.splitlines())}


def print_sets(before):
    """Print the gain of every set, and check the bars of all."""
    print(
        "| set | kind | rows | features | mapped | gain | over the earlier | held_out_ - score ",
        end="",
    )
    print("| CPU s | earlier, CPU s |")
    print("|---" * 10 + "|")
    rows = []
    for name in NAMES:
        kind, train, test = split(name)
        plain, _ = fitted(train, maps=None)
        auto, seconds = fitted(train)
        score, (old_score, old_seconds) = auto.score(test), before.get(name, (np.nan, np.nan))
        gain, over, bias = score - plain.score(test), score - old_score, auto.held_out_ - score
        rows.append((gain, over, bias, seconds, old_seconds))
        BARS.check("loss without skewness" if kind in PLAIN else "loss", -gain, name)
        print(
            f"| {name} | {kind} | {len(train)} | {train.shape[1]} | {describe(auto)} | {gain:.3f} "
            f"| {over:.3f} | {bias:.3f} | {seconds:.2f} | {old_seconds:.2f} |",
            flush=True,
        )
    gains, over, biases, seconds, old_seconds = np.transpose(rows)
    BARS.check("sets", len(gains))
    BARS.check("mean gain", gains.mean())
    BARS.check("median bias of held_out_", abs(np.median(biases)))
    print(f"\nmean gain {gains.mean():.3f}, least {gains.min():.3f}; ", end="")
    print(f"median of held_out_ - score {np.median(biases):.3f}")
    if before:
        ratio = seconds.sum() / old_seconds.sum()
        BARS.check("mean gain over the earlier version", over.mean())
        BARS.check("time of all fits, ratio to the earlier version", ratio)
        print(
            f"over the earlier version: mean gain {over.mean():.3f}, least {over.min():.3f}; "
            f"time of all fits, ratio {ratio:.2f}"
        )


def describe(auto):
    """Return the number of power maps and of tables."""
    kinds = [type(each).__name__ for each in auto.density_.maps or ()]
    found = {"power": kinds.count("YeoJohnson"), "table": kinds.count("TableMap")}
    return ", ".join(f"{number} {kind}" for kind, number in found.items() if number) or "-"


def print_scores():
    """Print what log densities cost with maps, beside the same kernels without.

    The sets are those with many kernels: of a few kernels, the sums cost less than the maps.
    """
    print("\n| set | kernels | rows | with maps, s | without, s | ratio |")
    print("|---" * 6 + "|")
    for name in ("weather", "clinic", "digits", "breast cancer"):
        _, train, test = split(name)
        density = AutoROME().fit(train).density_
        rows = np.concatenate([test] * -(-N_TEST // len(test)))
        pairs = (density, rows), (replace(density, maps=None), latent(density, rows))
        mapped, plain = (best_of(partial(each.logpdf, X), 9) for each, X in pairs)
        BARS.check("time of a score, ratio", mapped / plain, name)
        print(
            f"| {name} | {density.n_kernels} | {len(rows)} | {mapped:.4f} | {plain:.4f} "
            f"| {mapped / plain:.2f} |"
        )


def latent(density, rows):
    """Return the latent coordinates of rows."""
    pairs = zip(density.maps, rows.T, strict=True)
    return np.stack([each.forward(x) for each, x in pairs], axis=1)


def main():
    """Print all tables."""
    folders = sys.argv[1:2]
    before = run_earlier(folders[0]) if folders else {}
    warm_up()
    print_sets(before)
    print_scores()


if __name__ == "__main__":
    BARS.run(main, {"earlier": earlier})

"""Held-out log density with declared supports and without, beside the usual methods.

``python -m benchmarks.supports`` prints three tables of markdown. The first two have a row for each
set: 12 laws of bounded, positive and circular features whose density is known, and 8 tables:
waiting times, claims, shares, winds, hours of the day and torsion angles that code makes, and two
that scikit-learn ships. A number is a mean held-out log density in nats; for laws it is relative to
that of the law itself. The third table has the time of scores under ROME with a support, beside
that of the same kernels without it. ``--getdist PYTHON`` names an interpreter that has getdist,
which is asked about two features.
"""

import argparse
import functools
import itertools
import json
import subprocess
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from benchmarks.measuring import Bars, best_of
from pyvinecopulib.core import Kde1d
from scipy import stats
from sklearn import datasets

from sevenhills import ROME, AutoROME

BARS = Bars(at_most={"loss by a support": 0.01})
N_TRAIN, N_TEST = 1000, 4000
#: The splits of a short table for every draw of the others.
SPLITS = 5
CIRCLE = ("circular", 360.0)
RADIANS = ("circular", 2 * np.pi)
DAY = ("circular", 24.0)
POSITIVE, SHARE = (0.0, None), (0.0, 1.0)


class Law(NamedTuple):
    """Samples of a law, and its log density if it is known."""

    support: dict
    draw: Callable  #: from a number of samples and a generator
    logpdf: Callable | None = None


def of_scipy(support: tuple, *marginals) -> Law:
    """Return independent features of one support."""
    return Law(
        dict.fromkeys(range(len(marginals)), support),
        lambda n, rng: np.column_stack([each.rvs(n, random_state=rng) for each in marginals]),
        lambda X: sum(each.logpdf(x) for each, x in zip(marginals, X.T, strict=True)),
    )


def two_winds() -> Law:
    """Return two directions, one of them across north."""
    parts = [(0.6, stats.vonmises(4.0, loc=0.1)), (0.4, stats.vonmises(10.0, loc=2.5))]

    def draw(n, rng):
        chosen = rng.uniform(size=n) < parts[0][0]
        x, y = (part.rvs(n, random_state=rng) for _, part in parts)
        return np.mod(np.where(chosen, x, y), 2 * np.pi)[:, None]

    def logpdf(X):
        return np.log(sum(w * part.pdf(X[:, 0]) for w, part in parts))

    return Law({0: RADIANS}, draw, logpdf)


def torus() -> Law:
    """Return two correlated angles, a normal variable that is wrapped around both circles."""
    normal = stats.multivariate_normal([0.0, 3.0], [[0.8, 0.5], [0.5, 0.6]])
    turns = 2 * np.pi * np.stack(np.meshgrid([-2, -1, 0, 1, 2], [-2, -1, 0, 1, 2]), -1)

    def logpdf(X):
        images = X[:, None] + turns.reshape(-1, 2)
        return np.logaddexp.reduce(normal.logpdf(images), axis=1)

    draw = lambda n, rng: np.mod(normal.rvs(n, random_state=rng), 2 * np.pi)  # noqa: E731
    return Law({0: RADIANS, 1: RADIANS}, draw, logpdf)


def von_mises() -> Law:
    """Return directions around zero."""
    law = stats.vonmises(2.0)
    draw = lambda n, rng: np.mod(law.rvs((n, 1), random_state=rng), 2 * np.pi)  # noqa: E731
    return Law({0: RADIANS}, draw, lambda X: law.logpdf(X[:, 0]))


LAWS = {
    "exponential": of_scipy(POSITIVE, stats.expon()),
    "gamma(2)": of_scipy(POSITIVE, stats.gamma(2.0)),
    "lognormal": of_scipy(POSITIVE, stats.lognorm(1.0)),
    "half-normal": of_scipy(POSITIVE, stats.halfnorm()),
    "uniform": of_scipy(SHARE, stats.uniform()),
    "beta(.5, .5)": of_scipy(SHARE, stats.beta(0.5, 0.5)),
    "beta(2, 5)": of_scipy(SHARE, stats.beta(2.0, 5.0)),
    "von Mises": von_mises(),
    "two von Mises": two_winds(),
    "uniform square": of_scipy(SHARE, stats.uniform(), stats.uniform()),
    "two exponentials": of_scipy(POSITIVE, stats.expon(), stats.expon(scale=3.0)),
    "wrapped normal": torus(),
}


def waiting_times(n, rng):
    """Return waiting and service times of two kinds of customers."""
    is_short = rng.uniform(size=n) < 0.6
    wait = rng.exponential(np.where(is_short, 2.0, 12.0))
    return np.column_stack([wait, rng.gamma(3.0, np.where(is_short, 1.0, 4.0))])


def claims(n, rng):
    """Return the amounts of claims and the ages of cars, which are related."""
    age = rng.gamma(2.0, 4.0, n)
    return np.column_stack([rng.lognormal(7.0 + 0.05 * age, 0.9), age])


def shares(n, rng):
    """Return two of three shares of a budget, with many near zero."""
    return rng.dirichlet([0.8, 2.0, 3.0], n)[:, :2]


def winds(n, rng):
    """Return directions and speeds of the wind: strong from the north, weak from elsewhere."""
    is_strong = rng.uniform(size=n) < 0.5
    heading = np.where(is_strong, rng.normal(0, 25, n), rng.normal(200, 40, n)) % 360
    return np.column_stack([heading, rng.weibull(2.0, n) * np.where(is_strong, 9.0, 4.0)])


def hours(n, rng):
    """Return hours of arrivals around midnight and in the morning, and the lengths of stays."""
    is_night = rng.uniform(size=n) < 0.4
    hour = np.where(is_night, rng.normal(23.7, 1.2, n), rng.normal(8.5, 1.0, n)) % 24
    return np.column_stack([hour, rng.exponential(np.where(is_night, 6.0, 1.5))])


def torsions(n, rng):
    """Return pairs of angles in three groups, one of them across the ends of both circles."""
    centers = np.array([[-65.0, -40.0], [-120.0, 135.0], [178.0, 178.0]])
    steps = rng.normal(size=(n, 2)) @ np.array([[14.0, -6.0], [0.0, 11.0]])
    return (centers[rng.choice(3, n, p=[0.5, 0.35, 0.15])] + steps) % 360


def shipped(load, *columns):
    """Return some columns of a table of scikit-learn, in another order of rows."""

    def draw(n, rng):
        X = load().data[:, list(columns)]
        return X[rng.permutation(len(X))]

    return draw


TABLES = {
    "waiting times": Law({0: POSITIVE, 1: POSITIVE}, waiting_times),
    "claims": Law({0: POSITIVE, 1: POSITIVE}, claims),
    "shares": Law({0: SHARE, 1: SHARE}, shares),
    "winds": Law({0: CIRCLE, 1: POSITIVE}, winds),
    "hours and stays": Law({0: DAY, 1: POSITIVE}, hours),
    "torsion angles": Law({0: CIRCLE, 1: CIRCLE}, torsions),
    "breast cancer": Law(
        dict.fromkeys(range(4), POSITIVE), shipped(datasets.load_breast_cancer, 0, 5, 6, 10)
    ),
    "iris": Law(dict.fromkeys(range(4), POSITIVE), shipped(datasets.load_iris, 0, 1, 2, 3)),
}


def split(law: Law, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return samples to fit and held-out ones; a table of scikit-learn is halved."""
    X = law.draw(N_TRAIN + N_TEST, np.random.RandomState(seed))
    n_train = min(N_TRAIN, len(X) // 2)
    return X[:n_train], X[n_train:]


def scores(law: Law, train: np.ndarray, test: np.ndarray, getdist: str | None) -> dict:
    """Return the mean held-out log densities of all methods that apply."""
    found = {
        f"{recipe.__name__}{'' if support is None else ' with support'}": recipe(support=support)
        .fit(train)
        .score(test)
        for recipe in (ROME, AutoROME)
        for support in (None, law.support)
    }
    found["scipy"] = stats.gaussian_kde(train.T).logpdf(test.T).mean()
    is_bounded = all(each[0] != "circular" for each in law.support.values())
    if train.shape[1] == 1 and is_bounded:
        low, high = law.support[0]
        kde = Kde1d(low, np.nan if high is None else high)
        kde.fit(train[:, 0])
        with np.errstate(divide="ignore"):
            found["Kde1d"] = np.log(kde.pdf(test[:, 0])).mean()
    if train.shape[1] == 2 and is_bounded and getdist:
        found["getdist"] = getdist_score(law, train, test, getdist)
    return {name: float(value) for name, value in found.items()}


#: Runs in an environment with getdist; its densities are normalized to a largest value of one.
_GETDIST = """
import json, sys
import numpy as np
from getdist import MCSamples

folder, ranges = sys.argv[1], json.loads(sys.argv[2])
train, test = np.load(folder + "/train.npy"), np.load(folder + "/test.npy")
samples = MCSamples(samples=train, names=["a", "b"], ranges=dict(zip("ab", ranges)))
density = samples.get2DDensity("a", "b")
density.normalize("integral")
values = [float(density.Prob(*row)) for row in test]
print(json.dumps(float(np.log(np.maximum(values, 1e-10)).mean())))
"""


def getdist_score(law: Law, train: np.ndarray, test: np.ndarray, python: str) -> float:
    """Return the mean held-out log density of getdist, at least log(1e-10) for a sample."""
    ranges = json.dumps([law.support[j] for j in range(2)])
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "train.npy", train)
        np.save(Path(folder) / "test.npy", test)
        command = [python, "-c", _GETDIST, folder, ranges]
        run = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(run.stdout.splitlines()[-1])


METHODS = (
    "ROME",
    "ROME with support",
    "AutoROME",
    "AutoROME with support",
    "scipy",
    "Kde1d",
    "getdist",
)


def print_table(title: str, laws: dict, getdist: str | None, n_seeds: int) -> None:
    """Print the mean scores of all methods on every set, and check what a support loses."""
    print(f"\n{title}\n\n| set | {' | '.join(METHODS)} |\n|---|{'---|' * len(METHODS)}", flush=True)
    for name, law in laws.items():
        rows = []
        # The tables of scikit-learn are short, so that one split says little.
        is_short = len(split(law, 0)[0]) < N_TRAIN
        for seed in range(SPLITS * n_seeds if is_short else n_seeds):
            train, test = split(law, seed)
            row = scores(law, train, test, getdist)
            truth = 0.0 if law.logpdf is None else float(np.mean(law.logpdf(test)))
            rows.append({method: value - truth for method, value in row.items()})
        means = {method: np.mean([row[method] for row in rows]) for method in rows[0]}
        for recipe in ("ROME", "AutoROME"):
            loss = means[recipe] - means[f"{recipe} with support"]
            BARS.check("loss by a support", loss, f"{recipe}, {name}")
        cells = [f"{means[method]:.3f}" if method in means else "" for method in METHODS]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def print_costs() -> None:
    """Print the time of scores with supports, beside that of the same kernels in latent space."""
    print(
        "\n| support | kernels = scores | with, ms | without, ms | ratio |\n|---|---|---|---|---|"
    )
    rng = np.random.RandomState(0)
    for n, (name, draw, support) in itertools.product((1000, 10_000), COSTS):
        X = draw(rng, n)
        density = ROME(support=support).fit(X).density_
        latent, Z = replace(density, maps=None), density._chart.latent(X)[0]
        pair = [(density, X), (latent, Z)]
        found = [1e3 * best_of(functools.partial(each.logpdf, at), 5) for each, at in pair]
        cells = [name, f"{n:,}", *(f"{each:.1f}" for each in found), f"{found[0] / found[1]:.2f}"]
        print(f"| {' | '.join(cells)} |", flush=True)


#: Names, functions of a generator and a number of samples, and supports, of the table of costs.
COSTS = (
    (
        "log, two features",
        lambda rng, n: rng.lognormal(size=(n, 2)),
        {0: (0, None, "log"), 1: (0, None, "log")},
    ),
    (
        "probit, two features",
        lambda rng, n: rng.beta(0.5, 0.5, (n, 2)),
        {0: (0, 1, "log"), 1: (0, 1, "log")},
    ),
    ("one mirror", lambda rng, n: rng.exponential(size=(n, 2)), {0: (0, None, "mirror")}),
    (
        "two mirrors",
        lambda rng, n: rng.exponential(size=(n, 2)),
        {0: (0, None, "mirror"), 1: (0, None, "mirror")},
    ),
    (
        "four mirrors",
        lambda rng, n: rng.uniform(size=(n, 2)),
        {0: (0, 1, "mirror"), 1: (0, 1, "mirror")},
    ),
    (
        "directions around north",
        lambda rng, n: np.column_stack([rng.normal(0, 30, n) % 360, rng.normal(size=n)]),
        {0: CIRCLE},
    ),
    (
        "all directions",
        lambda rng, n: np.column_stack([rng.uniform(0, 360, n), rng.normal(size=n)]),
        {0: CIRCLE},
    ),
)


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--getdist", help="an interpreter that has getdist")
    parser.add_argument("--seeds", type=int, default=3, help="number of draws of every set")
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    seeds = f"mean over {given.seeds} draws, up to {N_TRAIN:,} samples to fit"
    print_table(f"Log density minus that of the law, {seeds}", LAWS, given.getdist, given.seeds)
    print_table(f"Log density of tables, {seeds}", TABLES, given.getdist, given.seeds)
    print_costs()


if __name__ == "__main__":
    BARS.run(main)

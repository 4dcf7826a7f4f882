"""Clusters and densities of AutoROME, beside an earlier version of it and ROME.

``python -m benchmarks.clusters [FOLDER] [--out FILE] [--sets NAME,NAME]`` prints the adjusted Rand
index of clusters with known classes, and the mean log density of held-out rows, in nats. FOLDER is
the folder ``src`` of the earlier version, which runs in a process that imports the package from
there. Every fit becomes a row of FILE. Fits that are in FILE are not computed again: delete the
rows of the version "now" after a change of the package.

``python -m benchmarks.clusters before`` only fits AutoROME, as the version "before".
``python -m benchmarks.clusters one`` counts the clusters of laws that have one cluster.
``python -m benchmarks.clusters costs [FOLDER]`` compares the CPU time of fits and scores.
"""

import json
import os
import subprocess
import sys
from argparse import ArgumentParser
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from benchmarks.contest.data import N_TEST, SETS, drawn
from benchmarks.measuring import Bars, best_of
from benchmarks.transforms import OWN, warm_up
from numpy.random import RandomState
from sklearn import datasets as tables
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score

from sevenhills import ROME, AutoROME, datasets

BARS = Bars(
    at_least={"mean Rand index": 0.65, "mean gain": 0.0, "fits with one cluster": 140},
    at_most={"loss": 0.1, "time of a fit, ratio": 0.25, "time of a score, ratio": 0.1},
)
N_TRAIN = 600
SEEDS = range(3)
#: Rows and features of the sets of ``costs``, and features of those of ``one``.
SIZES = ((300, 5), (1000, 2), (1000, 10), (1000, 40), (3000, 24), (10_000, 5))
DIMENSIONS = (1, 2, 5, 10, 24)
#: Log densities of held-out rows below this one are raised to it.
LEAST = -1e4
METHODS = {
    "AutoROME": AutoROME,
    **{f"ROME {each}": partial(ROME, selection=each) for each in (None, "silhouette", "dbcv")},
    "ROME auto": partial(ROME, selection="auto", scale="auto"),
}
COLUMNS = ("AutoROME before", "AutoROME now", *list(METHODS)[1:])
KEYS = ("version", "set", "seed", "method")
report = partial(print, file=sys.stderr, flush=True)
VALUES = ("ari", "score", "clusters", "seconds", "kernels")


def _mixture(centers, roots, shares=None):
    """Return a mixture of Gaussians; ``roots`` are factors of covariances, or one for all."""
    n_components, n_features = np.shape(centers)
    roots = np.broadcast_to(roots, (n_components, n_features, n_features))

    def draw(n, rng):
        y = rng.choice(n_components, size=n, p=shares)
        noise = np.einsum("nij,nj->ni", roots[y], rng.standard_normal((n, n_features)))
        return np.asarray(centers)[y] + noise, y

    return draw


def _random_gaussians(n_components, n_features, spread, seed):
    """Return a mixture of Gaussians with random centers, axes and standard deviations."""
    fixed = RandomState(seed)
    centers = spread * fixed.standard_normal((n_components, n_features))
    axes = np.linalg.qr(fixed.standard_normal((n_components, n_features, n_features)))[0]
    stds = np.exp(fixed.uniform(np.log(0.3), np.log(1.5), size=(n_components, 1, n_features)))
    return _mixture(centers, axes * stds)


def _in_units(n_features):
    """Return round clusters in columns of different units."""
    units = np.logspace(-3, 5, n_features)
    return _mixture(6 * np.eye(3, n_features) * units, np.diag(units))


def _with_columns(columns, n, rng):
    """Draw round clusters and columns that do not depend on the classes."""
    X, y = BLOBS(n, rng)
    return np.column_stack([X, columns(n, rng)]), y


def _noisy_blobs(n, rng):
    """Draw round clusters, and 5 % uniform noise that is a class of its own."""
    X, y = BLOBS(n, rng)
    is_noise = rng.uniform(size=n) < 0.05
    X[is_noise], y[is_noise] = rng.uniform(-6, 14, size=(is_noise.sum(), 2)), 3
    return X, y


def _spirals(n, rng):
    """Draw two interleaved spirals of 1.5 turns, with an outer radius of 1."""
    y = rng.randint(2, size=n)
    radius = np.sqrt(rng.uniform(0.02, 1.0, size=n))
    angle = 3 * np.pi * radius + np.pi * y
    arm = radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    return arm + 0.03 * rng.standard_normal((n, 2)), y


def _trajectories(n, rng):
    """Draw walks in 24 dimensions; the class is the walk under which a row is the most likely."""
    truth = datasets.load("trajectories").truth
    X = truth.sample(n, rng)
    models = [datasets.WalkModel(walk[None], truth.origin) for walk in truth.walks]
    return X, np.argmax([each.logpdf(X) for each in models], axis=0)


def _digits(n_classes):
    """Return images of the first digits along their first eight principal axes."""
    images, y = tables.load_digits(n_class=n_classes, return_X_y=True)
    return PCA(8, svd_solver="full").fit_transform(images), y


def _gaussian(n, rng, n_features):
    """Draw normal variables with random correlations."""
    root = rng.standard_normal((n_features, n_features + 2))
    root /= np.linalg.norm(root, axis=1, keepdims=True)
    return rng.standard_normal((n, n_features + 2)) @ root.T


def _banana(n, rng, n_features):
    """Draw a bent Gaussian, or a chi-square with 4 degrees of freedom in one dimension."""
    if n_features == 1:
        return rng.chisquare(4, size=(n, 1))
    X = rng.standard_normal((n, n_features))
    X[:, 1] += 0.5 * X[:, 0] ** 2
    return X


#: Functions of the number of rows, a generator and the number of columns.
ONE_CLUSTER = {
    "Gaussian": _gaussian,
    "uniform cube": lambda n, rng, d: rng.uniform(size=(n, d)),
    "t3": lambda n, rng, d: _gaussian(n, rng, d) * np.sqrt(3 / rng.chisquare(3, size=(n, 1))),
    "lognormal": lambda n, rng, d: np.exp(0.5 * _gaussian(n, rng, d)),
    "banana": _banana,
}


def _one_class(law, n, rng):
    """Draw three columns of a law with one cluster."""
    return ONE_CLUSTER[law](n, rng, 3), np.zeros(n, dtype=int)


EXTRA_COLUMNS = {
    "t2": lambda n, rng: rng.standard_t(2, size=n),
    "cauchy": lambda n, rng: rng.standard_cauchy(size=n),
    "outliers": lambda n, rng: rng.standard_normal(n) + 1e4 * (rng.uniform(size=n) < 0.01),
    "lognormal": lambda n, rng: rng.lognormal(sigma=2.0, size=n),
    "counts": lambda n, rng: rng.poisson([3.0, 10.0], size=(n, 2)),
}
CORNERS = [[0, 0], [7, 1], [2, 7]]
BLOBS = _mixture(CORNERS, np.eye(2))
WIDTHS, DENSE = (np.multiply.outer(stds, np.eye(2)) for stds in ([1, 2.5, 0.5], [4, 0.3, 0.3]))
#: Functions of the number of rows and a generator that return rows and classes.
DRAWS = {
    "blobs": BLOBS,
    "aniso": _mixture([[0, 0], [3, 1.5], [-2, 5]], [[0.6, -0.4], [-0.6, 0.8]]),
    "varied": _mixture([[0, 0], [10, 1], [2, 9]], WIDTHS),
    "uneven": _mixture(CORNERS, np.eye(2), [0.8, 0.15, 0.05]),
    "moons": lambda n, rng: tables.make_moons(n, noise=0.07, random_state=rng),
    "circles": lambda n, rng: tables.make_circles(n, noise=0.05, factor=0.5, random_state=rng),
    "spirals": _spirals,
    "noise": _noisy_blobs,
    "chains": _mixture([[0, 0], [0, 1]], np.diag([5, 0.12])),
    "gauss10": _random_gaussians(5, 10, 2.0, 1),
    "gauss24": _random_gaussians(6, 24, 1.5, 2),
    "mixed": _mixture([[0, 0], [3, 2], [-2, 4]], DENSE, [0.6, 0.2, 0.2]),
    "units3": _in_units(3),
    "units6": _in_units(6),
    **{f"blobs+{name}": partial(_with_columns, each) for name, each in EXTRA_COLUMNS.items()},
    **{f"one {law}": partial(_one_class, law) for law in ("Gaussian", "t3", "lognormal")},
    "trajectories": _trajectories,
}
TABLES = {
    "iris": partial(tables.load_iris, return_X_y=True),
    "wine": partial(tables.load_wine, return_X_y=True),
    "breast_cancer": partial(tables.load_breast_cancer, return_X_y=True),
    "digits": partial(_digits, 10),
    "digits 0-2": partial(_digits, 3),
}
# Sets without classes. Those of statsmodels, the largest ones and the tables above are left out.
CONTEST = "diabetes spiral2 student5 banana10 copula6 mix20 factor40 cube3 lattice2 rings2 "
CONTEST += "pinwheel2 swissroll3 lognormal1 checkerboard2 student_mix8 manifold10 mixed5 walks24"
SKEWED = ("lognormal3", "lognormal8", "skewed clusters", "incomes", "slabs4", "slabs6")
SKEWED += ("t3, 1 feature", "t3, 4 features", "contaminated")
STUDY = {f"study {name}": datasets.load(name).split for name in datasets.names()}
SPLITS = {name: partial(each, n_samples=1000) for name, each in STUDY.items()}
SPLITS |= {"shapes": drawn(datasets.make_shapes, 1000)}
SPLITS |= {name: SETS[name].split for name in CONTEST.split()}
SPLITS |= {name.replace(",", ""): drawn(OWN[name][2], OWN[name][1]) for name in SKEWED}


def split(name, seed):
    """Return training rows, their classes or None, and test rows."""
    if name in SPLITS:
        train, test = SPLITS[name](seed)
        return train, None, test
    if name in DRAWS:
        X, y = DRAWS[name](N_TRAIN + N_TEST, RandomState(seed))
        return X[:N_TRAIN], y[:N_TRAIN], X[N_TRAIN:]
    X, y = TABLES[name]()
    train, test = np.array_split(RandomState(seed).permutation(len(X)), 2)
    return X[train], y[train], X[test]


def n_clusters(model):
    """Return the number of clusters, without outliers."""
    return len(set(model.labels_) - {-1})


def measure(name, seed, method):
    """Fit a method to a set, and return the values of its row."""
    train, y, test = split(name, seed)
    model = METHODS[method]()
    seconds = best_of(partial(model.fit, train), 1)
    index = np.nan if y is None else adjusted_rand_score(y, model.labels_)
    score = np.maximum(model.score_samples(test), LEAST).mean()
    return index, score, n_clusters(model), seconds, model.density_.n_kernels


def exists(method):
    """Return whether this version of the package has a method."""
    try:
        METHODS[method]().fit(RandomState(0).standard_normal((30, 2)))
    except (TypeError, ValueError) as error:
        report(f"{method} is left out: {error}")
        return False
    return True


def fill(out, version, methods, sets):
    """Append the fits that a file does not have."""
    if not out.exists():
        out.write_text(",".join((*KEYS, *VALUES)) + "\n")
    done = set(pd.read_csv(out)[list(KEYS)].itertuples(index=False, name=None))
    warm_up()
    for key in product([version], sets, SEEDS, filter(exists, methods)):
        if key not in done:
            row = (*key, *measure(*key[1:]))
            with out.open("a") as file:
                print(*row, sep=",", file=file)
            report(*row)


def run_with(folder, *arguments):
    """Run a part with the package of a folder, or of this process, and return its output."""
    path = {"PYTHONPATH": str(Path(folder).resolve())} if folder else {}
    command = [sys.executable, "-m", "benchmarks.clusters", *map(str, arguments)]
    root = Path(__file__).parents[1]
    return subprocess.check_output(command, text=True, cwd=root, env=os.environ | path)


def print_row(*cells):
    """Print a row of a table; numbers have three decimals, and missing ones are dashes."""
    texts = (each if isinstance(each, str) else f"{each:.3f}" for each in cells)
    print("|", " | ".join("-" if each == "nan" else each for each in texts), "|", flush=True)


def print_head(*names):
    """Print the head of a table."""
    print_row(*names)
    print("|---" * len(names) + "|")


def means(out, sets, columns):
    """Return means over seeds, with a row for every set."""
    fits = pd.read_csv(out)
    other = fits["method"] != "AutoROME"
    fits["column"] = fits["method"].where(other, "AutoROME " + fits["version"])
    table = fits.pivot_table(index="set", columns="column", values=list(VALUES))
    return table.reindex(index=sets, columns=pd.MultiIndex.from_product([VALUES, columns]))


def print_sets(fits, sets, titles):
    """Print the columns of a table of means that have a title, and their means."""
    part = fits.loc[fits.index.isin([*sets]), [*titles]]
    print_head("set", *(f"{titles[value]}, {column}" for value, column in part))
    for name, row in part.iterrows():
        print_row(name, *row)
    print_row("mean", *part.mean())
    print()


def print_gain(scores):
    """Compare the held-out log density of AutoROME with that of the earlier version."""
    gains = scores["AutoROME now"] - scores["AutoROME before"]
    print(f"AutoROME now against before: mean gain {gains.mean():.3f}, ", end="")
    print(f"worst loss {-gains.min():.3f} ({gains.idxmin()})")
    BARS.check("mean gain", gains.mean())
    for name, gain in gains.items():
        BARS.check("loss", -gain, name)


def parse(arguments):
    """Return the folder, the file and the sets that the command line names."""
    parser = ArgumentParser(prog="python -m benchmarks.clusters")
    parser.add_argument("folder", nargs="?", help="the folder src of an earlier version")
    parser.add_argument("--out", type=lambda path: Path(path).resolve(), default="clusters.csv")
    parser.add_argument("--sets", default=",".join([*DRAWS, *TABLES, *SPLITS]))
    return parser.parse_args(arguments)


def main():
    """Fit all sets, and print both tables."""
    options = parse(sys.argv[1:])
    sets = options.sets.split(",")
    if options.folder:
        run_with(options.folder, "before", "--out", options.out, "--sets", options.sets)
    fill(options.out, "now", METHODS, sets)
    fits = means(options.out, sets, COLUMNS if options.folder else COLUMNS[1:])
    print_sets(fits, DRAWS | TABLES, {"ari": "ARI", "score": "held-out"})
    print_sets(fits, SPLITS, {"score": "held-out", "clusters": "clusters"})
    BARS.check("mean Rand index", fits["ari", "AutoROME now"].mean())
    if options.folder:
        print_gain(fits["score"])


def before(*arguments):
    """Fit AutoROME to all sets, as the earlier version."""
    options = parse(arguments)
    fill(options.out, "before", ["AutoROME"], options.sets.split(","))


def one():
    """Print how many fits of laws with one cluster find one cluster."""
    print_head("law", *(f"{each}-D" for each in DIMENSIONS))
    total = 0
    for name, law in ONE_CLUSTER.items():
        found = dict.fromkeys(DIMENSIONS, 0)
        for n_features, n, seed in product(DIMENSIONS, (300, 1000), SEEDS):
            X = law(n, RandomState([n, n_features, seed]), n_features)
            clusters = n_clusters(AutoROME().fit(X))
            found[n_features] += clusters == 1
            report(f"{name}, {n} x {n_features}, draw {seed}: {clusters} clusters")
        total += sum(found.values())
        print_row(name, *(f"{each} of 6" for each in found.values()))
    print(f"\none cluster was found in {total} of 150 fits")
    BARS.check("fits with one cluster", total)
    sys.exit(BARS.verdict())


def bent_clusters(n, seed, n_features):
    """Draw three bent clusters with skewed and heavy-tailed columns.

    In each cluster, the first two columns are a banana, x2 = z2 + 0.5 x1^2 with normal x1 and z2.
    The other columns are in turn exp(0.7 z) of a normal z, and a t with 3 degrees of freedom.
    Clusters have equal probability, random centers with a standard deviation of 6, and random
    signs of all columns, so that no map of a column removes the skewness of all clusters.
    """
    fixed, rng = RandomState(0), RandomState(seed)
    centers = 6 * fixed.standard_normal((3, n_features))
    signs = fixed.choice([-1.0, 1.0], size=(3, n_features))
    X = _banana(n, rng, n_features)
    X[:, 2::2] = np.exp(0.7 * X[:, 2::2])
    X[:, 3::2] *= np.sqrt(3 / rng.chisquare(3, size=X[:, 3::2].shape))
    y = rng.randint(3, size=n)
    return centers[y] + signs[y] * X


def cost(n, n_features):
    """Print CPU seconds of a fit and of a score, and the number of kernels."""
    n, n_features = int(n), int(n_features)
    train, test = bent_clusters(n, 1, n_features), bent_clusters(N_TEST, 2, n_features)
    model = AutoROME()
    model.fit(bent_clusters(400, 3, n_features)).score_samples(test)  # compiles
    seconds = best_of(partial(model.fit, train), 3 if n <= 1000 else 1)
    score = best_of(partial(model.score_samples, test), 3)
    print(json.dumps([seconds, score, model.density_.n_kernels]))


def costs(folder=None):
    """Print CPU seconds of fits and of scores of 2,000 rows, before and now."""
    head = "rows;fit before, CPU s;now;ratio;score before, CPU s;now;ratio;kernels before;now"
    print_head(*head.split(";"))
    for n, n_features in SIZES:
        name = f"{n:,} x {n_features}"
        new = json.loads(run_with(None, "cost", n, n_features))
        old = json.loads(run_with(folder, "cost", n, n_features)) if folder else [np.nan] * 3
        ratios = np.divide(new, old)
        times = np.transpose([old, new, ratios])[:2].ravel()
        print_row(name, *(f"{each:.4f}" for each in times), *(f"{x[2]:.0f}" for x in (old, new)))
        if folder:
            BARS.check("time of a fit, ratio", ratios[0], name)
            BARS.check("time of a score, ratio", ratios[1], name)
    sys.exit(BARS.verdict())


if __name__ == "__main__":
    BARS.run(main, {"before": before, "one": one, "costs": costs, "cost": cost})

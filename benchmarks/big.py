"""What large data sets cost, and whether scores from samples choose what exact ones choose.

Start it with ``make bench-big``. Every fit runs in a process of its own, on one core; memory is its
peak above what the process holds before. The limits are those that a fit must keep. Labels of a fit
that scores samples stand beside those of the exact one on ten sets of 4000 to 100,000 rows.
"""

import json
import time
from functools import partial

import numpy as np
from benchmarks.measuring import Bars, memory_mb, report, run_part

from sevenhills import ROME, datasets

#: Distribution and rows; most seconds, most MB.
FITS = {
    ("aniso", 100_000): (4, 1000),
    ("two_moons", 100_000): (4, 1000),
    ("aniso", 1_000_000): (60, 1000),
    ("trajectories", 100_000): (15, 1000),
}
BARS = Bars(
    at_least={"equal labels": 0.99},
    at_most={
        f"{what} of {name}, {n_samples}": bar
        for (name, n_samples), bars in FITS.items()
        for what, bar in zip(("seconds", "MB"), bars, strict=True)
    },
)
SETS = (
    "aniso",
    "varied",
    "two_moons",
    "gaussian",
    "elliptical",
    "rotated_elliptical",
    "trajectories",
    "unimodal_trajectories",
    "mixture10",
    "outliers",
)
SIZES = (4000, 10_000, 30_000, 100_000)


def mixture10(n_samples):
    """Five Gaussians in ten dimensions."""
    rng = np.random.RandomState(0)
    places = 6 * rng.standard_normal((5, 10))
    shapes = rng.standard_normal((5, 10, 10)) / 3 + np.eye(10)
    label = rng.randint(5, size=n_samples)
    steps = rng.standard_normal((n_samples, 10))
    return places[label] + np.einsum("ij,ijk->ik", steps, shapes[label])


def outliers(n_samples):
    """Three Gaussians with a twentieth of all rows anywhere."""
    X = datasets.load("aniso").sample(n_samples, random_state=0)
    rng = np.random.RandomState(1)
    anywhere = rng.uniform(size=n_samples) < 0.05
    low, high = X.min(axis=0), X.max(axis=0)
    X[anywhere] = rng.uniform(2 * low - high, 2 * high - low, (anywhere.sum(), 2))
    return X


def samples(name, n_samples):
    """Draw a data set."""
    if name in ("mixture10", "outliers"):
        return {"mixture10": mixture10, "outliers": outliers}[name](n_samples)
    return datasets.load(name).sample(n_samples, random_state=0)


def warm_up(name):
    """Compile what a fit needs."""
    ROME(exact_below=0).fit(samples(name, 500))
    ROME().fit(samples(name, 500))


def fit(name, n_samples):
    """Measure one fit."""
    n_samples = int(n_samples)
    warm_up(name)
    X = samples(name, n_samples)
    report(partial(ROME().fit, X), 1)


def compare(name, n_samples):
    """Measure how far labels from samples agree with the exact ones."""
    n_samples = int(n_samples)
    warm_up(name)
    X = samples(name, n_samples)
    labels, seconds = [], []
    for exact_below in (n_samples, n_samples + 1):
        start = time.process_time()
        labels.append(ROME(exact_below=exact_below).fit(X).labels_)
        seconds.append(time.process_time() - start)
    agreement = float(np.mean(labels[0] == labels[1]))
    print(json.dumps({"seconds": seconds, "agreement": agreement}))


def print_fits():
    """Print time and memory of large fits."""
    print("| fit | CPU s | at most | peak MB | at most |")
    print("|---|---|---|---|---|")
    for name, n_samples in FITS:
        found = run_part("big", "fit", name, n_samples)
        seconds = BARS.check(f"seconds of {name}, {n_samples}", found["seconds"])
        megabytes = BARS.check(f"MB of {name}, {n_samples}", found["peak_mb"])
        print(
            f"| {name}, {n_samples:,} | {found['seconds']:.2f} | {seconds:g} "
            f"| {found['peak_mb']:.0f} | {megabytes:g} |",
            flush=True,
        )


def print_agreement():
    """Print how far labels from samples are the exact ones."""
    print("\n| labels | rows | equal | CPU s, samples | CPU s, exact |")
    print("|---|---|---|---|---|")
    for n_samples in SIZES:
        for name in SETS:
            found = run_part("big", "compare", name, n_samples)
            BARS.check("equal labels", found["agreement"], f"{name}, {n_samples}")
            sampled, exact = found["seconds"]
            print(
                f"| {name} | {n_samples:,} | {found['agreement']:.2%} | {sampled:.2f} "
                f"| {exact:.2f} |",
                flush=True,
            )


def main():
    print(f"Holding {memory_mb(peak=False):.0f} MB after the import.\n")
    print_fits()
    print_agreement()


if __name__ == "__main__":
    BARS.run(main, {"fit": fit, "compare": compare})

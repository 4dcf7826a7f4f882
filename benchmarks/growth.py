"""How the time and memory of fits and of log densities grow with samples and with features.

Start it with ``make bench-growth``: ten minutes on one free core. Every figure comes from a
process of its own: CPU time of one fit, of the log densities of as many fresh samples (with all
that has to be prepared for them), and the peak of memory above what was held before. Exponents are
slopes of logarithms, by least squares. Sizes grow by factors of two, and the cost of a fit per row
must not fall from one to the next by more than a third: where it falls, fewer rows would cost more.
With ``--picture FILE`` the curves are drawn, too.
"""

import argparse
import copy
import json
from functools import partial

import numpy as np
from benchmarks.measuring import Bars, best_of, memory_mb, run_part

from sevenhills import ROME, datasets
from sevenhills.density.engines import FEW_PAIRS

#: Rows of the curves in the number of samples, by set.
GROWING_N = {
    "aniso": tuple(1000 * 2**i for i in range(11)),
    "trajectories": tuple(1000 * 2**i for i in range(8)),
}
#: Up to this number of samples, the cost of a fit is the mean over draws: a sample of rows that
#: decides between clusterings grows where these are nearly as good as each other.
DRAWN_AGAIN, N_DRAWS = 200_000, 10
#: Dimensions of the curve in the number of features, all with as many samples.
GROWING_M = (1, 2, 3, 5, 8, 10, 24, 50, 100)
N_SAMPLES = 10_000
#: Exponents in the number of samples are fitted from here on: what is constant is over.
FROM = 10_000
WORKS = ("fit", "score")
#: Exponents in the number of samples; in 24 dimensions every kernel is summed at every point.
BARS = Bars(
    at_least={f"cost per row beside that of half the rows, {name}": 2 / 3 for name in GROWING_N},
    at_most={
        "exponent of fit, aniso": 1.3,
        "exponent of score, aniso": 1.2,
        "exponent of fit, trajectories": 1.5,
        "exponent of score, trajectories": 2.1,
        "exponent of fit in features": 1.1,
        "exponent of score in features": 1.1,
    },
)


def hills(n_features, n_samples, seed):
    """Draw from five correlated Gaussians."""
    rng = np.random.RandomState(n_features)
    places = 6 * rng.standard_normal((5, n_features))
    shapes = rng.standard_normal((5, n_features, n_features)) / 3 + np.eye(n_features)
    rng = np.random.RandomState(seed)
    label = rng.randint(5, size=n_samples)
    steps = rng.standard_normal((n_samples, n_features))
    X = np.empty_like(steps)
    for i, (place, shape) in enumerate(zip(places, shapes, strict=True)):
        X[label == i] = place + steps[label == i] @ shape
    return X


def samples(name, n_samples, seed):
    """Draw from a set of the study, or from hills in so many dimensions."""
    if name.isdigit():
        return hills(int(name), n_samples, seed)
    return datasets.load(name).sample(n_samples, random_state=seed)


def warm_up(name):
    """Compile what is timed: the samples of large fits, and the engines of large sums."""
    some = samples(name, 5000, 2)
    ROME().fit(some)
    density = ROME().fit(some[:1000]).density_
    density.logpdf(np.resize(some, (FEW_PAIRS // 1000 + 1, some.shape[1])))


def part(name, n_samples):
    """Measure a fit and the log densities of fresh samples, and print them."""
    n_samples = int(n_samples)
    warm_up(name)
    X, fresh = (samples(name, n_samples, seed) for seed in (0, 1))
    repeats = 3 if n_samples <= 10_000 else 1
    before = memory_mb(peak=False)
    found = {"n_features": X.shape[1]}
    seconds = [best_of(partial(ROME().fit, X), repeats)]
    found["fit_mb"] = memory_mb(peak=True) - before
    for seed in range(2, 1 + N_DRAWS if n_samples <= DRAWN_AGAIN else 2):
        seconds.append(best_of(partial(ROME().fit, samples(name, n_samples, seed)), repeats))
    found["fit"] = float(np.mean(seconds))
    density = ROME().fit(X).density_
    found["score"] = best_of(lambda: copy.copy(density).logpdf(fresh), repeats)
    found["score_mb"] = memory_mb(peak=True) - before
    print(json.dumps(found))


def exponent(sizes, seconds):
    """The slope of the logarithm of a cost in the logarithm of a size."""
    return np.polyfit(np.log(sizes), np.log(seconds), 1)[0]


def print_growth_in_samples():
    """Print the curves in the number of samples, and return them."""
    curves = {}
    for name, sizes in GROWING_N.items():
        print(f"\n| {name}, samples | fit, CPU s | peak MB | as many log densities, CPU s | MB |")
        print("|---|---|---|---|---|")
        rows = curves[name] = {}
        for n in sizes:
            rows[n] = run_part("growth", "part", name, n)
            print_row(f"{n:,}", rows[n])
        fitted = [n for n in sizes if n >= FROM]
        slopes = [exponent(fitted, [rows[n][work] for n in fitted]) for work in WORKS]
        for work, slope in zip(WORKS, slopes, strict=True):
            BARS.check(f"exponent of {work}, {name}", slope)
        per_row = np.array([rows[n]["fit"] / n for n in sizes])
        BARS.check(
            f"cost per row beside that of half the rows, {name}", (per_row[1:] / per_row[:-1]).min()
        )
        print(f"| exponent from {FROM:,} on | {slopes[0]:.2f} | | {slopes[1]:.2f} | |")
        per_million = [rows[sizes[-1]][work] * 1e6 / sizes[-1] for work in WORKS]
        print(f"| per million rows | {per_million[0]:.1f} | | {per_million[1]:.1f} | |")
    return curves


def print_growth_in_features():
    """Print the curve in the number of features, and return it."""
    print(
        f"\n| features, {N_SAMPLES:,} samples | fit, CPU s | peak MB | log densities, CPU s | MB |"
    )
    print("|---|---|---|---|---|")
    rows = {}
    for m in GROWING_M:
        rows[m] = run_part("growth", "part", m, N_SAMPLES)
        print_row(m, rows[m])
    slopes = [exponent(GROWING_M[-4:], [rows[m][work] for m in GROWING_M[-4:]]) for work in WORKS]
    for work, slope in zip(WORKS, slopes, strict=True):
        BARS.check(f"exponent of {work} in features", slope)
    print(f"| exponent from {GROWING_M[-4]} on | {slopes[0]:.2f} | | {slopes[1]:.2f} | |")
    return rows


def print_row(head, found):
    print(
        f"| {head} | {found['fit']:.3g} | {found['fit_mb']:.0f} | {found['score']:.3g} "
        f"| {found['score_mb']:.0f} |",
        flush=True,
    )


def draw(curves, features, path):
    """Draw time, its share of a row and memory against samples, and time against features."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.5, 6.4), layout="constrained")
    (time, row), (memory, wide) = figure.subplots(2, 2)
    for rows in curves.values():
        sizes = list(rows)
        dimension = rows[sizes[0]]["n_features"]
        for work, line in zip(WORKS, ("o-", "s--"), strict=True):
            label = f"{work}, {dimension}-D"
            time.plot(sizes, [rows[n][work] for n in sizes], line, ms=4, label=label)
        per_row = [1e6 * rows[n]["fit"] / n for n in sizes]
        row.plot(sizes, per_row, "o-", ms=4, label=f"fit, {dimension}-D")
        memory.plot(sizes, [rows[n]["score_mb"] for n in sizes], "o-", ms=4, label=f"{dimension}-D")
    for work, line in zip(WORKS, ("o-", "s--"), strict=True):
        wide.plot(GROWING_M, [features[m][work] for m in GROWING_M], line, ms=4, label=work)
    for ax, what, of in (
        (time, "CPU seconds", "samples"),
        (row, "CPU microseconds per row", "samples"),
        (memory, "peak MB above import", "samples"),
        (wide, "CPU seconds", f"features, {N_SAMPLES:,} samples"),
    ):
        ax.set(xscale="log", yscale="log", xlabel=of, ylabel=what)
        ax.grid(alpha=0.3)
        ax.legend(frameon=False, fontsize="small", loc="upper left")
    row.set(yscale="linear", ylim=(0, None))
    figure.savefig(path, dpi=150)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--picture")
    arguments = parser.parse_args()
    curves, features = print_growth_in_samples(), print_growth_in_features()
    if arguments.picture:
        draw(curves, features, arguments.picture)


if __name__ == "__main__":
    BARS.run(main, {"part": part})

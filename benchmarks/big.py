"""What large data sets cost, and whether scores from samples choose what exact ones choose.

Start it with ``make bench-big``: 20 minutes on one free core. Every fit runs in a process of its
own, on one core; memory is its peak above what the process holds before. The limits are those that
a fit must keep. The speedup by two threads is that of CPU time on the longest path: that of the
main thread and half of that of the others, which have even shares. Wall times mean something only
if two cores are free. Labels that are chosen by a sample of rows stand beside those of the exact
choice on 40 sets of 10,000 to 100,000 rows.
"""

import json
import time
from functools import partial

import numpy as np
from benchmarks.growth import hills
from benchmarks.measuring import Bars, memory_mb, report, run_part

from sevenhills import ROME, datasets
from sevenhills.clustering import choose, cut, order_by_reachability, score

#: Distribution and rows; most seconds, most MB.
FITS = {
    ("aniso", 100_000): (4, 1000),
    ("two_moons", 100_000): (4, 1000),
    ("aniso", 1_000_000): (60, 1000),
    ("trajectories", 100_000): (15, 1000),
    ("hills", 100_000): (12, 1000),
}
#: Distribution and rows of fits with one thread and with two.
SHARED = (("aniso", 100_000), ("hills", 100_000))
BARS = Bars(
    at_least={
        "sets of equal labels": 40,
        **{f"speedup of {name}, {n_samples}, by two threads": 1.6 for name, n_samples in SHARED},
    },
    at_most={
        f"{what} of {name}, {n_samples}": bar
        for (name, n_samples), bars in FITS.items()
        for what, bar in zip(("seconds", "MB"), bars, strict=True)
    },
)
#: Five distributions in two dimensions and five in 24.
SETS = (
    "aniso",
    "varied",
    "two_moons",
    "gaussian",
    "outliers",
    "trajectories",
    "unimodal_trajectories",
    "hills",
    "noisy",
    "scattered",
)
#: The sets whose labels are compared, by rows.
COMPARED = {
    10_000: SETS,
    14_000: SETS,
    20_000: SETS,
    50_000: SETS[:4] + SETS[5:9],
    100_000: ("aniso", "trajectories"),
}


def outliers(X):
    """Put a twentieth of all rows anywhere."""
    rng = np.random.RandomState(1)
    anywhere = rng.uniform(size=len(X)) < 0.05
    low, high = X.min(axis=0), X.max(axis=0)
    X[anywhere] = rng.uniform(2 * low - high, 2 * high - low, (anywhere.sum(), X.shape[1]))
    return X


def samples(name, n_samples):
    """Draw a data set."""
    if name == "hills":
        return hills(24, n_samples, 0)
    if name == "scattered":
        return outliers(hills(24, n_samples, 0))
    if name == "outliers":
        return outliers(samples("aniso", n_samples))
    if name == "noisy":
        X = samples("trajectories", n_samples)
        return X + 0.3 * np.random.RandomState(1).standard_normal(X.shape)
    return datasets.load(name).sample(n_samples, random_state=0)


def warm_up(name):
    """Compile what a fit needs."""
    for n_samples in (500, 5000):
        ROME().fit(samples(name, n_samples))


def fit(name, n_samples):
    """Measure one fit."""
    n_samples = int(n_samples)
    warm_up(name)
    X = samples(name, n_samples)
    report(partial(ROME().fit, X), 1)


def share(name, n_samples):
    """Measure fits with one thread and with two, in turns: CPU on the longest path, and wall."""
    X = samples(name, int(n_samples))
    warm_up(name)
    found = {1: [], 2: []}
    for _ in range(3):
        for n_jobs, times in found.items():
            wall, main, every = time.perf_counter(), time.thread_time(), time.process_time()
            ROME(n_jobs=n_jobs).fit(X)
            main, every = time.thread_time() - main, time.process_time() - every
            times.append((main + (every - main) / 2, time.perf_counter() - wall))
    print(json.dumps([np.min(times, axis=0).tolist() for times in found.values()]))


def compare(name, n_samples):
    """Compare the labels that a sample of rows chooses with the exact ones."""
    n_samples = int(n_samples)
    warm_up(name)
    X = samples(name, n_samples)
    cuts = cut(order_by_reachability(X))
    chosen, seconds = [], []
    for options in ({}, {"exact_below": n_samples + 1}):
        start = time.process_time()
        chosen.append(choose(cuts, score(X, cuts, **options)))
        seconds.append(time.process_time() - start)
    sampled, exact = chosen
    lost = float(exact.scores[exact.chosen] - exact.scores[sampled.chosen])
    runner_up = float(exact.scores[exact.chosen] - np.sort(exact.scores)[-2])
    equal = bool(np.array_equal(sampled.labels(), exact.labels()))
    print(json.dumps({"seconds": seconds, "equal": equal, "lost": lost, "runner_up": runner_up}))


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


def print_shared():
    """Print what a second thread gains."""
    print("\n| fit | CPU s on the longest path, one thread | two | speedup | at least | wall s |")
    print("|---|---|---|---|---|---|")
    for name, n_samples in SHARED:
        (one, wall), (two, shared) = run_part("big", "share", name, n_samples)
        bar = BARS.check(f"speedup of {name}, {n_samples}, by two threads", one / two)
        print(
            f"| {name}, {n_samples:,} | {one:.2f} | {two:.2f} | {one / two:.2f} | {bar:g} "
            f"| {wall:.2f}, {shared:.2f} |",
            flush=True,
        )


def print_agreement():
    """Print where labels from samples are the exact ones, and what the others lose in score."""
    print("\n| labels | rows | equal | score lost | runner-up behind | CPU s, sample | exact |")
    print("|---|---|---|---|---|---|---|")
    n_equal = 0
    for n_samples, names in COMPARED.items():
        for name in names:
            found = run_part("big", "compare", name, n_samples)
            n_equal += found["equal"]
            sampled, exact = found["seconds"]
            print(
                f"| {name} | {n_samples:,} | {'yes' if found['equal'] else 'no'} "
                f"| {found['lost']:.1e} | {found['runner_up']:.1e} | {sampled:.2f} | {exact:.2f} |",
                flush=True,
            )
    bar = BARS.check("sets of equal labels", n_equal)
    print(f"\nEqual labels: {n_equal} of {bar:g} sets.")


def main():
    print(f"Holding {memory_mb(peak=False):.0f} MB after the import.\n")
    print_fits()
    print_shared()
    print_agreement()


if __name__ == "__main__":
    BARS.run(main, {"fit": fit, "share": share, "compare": compare})

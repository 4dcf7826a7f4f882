"""Many small fits and scorings: CPU time for each, beside a loop and romepy, and two processes.

Start it with ``make bench-many``; two processes need two cores that are free.
"""

import argparse
import copy
import tempfile
import time
from pathlib import Path

import numpy as np
from benchmarks.measuring import Bars, best_of
from benchmarks.run import run, write_input
from joblib import Parallel, delayed

from sevenhills import ROME, datasets, fit_many, score_many

BARS = Bars(at_least={"romepy / fit_many": 200, "one process / two": 1.7})
#: Rows and features of the data sets.
SHAPES = ((20, 2), (100, 2), (300, 2), (20, 24), (100, 24), (300, 24))
NAMES = {2: "varied", 24: "trajectories"}


def draw(n_sets, n_samples, n_features):
    rows = datasets.load(NAMES[n_features]).sample(n_sets * n_samples, random_state=0)
    return rows.reshape(n_sets, n_samples, n_features)


def forget(models):
    """Return densities that have not been asked anything yet."""
    return [copy.copy(model.density_) for model in models]


def print_fits(n_sets, repeats):
    print("| fits of | loop, ms each | fit_many, ms each |")
    print("|---|---|---|")
    for shape in SHAPES:
        sets = draw(n_sets, *shape)
        fit_many(sets[:1])
        loop = best_of(lambda sets=sets: [ROME().fit(X) for X in sets], repeats)
        many = best_of(lambda sets=sets: fit_many(sets), repeats)
        print(
            f"| {shape[0]} x {shape[1]} | {loop / n_sets * 1e3:.3f} | {many / n_sets * 1e3:.3f} |"
        )


def print_scores(n_sets, repeats):
    print("\n| models of 100 x 24 scored at | first time, ms each | again, ms each |")
    print("|---|---|---|")
    sets = draw(n_sets, 100, 24)
    models = fit_many(sets)
    for n_queries in (1, 10, 100):
        queries = sets[::-1, :n_queries]
        fresh = iter([forget(models) for _ in range(repeats)])
        first = best_of(lambda q=queries, fresh=fresh: score_many(next(fresh), q), repeats)
        again = best_of(lambda q=queries: score_many(models, q), repeats + 1)
        print(f"| {n_queries} points | {first / n_sets * 1e3:.3f} | {again / n_sets * 1e3:.3f} |")


def print_peer(python, repeats):
    """Time the fits of romepy between two rounds of ours, so that a busy machine slows both."""
    with tempfile.TemporaryDirectory() as folder:
        paths = write_input(Path(folder), "many", "trajectories")
        data = np.load(paths["ours"])
        sets, estimator = data["train"].reshape(-1, 100, 24), ROME(min_std=float(data["min_std"]))
        fit_many(sets[:1], estimator)
        rounds = [best_of(lambda: fit_many(sets, estimator), repeats)]
        theirs = run(python, "peer.py", "time", "many", paths["peer"], 1)["seconds"]
        rounds.append(best_of(lambda: fit_many(sets, estimator), repeats))
    ours = min(rounds) / len(sets)
    print("\n| fits of 100 x 24, each | romepy, CPU s | fit_many, CPU s | ratio | bar |")
    print("|---|---|---|---|---|")
    bar = BARS.check("romepy / fit_many", theirs / ours)
    print(f"| {len(sets)} sets | {theirs:.4g} | {ours:.4g} | {theirs / ours:.0f} | {bar:g} |")


def print_processes(n_sets, repeats):
    """Compare the time on the clock; the processes are started, and have compiled, before.

    Two processes that send nothing back show what two cores can do at most.
    """
    sets = draw(n_sets, 100, 24)
    fit_many(sets[:32], n_jobs=2)
    ways = {
        "one": lambda: fit_many(sets),
        "two": lambda: fit_many(sets, n_jobs=2),
        "apart": lambda: Parallel(n_jobs=2)(delayed(fit_and_forget)(half) for half in halves(sets)),
    }
    times = {name: [] for name in ways}
    for _ in range(repeats):
        for name, work in ways.items():
            start = time.perf_counter()
            work()
            times[name].append(time.perf_counter() - start)
    one, two, apart = (min(rounds) for rounds in times.values())
    print("\n| fit_many of 100 x 24 | one process, s | two, s | ratio | bar | at most |")
    print("|---|---|---|---|---|---|")
    ratios = f"{one / two:.2f} | {BARS.check('one process / two', one / two)} | {one / apart:.2f}"
    print(f"| {n_sets} sets | {one:.2f} | {two:.2f} | {ratios} |")


def halves(sets):
    return np.split(sets, [len(sets) // 2])


def fit_and_forget(sets):
    fit_many(sets)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", help="python of an environment with romepy")
    parser.add_argument("--sets", type=int, default=10_000, help="for two processes")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    print_fits(100, options.repeats)
    print_scores(200, options.repeats)
    if options.peer:
        print_peer(options.peer, options.repeats)
    print_processes(options.sets, 3)


if __name__ == "__main__":
    BARS.run(main)

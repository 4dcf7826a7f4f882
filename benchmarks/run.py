"""Ours beside romepy: CPU time on one core, ratio and peak memory above import, in one run.

Start it with ``make bench``. Figures beside romepy come from a process each; the peer's and ours
take turns, so that a busy machine slows both. Without ``--peer``, only small fits and first uses
are measured.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from benchmarks.measuring import Bars, best_of
from sklearn.base import clone

from sevenhills import ROME, datasets, fit_many

HERE = Path(__file__).parent
#: name, job, data set, repetitions of romepy and of ours
JOBS = (
    ("fit 3000 x 2 (aniso)", "fit", "aniso", 1, 7),
    ("fit 3000 x 24 (trajectories)", "fit", "trajectories", 1, 7),
    ("1000 fits of 100 x 24, each", "many", "trajectories", 1, 3),
    ("score 3000 at 3000 x 2", "score", "aniso", 5, 15),
    ("score 3000 at 3000 x 24", "score", "trajectories", 5, 15),
)
#: How many times faster than romepy the jobs are, and the time of small fits and first uses.
BARS = Bars(
    at_least={
        "fit 3000 x 2 (aniso)": 700,
        "fit 3000 x 24 (trajectories)": 380,
        "1000 fits of 100 x 24, each": 180,
        "score 3000 at 3000 x 2": 15,
        "score 3000 at 3000 x 24": 15,
    },
    at_most={
        "import, beyond scikit-learn": 0.2,
        "first fit and score, from the cache": 0.5,
        "first fit of 300 x 2": 4,
        "then its scores, 300 x 2": 1.5,
        "first fit of 3000 x 2": 4,
        "then its scores, 3000 x 2": 1.5,
        "then the modes": 1.5,
        "then a conditional density": 1.5,
        "then conditional densities of rows": 1.5,
        "then 10,000 scores at 10,000 x 2": 1.5,
        "then 10,000 scores at 10,000 x 5": 1.5,
        "then 10,000 scores at 10,000 x 24": 1.5,
        "then an evaluation of 20 scenes": 1.5,
        "fit of 100 x 24 alone, ms": 0.8,
        "fit of 100 x 24 in fit_many, ms": 0.6,
    },
)


def run(python, script, *arguments):
    """Run a script in a process of its own and return the JSON that it prints."""
    command = [python, str(HERE / script), *map(str, arguments)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(output.splitlines()[-1])


def write_input(folder, job, name):
    """Write the data of a job; the peer does a tenth of the many small fits."""
    distribution = datasets.load(name)
    train, test = distribution.split(run=0)
    paths = {}
    for side, n_sets in (("peer", 100), ("ours", 1000)):
        if job == "many":
            train = distribution.sample(100 * n_sets, random_state=0)
        labels = ROME(min_std=distribution.min_std).fit(train).labels_ if job == "score" else []
        paths[side] = folder / f"{job}-{name}-{side}.npz"
        np.savez(paths[side], train=train, test=test, min_std=distribution.min_std, labels=labels)
    return paths


SCORES = "rome.score_samples(X)"
#: name, samples of the first fit, code that is not timed, and code whose first use is timed
FIRST_USES = (
    ("first fit of 300 x 2", 300, "", ""),
    ("then its scores, 300 x 2", 300, "", SCORES),
    ("first fit of 3000 x 2", 3000, "", ""),
    ("then its scores, 3000 x 2", 3000, "", SCORES),
    ("then the modes", 300, "", "rome.modes()"),
    ("then a conditional density", 300, "", "rome.conditional({0: 0.5}).mean()"),
    ("then conditional densities of rows", 300, "", "rome.conditional({0: X[:, 0]}).mean()"),
    *(
        (
            f"then 10,000 scores at 10,000 x {m}",
            300,
            f"Y = rng.standard_normal((10_000, {m})); labels = np.arange(len(Y)) % 2\n"
            "rome = ROME().fit(Y, labels=labels)",
            "rome.score_samples(Y)",
        )
        for m in (2, 5, 24)
    ),
    (
        "then an evaluation of 20 scenes",
        300,
        "from sevenhills.forecast import evaluate\n"
        "truth, paths = rng.standard_normal((20, 12, 2)), rng.standard_normal((20, 20, 12, 2))",
        "evaluate(paths.cumsum(axis=2), truth.cumsum(axis=1))",
    ),
)


def first_use(cache, n_samples=300, before="", after=""):
    """The CPU seconds of the import beyond scikit-learn, of a first fit, and of what follows.

    Python keeps what it compiles, as it does where it may write to the folder of the package.
    """
    script = f"""
import time, warnings, sklearn
warnings.simplefilter("ignore")
clock = time.process_time
start = clock(); from sevenhills import ROME; print(clock() - start)
import numpy as np
rng = np.random.RandomState(0)
X = rng.standard_normal(({n_samples}, 2)); X[::2] += 6
start = clock(); rome = ROME().fit(X); print(clock() - start)
{before}
start = clock(); {after or "pass"}; print(clock() - start)
"""
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache, "OMP_NUM_THREADS": "1"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(
        [sys.executable, "-c", script],
        check=True,
        capture_output=True,
        text=True,
        env=environment,
    )
    return [float(value) for value in done.stdout.split()]


def print_first_uses():
    """Measure first uses, each in a process of its own, and a first fit from the cache."""
    print("\n| first use | CPU s | bar |")
    print("|---|---|---|")
    with tempfile.TemporaryDirectory() as cache:
        imports, fits, scores = np.array([first_use(cache, after=SCORES) for _ in range(6)]).T
    for name, seconds in (
        ("import, beyond scikit-learn", imports.min()),
        ("first fit and score, from the cache", (fits + scores)[1:].min()),
    ):
        print(f"| {name} (best of {len(fits)}) | {seconds:.3g} | {BARS.check(name, seconds):g} |")
    for name, *code in FIRST_USES:
        with tempfile.TemporaryDirectory() as cache:
            seconds = first_use(cache, *code)[2 if code[-1] else 1]
        print(
            f"| {name}, empty cache | {seconds:.3g} | {BARS.check(name, seconds):g} |", flush=True
        )


def print_small_fits(n_sets=100, repeats=9):
    """Time small fits one by one and in one call."""
    distribution = datasets.load("trajectories")
    sets = distribution.sample(100 * n_sets, random_state=0).reshape(n_sets, 100, -1)
    recipe = ROME(min_std=distribution.min_std)
    ways = {"alone": lambda: [clone(recipe).fit(X) for X in sets]}
    ways["in fit_many"] = lambda: fit_many(sets, recipe)
    print("\n| fit of 100 x 24 | CPU ms | bar |")
    print("|---|---|---|")
    for name, work in ways.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            milliseconds = best_of(work, repeats) / n_sets * 1e3
        bar = BARS.check(f"fit of 100 x 24 {name}, ms", milliseconds)
        print(f"| {name} | {milliseconds:.3g} | {bar:g} |", flush=True)


def print_jobs(python):
    """Compare jobs with those of romepy."""
    print("| work | romepy, CPU s | sevenhills, CPU s | ratio | bar | romepy, MB | ours, MB |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name, job, data, theirs, ours in JOBS:
            start = time.perf_counter()
            paths = write_input(Path(folder), job, data)
            first = run(sys.executable, "ours.py", job, paths["ours"], ours)
            peer = run(python, "peer.py", "time", job, paths["peer"], theirs)
            again = run(sys.executable, "ours.py", job, paths["ours"], ours)
            seconds = min(first["seconds"], again["seconds"])
            ratio = peer["seconds"] / seconds
            print(
                f"| {name} | {peer['seconds']:.4g} | {seconds:.4g} | "
                f"{ratio:.0f} | {BARS.check(name, ratio):g} | {peer['peak_mb']:.0f} | "
                f"{max(first['peak_mb'], again['peak_mb']):.0f} |",
                flush=True,
            )
            print(f"{name}: {time.perf_counter() - start:.0f} s", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", help="python of an environment with romepy")
    options = parser.parse_args()
    if options.peer:
        print_jobs(options.peer)
    print_small_fits()
    print_first_uses()


if __name__ == "__main__":
    BARS.run(main)

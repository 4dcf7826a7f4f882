"""Ours beside romepy: CPU time on one core, ratio and peak memory above import, in one run.

Start it with ``make bench``. Every figure comes from a process of its own; the peer's and ours
take turns, so that a busy machine slows both.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from benchmarks.measuring import Bars

from sevenhills import ROME, datasets

HERE = Path(__file__).parent
#: name, job, data set, repetitions of romepy and of ours
JOBS = (
    ("fit 3000 x 2 (aniso)", "fit", "aniso", 1, 7),
    ("fit 3000 x 24 (trajectories)", "fit", "trajectories", 1, 7),
    ("1000 fits of 100 x 24, each", "many", "trajectories", 1, 3),
    ("score 3000 at 3000 x 2", "score", "aniso", 5, 15),
    ("score 3000 at 3000 x 24", "score", "trajectories", 5, 15),
)
#: How many times faster than romepy the jobs are, and the seconds of a first use.
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
        "first fit and score, empty cache": 12,
        "first fit and score, from the cache": 0.5,
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


def first_use():
    """Time the import and the first fit and score: with an empty cache, then from the cache."""
    code = (
        "import time, sklearn; a = time.perf_counter()\n"
        "from sevenhills import ROME; b = time.perf_counter()\n"
        "import numpy as np; X = np.random.RandomState(0).standard_normal((300, 2))\n"
        "c = time.perf_counter(); ROME().fit(X).score_samples(X)\n"
        "print(b - a, time.perf_counter() - c)"
    )
    with tempfile.TemporaryDirectory() as cache:
        times = []
        for _ in range(6):
            done = subprocess.run(
                [sys.executable, "-c", code],
                check=True,
                capture_output=True,
                text=True,
                env={"NUMBA_CACHE_DIR": cache, "OMP_NUM_THREADS": "1"},
            )
            times.append([float(value) for value in done.stdout.split()])
    imports, fits = np.array(times).T
    print("\n| first use | seconds | bar |")
    print("|---|---|---|")
    for name, note, seconds in (
        ("import, beyond scikit-learn", " (best of 6)", imports.min()),
        ("first fit and score, empty cache", "", fits[0]),
        ("first fit and score, from the cache", " (best of 5)", fits[1:].min()),
    ):
        print(f"| {name}{note} | {seconds:.3g} | {BARS.check(name, seconds):g} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", required=True, help="python of an environment with romepy")
    options = parser.parse_args()
    print("| work | romepy, CPU s | sevenhills, CPU s | ratio | bar | romepy, MB | ours, MB |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name, job, data, theirs, ours in JOBS:
            start = time.perf_counter()
            paths = write_input(Path(folder), job, data)
            first = run(sys.executable, "ours.py", job, paths["ours"], ours)
            peer = run(options.peer, "peer.py", "time", job, paths["peer"], theirs)
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
    first_use()


if __name__ == "__main__":
    BARS.run(main)

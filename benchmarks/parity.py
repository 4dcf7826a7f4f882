"""Labels and log densities of ``sevenhills.compat.ROME`` beside those of romepy.

Takes about 12 minutes, nearly all of it romepy's; start it with ``make parity``.
"""

import argparse
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from benchmarks.measuring import Bars

from sevenhills import datasets
from sevenhills.compat import ROME

HERE = Path(__file__).parent
BARS = Bars(at_least={"equal labels": 1}, at_most={"difference in log density": 1e-6})


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", required=True, help="python of an environment with romepy")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    print("| data | run | samples | clusters | labels equal | largest difference in log density |")
    print("|---|---|---|---|---|---|")
    for name in ("aniso", "varied", "two_moons", "trajectories"):
        distribution = datasets.load(name)
        for run in range(options.runs):
            for n_samples in (1000, 3000):
                train, test = distribution.split(run, n_samples)
                ours = ROME(min_std=distribution.min_std).fit(train)
                peer = fit_peer(options.peer, train, test, distribution.min_std)
                equal = np.array_equal(ours.labels_, peer["labels"])
                apart = np.abs(ours.score_samples(test) - peer["log_density"]).max()
                BARS.check("equal labels", equal, f"{name}, run {run}, {n_samples}")
                BARS.check("difference in log density", apart, f"{name}, run {run}, {n_samples}")
                n_clusters = len(np.unique(peer["labels"]))
                print(
                    f"| {name} | {run} | {n_samples} | {n_clusters} | {equal} | {apart:.1e} |",
                    flush=True,
                )


def fit_peer(python, train, test, min_std):
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "in.npz", Path(folder) / "out.npz"
        np.savez(source, train=train, test=test, min_std=min_std)
        subprocess.run([python, str(HERE / "peer.py"), "fit", source, target], check=True)
        return dict(np.load(target))


if __name__ == "__main__":
    BARS.run(main)

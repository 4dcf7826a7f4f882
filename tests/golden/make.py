"""Write the golden arrays: what romepy 0.1.4 finds on small data sets.

    python tests/golden/make.py --peer PYTHON

with the python of an environment in which romepy is installed, such as the one of ``make bench``.
"""

import argparse
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from sevenhills import datasets

HERE = Path(__file__).parent
PEER = HERE.parents[1] / "benchmarks" / "peer.py"
#: name of the file, distribution, samples
CASES = (
    ("aniso", "aniso", 250),
    ("varied", "varied", 250),
    ("two_moons", "two_moons", 250),
    ("trajectories", "trajectories", 120),
    ("few_trajectories", "trajectories", 20),
    ("three_samples", "aniso", 3),
)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", required=True)
    options = parser.parse_args()
    for name, source, n_samples in CASES:
        distribution = datasets.load(source)
        train, test = distribution.split(0, n_samples)
        data = {"train": train, "test": test[:40], "min_std": distribution.min_std}
        with tempfile.TemporaryDirectory() as folder:
            given, found = Path(folder) / "in.npz", Path(folder) / "out.npz"
            np.savez(given, **data)
            subprocess.run([options.peer, str(PEER), "fit", given, found], check=True)
            np.savez_compressed(HERE / f"{name}.npz", **data, **np.load(found))


if __name__ == "__main__":
    main()

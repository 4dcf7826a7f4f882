"""Whether ``modes()`` finds the hills of random mixtures of Gaussians.

``python -m benchmarks.modes`` (``make bench-modes``) draws mixtures of 1 to 8 Gaussians at least 6
standard deviations apart, in 2 to 24 dimensions, and counts the modes of every model that has
found the Gaussians as its clusters or components. It then counts those of single Gaussians.
"""

import argparse

import numpy as np
from benchmarks.measuring import Bars
from tests.mixtures import draw, is_found

from sevenhills import ROME, AutoROME, GaussianMixtureBIC

BARS = Bars(at_least={"share of right numbers": 1}, at_most={"modes of one Gaussian": 1.1})
ESTIMATORS = (ROME, AutoROME, GaussianMixtureBIC)
#: The first seed of single Gaussians; mixtures have the seeds from ``--seed`` on.
FIRST_SINGLE = 1_000_000


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mixtures", type=int, default=200, help="how many mixtures")
    parser.add_argument("--gaussians", type=int, default=40, help="how many single Gaussians")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first mixture")
    return parser.parse_args()


def count_mixtures(estimator, seeds):
    """Return how many mixtures were found, and the seeds of those with a wrong number of modes."""
    n_found, wrong = 0, []
    for seed in seeds:
        drawn = draw(seed)
        model = estimator().fit(drawn.samples)
        if is_found(model, drawn):
            n_found += 1
            if len(model.modes()) != drawn.n_hills:
                wrong.append(seed)
    return n_found, wrong


def mean_modes(estimator, seeds):
    """Return the mean number of modes of single Gaussians."""
    return np.mean([len(estimator().fit(draw(seed, 1).samples).modes()) for seed in seeds])


def main():
    options = arguments()
    seeds = range(options.seed, options.seed + options.mixtures)
    singles = range(FIRST_SINGLE + options.seed, FIRST_SINGLE + options.seed + options.gaussians)
    print("| estimator | mixtures | clusters found | modes right there | modes of one Gaussian |")
    print("|---|---|---|---|---|")
    for estimator in ESTIMATORS:
        name = estimator.__name__
        n_found, wrong = count_mixtures(estimator, seeds)
        n_modes = mean_modes(estimator, singles)
        print(
            f"| {name} | {len(seeds)} | {n_found} | {n_found - len(wrong)} | {n_modes:.2f} |",
            flush=True,
        )
        right = 1 - len(wrong) / n_found if n_found else np.nan
        BARS.check("share of right numbers", right, f"{name}, wrong seeds {wrong}")
        BARS.check("modes of one Gaussian", n_modes, name)


if __name__ == "__main__":
    BARS.run(main)

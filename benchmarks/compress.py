"""What is left of densities that are compressed, what that loses and what it gains.

Start it with ``make bench-compress``. Times are CPU time on one core: of the fit, of the log
densities of the held-out points with all kernels and with those that are left, the best of
several and each prepared anew, and of the compression, which includes the former. Losses are those
at fresh points, with their standard errors; beside them stands what the compression said that they
are at most.
"""

import copy
import time

import numpy as np
from benchmarks.measuring import Bars, best_of

from sevenhills import ROME, datasets
from sevenhills.density import CompressionError
from sevenhills.estimate import Estimate, mean_with_error

#: Standard errors by which the loss at fresh points may exceed the one that was allowed.
BARS = Bars(at_most={"loss above max_loss": 3})
N_HELD_OUT = 10_000


def mixture(n_samples, random_state):
    """Five sheared Gaussians in ten dimensions."""
    fixed, rng = np.random.RandomState(123), np.random.RandomState(random_state)
    means = 4 * fixed.standard_normal((5, 10))
    shears = 0.4 * fixed.standard_normal((5, 10, 10)) + 0.5 * np.eye(10)
    kind = rng.randint(5, size=n_samples)
    steps = rng.standard_normal((n_samples, 1, 10))
    return means[kind] + np.matmul(steps, shears[kind])[:, 0]


def bent(n_samples, random_state):
    """Two moons, and eight features that are waves of them."""
    rng = np.random.RandomState(random_state)
    X = datasets.load("two_moons").sample(n_samples, random_state=rng)
    directions = np.random.RandomState(4).standard_normal((2, 8))
    return np.hstack([X, np.sin(1.5 * X @ directions) + 0.1 * rng.standard_normal((n_samples, 8))])


def turning(n_samples, random_state):
    """Walks of twelve steps into all directions of a half-plane, some of them turning."""
    rng = np.random.RandomState(random_state)
    start, turn = rng.uniform(-1, 1, (n_samples, 1)), 0.15 * rng.standard_normal((n_samples, 1))
    speed = 0.4 * np.exp(0.25 * rng.standard_normal((n_samples, 1, 1)))
    angle = start + turn * np.arange(12)
    steps = speed * np.stack([np.cos(angle), np.sin(angle)], axis=2)
    walks = np.cumsum(steps + 0.03 * rng.standard_normal(steps.shape), axis=1)
    return walks.reshape(n_samples, 24)


def skewed(n_samples, random_state):
    """Exponentials of ten correlated normal variables."""
    rng = np.random.RandomState(random_state)
    shear = 0.3 * np.random.RandomState(3).standard_normal((10, 10)) + 0.6 * np.eye(10)
    return np.exp(0.7 * rng.standard_normal((n_samples, 10)) @ shear)


MADE = {"mixture": mixture, "bent": bent, "turning": turning, "skewed": skewed}
SETS = [
    ("aniso", 30_000),
    ("two_moons", 30_000),
    ("mixture", 30_000),
    ("bent", 30_000),
    ("skewed", 30_000),
    ("turning", 30_000),
    ("trajectories", 30_000),
    ("trajectories", 100_000),
]


def draw(name, n_samples, random_state):
    if name in MADE:
        return MADE[name](n_samples, random_state)
    return datasets.load(name).sample(n_samples, random_state=random_state)


def scoring_time(density, X):
    return best_of(lambda: copy.copy(density).logpdf(X), 3)


def print_row(name, n_samples, max_loss):
    """Print what comes out for one set."""
    start = time.process_time()
    density = ROME().fit(draw(name, n_samples, 0)).density_
    fit = time.process_time() - start
    held_out, fresh = (draw(name, N_HELD_OUT, seed) for seed in (1, 2))
    row = f"| {name} | {n_samples} | {density.n_features} | {max_loss}"
    start = time.process_time()
    try:
        found = copy.copy(density).compress(held_out, max_loss=max_loss)
    except CompressionError as refusal:
        print(f"{row} | refused: {refusal}", flush=True)
        return
    seconds = time.process_time() - start
    before, after = (scoring_time(each, held_out) for each in (density, found.density))
    losses = density.logpdf(fresh) - found.density.logpdf(fresh)
    loss = Estimate(*mean_with_error(losses), len(losses))
    excess = (loss - max_loss) / loss.std_error
    BARS.check("loss above max_loss", excess, f"{name}, {n_samples}, {max_loss}")
    print(
        f"{row} | {found.n_after} | {loss} | {found.bound:.4f} | {losses.max():.1f} | "
        f"{before:.2f} | {after:.3f} | {before / after:.0f} | {seconds:.2f} | {fit:.1f} |",
        flush=True,
    )


def main():
    for name in ("aniso", "trajectories"):  # compile what is timed
        few = draw(name, 3000, 0)
        few_density = ROME().fit(few).density_
        few_density.compress(draw(name, N_HELD_OUT, 3), max_loss=1.0).density.logpdf(few)
        few_density.logpdf(draw(name, 20_000, 3))
    print(
        f"| set | N | M | max_loss | kept | loss at {N_HELD_OUT} fresh points | said to be at most "
        "| largest | scoring s | after | times faster | compression s | fit s |"
    )
    print("|---" * 13 + "|")
    for name, n_samples in SETS:
        for max_loss in (0.01, 0.05):
            print_row(name, n_samples, max_loss)


if __name__ == "__main__":
    BARS.run(main)

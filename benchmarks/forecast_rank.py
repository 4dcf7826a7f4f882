"""Whether the joint likelihood of sampled forecasts ranks forecasters as their exact likelihood.

``python -m benchmarks.forecast_rank`` prints five tables of markdown. Forecasters are Gaussian
mixtures in every scene, so that their negative log-likelihood (NLL) is known. ``evaluate`` sees
only their samples and estimates the NLL with "rome", a density for every scene, and with "pooled",
covariances pooled over scenes. There are two worlds. *pedestrians* are simulated walkers that
stand, turn, stop and evade, and forecasters learned from other walkers. *walks* are those of
``make_walks``, and forecasters are their true law and distortions of it. Standard deviations are
multiplied by .5 to 2; the factor is part of the name. NLL are in nats.

1. Forecasters: the exact mean NLL; for both estimators the mean and the median of estimated minus
   exact NLL over scenes, and the rank correlation of the two. A forecaster is *over-confident* if
   its exact mean NLL exceeds its entropy by more than 3.
2. Pairs of forecasters whose exact mean NLL differ by more than two standard errors: the share with
   estimated means in the exact order, among forecasters that are not over-confident (calibrated or
   cautious), and in pairs with an over-confident one; in brackets the number of pairs.
3. The probability that the true law of walks has a smaller mean NLL than a wrong forecaster, by a
   normal approximation with the mean and standard deviation of differences over 1000 scenes, all of
   which are pooled, and over five draws of samples.
4. The change of the mean NLL if the truth of one of 1000 scenes is replaced by a path 50 m away.
5. CPU time of ``evaluate(measures="nll")`` with "pooled", in milliseconds a scene. Learning from
   at most 300 scenes is part of it, and counts less for every scene if there are many of them.

``--scenes`` is the number of scenes of the tables 1 and 2, ``--samples`` are the numbers of samples
in a scene.
"""

import argparse
import functools
import itertools
import sys
import time
from dataclasses import replace

import numpy as np
from benchmarks.measuring import Bars, best_of
from benchmarks.pedestrians import make_pedestrians, moment_gaussian
from scipy.special import ndtr
from scipy.stats import spearmanr

from sevenhills.datasets import make_walks
from sevenhills.forecast import evaluate

#: Bars of "pooled": shares over both worlds, probability with 200 scenes, nats, and milliseconds a
#: scene with 1000 scenes.
BARS = Bars(
    at_least={
        "pairs in order, calibrated": 0.95,
        "pairs in order, over-confident": 0.85,
        "true law first": 0.9,
    },
    at_most={"change by one truth": 0.1, "ms, 20 samples": 3, "ms, 100 samples": 5},
)
ESTIMATORS = ("rome", "pooled")
SPREADS = (0.5, 0.8, 1.0, 1.25, 2.0)
#: Mean NLL minus entropy above which a forecaster is over-confident, in nats.
OVER_CONFIDENT = 3.0
#: Numbers of scenes of tables 3 and 5; differences of table 3 are those of N_WALKS scenes.
NUMBERS_OF_SCENES = (50, 200, 1000)
N_WALKS = 1000
#: Wrong forecasters of table 3, against which the true law has to win, and their draws of samples.
RIVALS = ("true * 0.8", "true * 1.25", "equal shares", "one mode", "moments")
N_DRAWS = 5


def with_spreads(laws, spreads=SPREADS):
    """Return laws by name, with every spread."""
    return {
        name if spread == 1 else f"{name} * {spread:g}": law.spread(spread)
        for name, law in laws.items()
        for spread in spreads
    }


class World:
    """Scenes with their truth and the laws of their forecasters."""

    def __init__(self, name, truth, laws):
        self.name, self.truth, self.laws = name, truth, laws
        self.exact = {name: -law.logpdf(truth) for name, law in laws.items()}
        self.over_confident = {
            name: self.exact[name].mean() + law.logpdf(law.draw(4, 77)).mean() > OVER_CONFIDENT
            for name, law in laws.items()
        }

    @classmethod
    def pedestrians(cls, n_scenes):
        truth, laws = make_pedestrians(n_scenes)
        return cls("pedestrians", truth, with_spreads(laws))

    @classmethod
    def walks(cls, n_scenes):
        walks = make_walks(n_scenes, random_state=0)
        law, likeliest = walks.law, np.eye(walks.law.shares.shape[1])
        laws = {
            "true": law,
            "equal shares": replace(law, shares=np.full_like(law.shares, 1 / len(likeliest))),
            "one mode": replace(law, shares=likeliest[law.shares.argmax(axis=1)]),
        }
        moments = with_spreads({"moments": moment_gaussian(law)}, spreads=(0.8, 1.0, 1.25))
        return cls("walks", walks.truth, {**with_spreads(laws), **moments})

    def estimates(self, name, n_samples, draw=0):
        """Return the estimated NLL (S,) of a forecaster by estimator."""
        seed = 1000 * (draw + 1) + list(self.laws).index(name)
        samples = self.laws[name].draw(n_samples, seed)
        return {estimator: nll(samples, self.truth, estimator) for estimator in ESTIMATORS}


def nll(samples, truth, estimator):
    """Return the estimated NLL (S,)."""
    evaluation = evaluate(samples, truth, estimator=estimator, measures="nll", n_replicates=0)
    return evaluation.scenes["nll"]


def print_head(title, *columns):
    print(f"\n{title}\n\n| " + " | ".join(columns) + " |\n|" + " --- |" * len(columns))


def print_row(*cells):
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def forecasters(worlds, numbers_of_samples):
    """Print table 1, and return the estimated NLL by world, samples, forecaster and estimator."""
    names = [f"{each}: {column}" for each in ESTIMATORS for column in ("mean", "median", "rank")]
    print_head("1. Bias by forecaster", "world", "forecaster", "samples", "exact", *names)
    found = {}
    for world, n_samples in itertools.product(worlds, numbers_of_samples):
        found[world.name, n_samples] = {}
        for name, exact in world.exact.items():
            estimates = world.estimates(name, n_samples)
            found[world.name, n_samples][name] = estimates
            cells = [f"{exact.mean():.1f}"]
            for estimate in estimates.values():
                bias, rank = estimate - exact, spearmanr(estimate, exact).statistic
                cells += [f"{bias.mean():+.1f}", f"{np.median(bias):+.1f}", f"{rank:.2f}"]
            label = f"{name} (over-confident)" if world.over_confident[name] else name
            print_row(world.name, label, n_samples, *cells)
    return found


def clear_pairs(world):
    """Yield pairs whose exact means differ, worse one first, and whether one is over-confident."""
    over = world.over_confident
    for a, b in itertools.combinations(world.exact, 2):
        apart = world.exact[a] - world.exact[b]
        if abs(apart.mean()) > 2 * apart.std(ddof=1) / np.sqrt(len(apart)):
            worse, better = (a, b) if apart.mean() > 0 else (b, a)
            yield worse, better, over[a] or over[b]


def in_order(pairs, estimates, estimator):
    """Return whether pairs are in order, in two lists: without and with an over-confident one."""
    out = {False: [], True: []}
    for worse, better, over in pairs:
        apart = estimates[worse][estimator] - estimates[better][estimator]
        out[over].append(apart.mean() > 0)
    return out


def orders(worlds, found, numbers_of_samples):
    """Print table 2."""
    kinds = {"calibrated": False, "over-confident": True}
    print_head("2. Pairs in the exact order", "world", "samples", "estimator", *kinds)
    pairs = {world.name: list(clear_pairs(world)) for world in worlds}
    for n_samples, estimator in itertools.product(numbers_of_samples, ESTIMATORS):
        both = {False: [], True: []}
        for world in worlds:
            right = in_order(pairs[world.name], found[world.name, n_samples], estimator)
            print_row(world.name, n_samples, estimator, *map(share, right.values()))
            both = {over: both[over] + right[over] for over in both}
        print_row("**both**", n_samples, estimator, *map(share, both.values()))
        if estimator == "pooled":
            for kind, over in kinds.items():
                value = np.mean(both[over])
                BARS.check(f"pairs in order, {kind}", value, f"{n_samples} samples")


def share(right):
    return f"{np.mean(right):.3f} ({len(right)})" if right else "none"


def races(world, numbers_of_samples):
    """Print table 3."""
    names = ("exact", *ESTIMATORS)
    print_head("3. P(true law first)", "samples", "rival", "scenes", *names)
    for n_samples in numbers_of_samples:
        found = {
            name: [
                {"exact": world.exact[name], **world.estimates(name, n_samples, draw)}
                for draw in range(N_DRAWS)
            ]
            for name in ("true", *RIVALS)
        }
        for rival in RIVALS:
            pairs = list(zip(found[rival], found["true"], strict=True))
            apart = {name: np.array([a[name] - b[name] for a, b in pairs]) for name in names}
            for n_scenes in NUMBERS_OF_SCENES:
                won = {name: first(apart[name], n_scenes) for name in names}
                print_row(n_samples, rival, n_scenes, *(f"{p:.3f}" for p in won.values()))
                if n_scenes == 200:
                    BARS.check("true law first", won["pooled"], f"{rival}, {n_samples} samples")


def first(apart, n_scenes):
    """Return the probability that the mean over some scenes is positive, from draws (n, S)."""
    std = np.sqrt(apart.var(axis=1, ddof=1).mean())
    return ndtr(np.sqrt(n_scenes) * apart.mean() / std)


def nonsense(world, numbers_of_samples):
    """Print table 4."""
    print_head(
        "4. Change of the mean NLL by one nonsensical truth", "samples", "exact", *ESTIMATORS
    )
    truth = world.truth.copy()
    truth[0] += [30, 40]
    law = world.laws["true"]
    exact = -law.logpdf(truth).mean() - world.exact["true"].mean()
    for n_samples in numbers_of_samples:
        samples = law.draw(n_samples, 1)
        change = {
            each: nll(samples, truth, each).mean() - nll(samples, world.truth, each).mean()
            for each in ESTIMATORS
        }
        print_row(n_samples, f"{exact:+.3g}", *(f"{each:+.3f}" for each in change.values()))
        BARS.check("change by one truth", change["pooled"], f"{n_samples} samples")


def times(world, numbers_of_samples):
    """Print table 5."""
    print_head("5. Milliseconds a scene", "samples", "scenes", "pooled")
    for n_samples, n_scenes in itertools.product(numbers_of_samples, NUMBERS_OF_SCENES):
        samples, truth = world.laws["true"][:n_scenes].draw(n_samples, 1), world.truth[:n_scenes]
        work = functools.partial(nll, samples, truth, "pooled")
        milliseconds = 1e3 * best_of(work, 3) / n_scenes
        print_row(n_samples, n_scenes, f"{milliseconds:.2f}")
        bar = f"ms, {n_samples} samples"
        if n_scenes == N_WALKS and bar in BARS.at_most:
            BARS.check(bar, milliseconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scenes", type=int, default=300)
    parser.add_argument("--samples", type=int, nargs="+", default=[20, 100])
    options = parser.parse_args()
    start = time.perf_counter()
    worlds = [World.pedestrians(options.scenes), World.walks(options.scenes)]
    found = forecasters(worlds, options.samples)
    orders(worlds, found, options.samples)
    many = World.walks(N_WALKS)
    for table in (races, nonsense, times):
        print(f"{time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
        table(many, options.samples)


if __name__ == "__main__":
    BARS.run(main)

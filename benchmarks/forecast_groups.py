"""Whether intervals hold the mean as often as they say if windows of tracks overlap.

``python -m benchmarks.forecast_groups`` prints two tables of markdown. Every agent has a track of
random length: a few windows up to a hundred, each of 12 steps, one step after the other. The value
of a window is a moving sum over its steps, and agents differ.

1. Means: the share of 90 % intervals that hold the true mean, by the number of agents. *by scene*
   takes windows as independent: mean ± 1.64 standard errors. *percentile* resamples agents and
   takes percentiles of the means. *by group* is the interval of ``evaluate(..., groups=agents)``.
   *too small* is the factor by which standard errors by scene are too small.
2. Differences of two forecasters of equal quality by ``compare``, with groups and without: the
   share of 90 % intervals that hold zero, and of p-values of at most 10 %.

The values of windows are *normal*; sums of *squares* of normal variables, as in a log-likelihood,
with a scale for every agent; *sizes*: normal, and smaller for agents with many windows, such as
standing ones; *heavy*: log-normal with a skewness of 6, where few agents do not show the tail.
``--simulations`` is the number of data sets of a row of the first table, twice those of the second.
"""

import argparse
import itertools

import numpy as np
from benchmarks.measuring import Bars

from sevenhills.forecast import compare, evaluate
from sevenhills.forecast.groups import GroupedMean, Grouping, bootstrap

#: Bars of intervals and tests by group; heavy tails have a bar of their own.
BARS = Bars(
    at_least={"coverage": 0.87, "coverage, heavy": 0.82, "level": 0.07},
    at_most={"coverage at most": 0.93, "level at most": 0.13},
)
LAWS = ("normal", "squares", "sizes", "heavy")
NUMBERS_OF_AGENTS = (15, 30, 100, 300)
CONFIDENCE, QUANTILE = 0.9, 1.645
N_STEPS, MAX_WINDOWS = 12, 100
N_REPLICATES = 400


def numbers_of_windows(n_agents, rng):
    return np.exp(rng.normal(2.0, 0.8, size=n_agents)).clip(1, MAX_WINDOWS).astype(int)


def draw(law, n_windows, rng):
    """Return the values of all windows, and their agents."""
    n_agents = len(n_windows)
    noise = rng.standard_normal((n_agents, MAX_WINDOWS + N_STEPS - 1))
    effect = rng.standard_normal((n_agents, 1))
    if law == "squares":
        noise = (noise * np.exp(0.3 * effect)) ** 2 / 2
    sums = np.lib.stride_tricks.sliding_window_view(noise, N_STEPS, axis=1).sum(axis=2)
    if law != "squares":
        sums = (sums / np.sqrt(N_STEPS) + effect) / np.sqrt(2)
    if law == "sizes":
        sums = sums - 0.5 * np.log(n_windows)[:, None]
    if law == "heavy":
        sums = np.exp(sums)
    inside = np.arange(MAX_WINDOWS) < n_windows[:, None]
    return sums[inside], np.nonzero(inside)[0]


def true_mean(law):
    """Return the mean of the values of windows, from very many agents."""
    generators = [np.random.RandomState(seed) for seed in range(20)]
    values = [draw(law, numbers_of_windows(20_000, rng), rng)[0] for rng in generators]
    return float(np.concatenate(values).mean())


def intervals(values, agents, rng):
    """Return the intervals of the mean by kind."""
    grouping = Grouping.of(agents, len(values))
    mean, n_groups = GroupedMean(values, grouping), grouping.n_groups
    error = values.std(ddof=1) / np.sqrt(len(values))
    weights = rng.multinomial(n_groups, np.full(n_groups, 1 / n_groups), size=N_REPLICATES)
    means = weights @ mean.totals / (weights @ mean.sizes)
    found = bootstrap({"mean": mean}, n_groups, N_REPLICATES, CONFIDENCE, rng)["mean"]
    limits = {
        "by scene": (mean.value - QUANTILE * error, mean.value + QUANTILE * error),
        "percentile": np.quantile(means, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]),
        "by group": (found.low, found.high),
    }
    return limits, found.standard_error / error


def measure_means(n_simulations):
    print("| values | agents | by scene | percentile | by group | too small |")
    print("| --- | --- | --- | --- | --- | --- |")
    for law in LAWS:
        expected = true_mean(law)
        for n_agents in NUMBERS_OF_AGENTS:
            held, ratios = dict.fromkeys(("by scene", "percentile", "by group"), 0), []
            rng = np.random.RandomState(n_agents)
            for _ in range(n_simulations):
                limits, ratio = intervals(*draw(law, numbers_of_windows(n_agents, rng), rng), rng)
                ratios.append(ratio)
                for kind, (low, high) in limits.items():
                    held[kind] += low <= expected <= high
            shares = [count / n_simulations for count in held.values()]
            check_coverage(law, n_agents, shares[-1])
            texts = " | ".join(f"{share:.3f}" for share in shares)
            print(f"| {law} | {n_agents} | {texts} | {np.median(ratios):.1f} |", flush=True)


def check_coverage(law, n_agents, share):
    of = f"{law}, {n_agents} agents"
    BARS.check("coverage, heavy" if law == "heavy" else "coverage", share, of)
    BARS.check("coverage at most", share, of)


def equal_forecasters(law, n_agents, grouped, rng):
    """Return two evaluations with values of the same distribution, as those of one measure."""
    n_windows = numbers_of_windows(n_agents, rng)
    (first, agents), (second, _) = (draw(law, n_windows, rng) for _ in range(2))
    pair = np.stack([first, second])
    # The distance of a single point from the origin is its value.
    points, origin = (pair - pair.min())[..., None, None, None], np.zeros((len(agents), 1, 1))
    groups = agents if grouped else None
    return [
        evaluate(each, origin, measures="ade", check_units=False, groups=groups, n_replicates=0)
        for each in points
    ]


def measure_difference(law, n_agents, grouped, n_simulations):
    """Return the shares of intervals that hold zero, and of p-values of at most 10 %."""
    rng, held, rejected = np.random.RandomState(n_agents), 0, 0
    options = {"confidence": CONFIDENCE, "n_replicates": 200, "n_permutations": 99}
    for _ in range(n_simulations):
        pair = equal_forecasters(law, n_agents, grouped, rng)
        row = compare(*pair, **options, random_state=rng)["ade"]
        held += row.low <= 0 <= row.high
        rejected += row.p_value <= 0.1
    return held / n_simulations, rejected / n_simulations


def measure_differences(n_simulations):
    print("\n| values | agents | groups | coverage | p-values of at most 10 % |")
    print("| --- | --- | --- | --- | --- |")
    for law, n_agents in itertools.product(("normal", "squares"), NUMBERS_OF_AGENTS[:3]):
        for kind in ("without", "with"):
            share, level = measure_difference(law, n_agents, kind == "with", n_simulations)
            print(f"| {law} | {n_agents} | {kind} | {share:.3f} | {level:.3f} |", flush=True)
        check_coverage(law, n_agents, share)
        BARS.check("level", level, f"{law}, {n_agents} agents")
        BARS.check("level at most", level, f"{law}, {n_agents} agents")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--simulations", type=int, default=1000)
    n_simulations = parser.parse_args().simulations
    measure_means(n_simulations)
    measure_differences(n_simulations // 2)


if __name__ == "__main__":
    BARS.run(main)

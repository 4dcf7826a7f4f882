"""Measures of right and wrong forecasts of simulated walks, whose distribution is known.

``python -m benchmarks.forecast_walks`` prints a table of markdown: for 20, 100 and 1000 samples a
scene, the proper measures and the calibration of an oracle, which draws from the true
distribution, and of forecasters that are over-confident, under-confident and biased. In brackets
is the mean difference from the oracle over scenes, in standard errors. *Coverage* is the mean of
observed minus nominal coverage: negative for forecasts that are too narrow. ``--scenes`` is the
number of scenes.
"""

import argparse

import numpy as np
from benchmarks.measuring import Bars

from sevenhills.datasets import make_walks
from sevenhills.forecast import evaluate

#: Difference from the oracle in standard errors, and the oracle's calibration error.
BARS = Bars(at_least={"behind the oracle": 3}, at_most={"calibration error of the oracle": 0.04})
#: Measures whose expected value is best for the distribution of the truth.
PROPER = ("nll", "nll_step", "energy_score")
COLUMNS = ("samples", "predictor", "exact nll", *PROPER, "ece", "coverage")


def behind(evaluation, oracle, measure):
    """Return the mean difference from the oracle, in standard errors."""
    apart = evaluation.scenes[measure] - oracle.scenes[measure]
    return apart.mean() / (apart.std(ddof=1) / np.sqrt(len(apart)))


def evaluations(walks, n_samples, seed=1):
    """Evaluate all forecasters of some walks."""
    return {
        name: evaluate(law.draw(n_samples, seed), walks.truth, measures=(*PROPER, "ece"))
        for name, law in walks.law.predictors().items()
    }


def excess(coverage):
    """Return the mean of observed minus nominal coverage."""
    return float((coverage.observed - coverage.levels).mean())


def rows(walks, n_samples):
    """Yield the rows of the table for one number of samples."""
    found = evaluations(walks, n_samples)
    for name, law in walks.law.predictors().items():
        evaluation = found[name]
        cells = [str(n_samples), name, f"{-law.logpdf(walks.truth).mean():.1f}"]
        for measure in PROPER:
            text = f"{evaluation[measure].mean:.3g}"
            if name != "oracle":
                apart = behind(evaluation, found["oracle"], measure)
                BARS.check("behind the oracle", apart, f"{measure}, {name}, {n_samples} samples")
                text += f" ({apart:+.1f})"
            cells.append(text)
        error = evaluation["ece"]
        if name == "oracle":
            BARS.check("calibration error of the oracle", error.mean, f"{n_samples} samples")
        cells += [f"{error.mean:.3f} ± {error.standard_error:.3f}"]
        cells += [f"{excess(evaluation.coverage):+.3f}"]
        yield cells


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scenes", type=int, default=500)
    parser.add_argument("--samples", type=int, nargs="+", default=[20, 100, 1000])
    options = parser.parse_args()
    walks = make_walks(options.scenes, random_state=0)
    print("| " + " | ".join(COLUMNS) + " |\n|" + " --- |" * len(COLUMNS))
    for n_samples in options.samples:
        for cells in rows(walks, n_samples):
            print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    BARS.run(main)

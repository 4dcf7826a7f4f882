"""Two simple forecasters of walks, scored and compared from end to end, without any download.

``python examples/forecast.py folder`` makes up walks, fits a predictor that goes straight on and
one that looks for similar pasts, evaluates both beside the oracle, which knows the law of the
walks, and writes ``report.html``, ``calibration.png`` and ``forecasts.png`` into the folder.
"""

import sys
from pathlib import Path

from matplotlib.figure import Figure

from sevenhills.forecast import ConstantVelocity, NearestPasts, compare, evaluate, make_walks
from sevenhills.plotting import plot_calibration, plot_forecast
from sevenhills.report import forecast_report

N_TRAINING, N_SCENES, N_SAMPLES = 2000, 100, 100
MEASURES = ("nll", "nll_step", "energy_score", "ece", "ade", "min_ade_k")


def forecasts(training, test):
    """Return the samples of every forecaster by its name."""
    pasts = training.observed, training.truth
    return {
        "oracle": test.law.draw(N_SAMPLES, random_state=2),
        "constant velocity": ConstantVelocity()
        .fit(*pasts)
        .predict(test.observed, N_SAMPLES, random_state=2),
        "nearest pasts": NearestPasts().fit(*pasts).predict(test.observed, N_SAMPLES),
    }


def draw(samples, evaluations, test, folder):
    """Draw the coverage of all forecasters, and one scene of each."""
    figure = Figure(figsize=(4.5, 4.5), layout="constrained")
    ax = figure.subplots()
    for name, evaluation in evaluations.items():
        plot_calibration(evaluation, ax, label=name)
    ax.set_title("Coverage")
    ax.legend(frameon=False)
    figure.savefig(folder / "calibration.png", dpi=120)
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    axes = figure.subplots(1, len(samples), sharex=True, sharey=True)
    for ax, (name, each) in zip(axes, samples.items(), strict=True):
        plot_forecast(each, test.truth, 0, ax)
        ax.plot(*test.observed[0].T, "k.-", lw=1, ms=3)
        ax.set_title(name)
    figure.savefig(folder / "forecasts.png", dpi=120)


def main(folder):
    """Run the example and write what it finds into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    training = make_walks(N_TRAINING, random_state=0)
    test = make_walks(N_SCENES, random_state=1)
    samples = forecasts(training, test)
    evaluations = {
        name: evaluate(each, test.truth, measures=MEASURES) for name, each in samples.items()
    }
    for name, evaluation in evaluations.items():
        print(f"\n{name}\n{evaluation}")
    print(f"\n{compare(evaluations['nearest pasts'], evaluations['constant velocity'])}")
    draw(samples, evaluations, test, folder)
    name = "nearest pasts"
    forecast_report(
        evaluations[name], folder / "report.html", samples[name], test.truth, title=f"Walks, {name}"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "forecast"))

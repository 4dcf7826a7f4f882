"""
Evaluate forecasts of pedestrians
=================================

Walks are simulated, so that their distribution is known. Forecasts at constant velocity and by
similar observed paths are compared with an oracle, which draws from the true distribution.
"""

import matplotlib.pyplot as plt

from sevenhills.datasets import make_walks
from sevenhills.forecast import ConstantVelocity, NearestPasts, compare, evaluate
from sevenhills.plotting import plot_calibration, plot_comparison, plot_forecast
from sevenhills.report import forecast_html

N_SAMPLES = 30
training, test = make_walks(1000, random_state=0), make_walks(40, random_state=1)

# %%
# Forecasts are arrays of shape (scenes, samples, steps, coordinates).
pasts = training.observed, training.truth
constant, nearest = ConstantVelocity().fit(*pasts), NearestPasts().fit(*pasts)
samples = {
    "oracle": test.law.draw(N_SAMPLES, random_state=2),
    "constant velocity": constant.predict(test.observed, N_SAMPLES, random_state=2),
    "nearest pasts": nearest.predict(test.observed, N_SAMPLES),
}
figure, axes = plt.subplots(1, 3, figsize=(10, 3.6), layout="constrained", sharex=True, sharey=True)
for ax, (name, each) in zip(axes, samples.items(), strict=True):
    plot_forecast(each, test.truth, 0, ax)
    ax.plot(*test.observed[0].T, "k.-", lw=1, ms=3)
    ax.set_title(name)

# %%
# One call computes every measure with its standard error.
measures = ("nll", "nll_step", "energy_score", "ece", "ade", "min_ade_k")
evaluations = {
    name: evaluate(each, test.truth, measures=measures) for name, each in samples.items()
}
for name, evaluation in evaluations.items():
    print(f"{name}\n{evaluation}\n")

# %%
# Forecasters are compared scene by scene.
comparison = compare(evaluations["nearest pasts"], evaluations["constant velocity"])
print(comparison)

figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
plot_comparison(comparison, axes[0])
for name, evaluation in evaluations.items():
    plot_calibration(evaluation, axes[1], label=name)
axes[1].set_title("Coverage")
axes[1].legend(frameon=False, loc="lower right")

# %%
# ``forecast_html`` returns a page in one file; ``forecast_report`` and the command ``sevenhills
# forecast`` write it to a path.
page = forecast_html(evaluations["nearest pasts"], samples["nearest pasts"], test.truth)
print(f"a page of {len(page) / 1e6:.1f} MB")
plt.show()

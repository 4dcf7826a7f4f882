"""
Score forecasts of walks, from end to end
=========================================

The walks are synthetic, so that their distribution is known. Two forecasters, one that assumes a
constant velocity and one that looks for similar pasts, are compared with an oracle that draws
from the true distribution.
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
straight, similar = ConstantVelocity().fit(*pasts), NearestPasts().fit(*pasts)
samples = {
    "oracle": test.law.draw(N_SAMPLES, random_state=2),
    "constant velocity": straight.predict(test.observed, N_SAMPLES, random_state=2),
    "nearest pasts": similar.predict(test.observed, N_SAMPLES),
}
figure, axes = plt.subplots(1, 3, figsize=(10, 3.6), layout="constrained", sharex=True, sharey=True)
for ax, (name, each) in zip(axes, samples.items(), strict=True):
    plot_forecast(each, test.truth, 0, ax)
    ax.plot(*test.observed[0].T, "k.-", lw=1, ms=3)
    ax.set_title(name)

# %%
# All measures with their standard errors.
measures = ("nll", "nll_step", "energy_score", "ece", "ade", "min_ade_k")
evaluations = {
    name: evaluate(each, test.truth, measures=measures) for name, each in samples.items()
}
for name, evaluation in evaluations.items():
    print(f"{name}\n{evaluation}\n")

# %%
# The two forecasters, compared scene by scene.
comparison = compare(evaluations["nearest pasts"], evaluations["constant velocity"])
print(comparison)

figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
plot_comparison(comparison, axes[0])
for name, evaluation in evaluations.items():
    plot_calibration(evaluation, axes[1], label=name)
axes[1].set_title("Coverage")
axes[1].legend(frameon=False, loc="lower right")

# %%
# The results as a page of HTML; ``forecast_report`` and the command ``sevenhills forecast`` write
# it to a file.
page = forecast_html(evaluations["nearest pasts"], samples["nearest pasts"], test.truth)
print(f"a page of {len(page) / 1e6:.1f} MB")
plt.show()

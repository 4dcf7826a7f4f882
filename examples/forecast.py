"""
Score and rank forecasts
========================

Two simple forecasters of walks are compared with an oracle. One forecaster assumes a constant
velocity, the other one uses similar pasts. The walks are simulated, so the oracle can draw from
their true distribution.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial.distance import cdist

from sevenhills.datasets import make_walks
from sevenhills.forecast import compare, rank
from sevenhills.plotting import plot_calibration, plot_comparison, plot_forecast
from sevenhills.report import forecast_report

N_SAMPLES = 30
training, test = make_walks(1000, random_state=0), make_walks(40, random_state=1)


# %%
# Both forecasters use coordinates along and across the heading, relative to the last observed
# position.
def heading_frames(walks):
    """Return last positions (S, 1, 2), axes (S, 2, 2) and speeds (S,), in meters per step."""
    velocity = (walks.observed[:, -1] - walks.observed[:, -3]) / 2
    speed = np.linalg.norm(velocity, axis=1)
    ahead = velocity / speed[:, None]
    across = np.stack([-ahead[:, 1], ahead[:, 0]], axis=1)
    return walks.observed[:, -1:], np.stack([ahead, across], axis=1), speed


def to_local(paths, walks):
    last, axes, _ = heading_frames(walks)
    return (paths - last) @ axes.transpose(0, 2, 1)


def to_global(samples, walks):
    last, axes, _ = heading_frames(walks)
    return last[:, None] + samples @ axes[:, None]


# %%
# The first continues at constant velocity. Its errors are Gaussian, with the covariance of the
# errors on the training walks.
def straight_on(walks, n_steps=12):
    ahead = heading_frames(walks)[2][:, None] * np.arange(1, n_steps + 1)
    return np.stack([ahead, np.zeros_like(ahead)], axis=2)


errors = (to_local(training.truth, training) - straight_on(training)).reshape(
    len(training.truth), -1
)
drawn = np.random.RandomState(2).multivariate_normal(
    np.zeros(24), errors.T @ errors / len(errors), size=(len(test.truth), N_SAMPLES)
)
constant_velocity = straight_on(test)[:, None] + drawn.reshape(-1, N_SAMPLES, 12, 2)

# %%
# The second takes the futures of the training walks whose pasts are most similar.
known, pasts = to_local(training.observed, training), to_local(test.observed, test)
distances = cdist(pasts.reshape(len(pasts), -1), known.reshape(len(known), -1))
nearest_pasts = to_local(training.truth, training)[distances.argsort(axis=1)[:, :N_SAMPLES]]

# %%
# Forecasts are arrays of shape (scenes, samples, steps, coordinates).
samples = {
    "oracle": test.law.draw(N_SAMPLES, random_state=2),
    "constant velocity": to_global(constant_velocity, test),
    "nearest pasts": to_global(nearest_pasts, test),
}
figure, axes = plt.subplots(1, 3, figsize=(10, 3.6), layout="constrained", sharex=True, sharey=True)
for ax, (name, each) in zip(axes, samples.items(), strict=True):
    plot_forecast(each, test.truth, 0, ax)
    ax.plot(*test.observed[0].T, "k.-", lw=1, ms=3)
    ax.set_title(name)

# %%
# All forecasters in one table, the best first, with paired differences.
measures = ("nll", "nll_step", "energy_score", "ece", "ade", "min_ade_k")
ranking = rank(samples, test.truth, measures=measures)
print(ranking)
print(ranking.to_pandas("measures"))

# %%
# Two of them, compared scene by scene in all measures.
evaluations = ranking.evaluations
comparison = compare(evaluations["nearest pasts"], evaluations["constant velocity"])
print(comparison)

figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
plot_comparison(comparison, axes[0])
for name, evaluation in evaluations.items():
    plot_calibration(evaluation, axes[1], label=name)
axes[1].set_title("Coverage")
axes[1].legend(frameon=False, loc="lower right")

# %%
# A report of the results. ``page.save`` writes it to an HTML file, as the command
# ``sevenhills forecast`` does.
page = forecast_report(ranking, samples, test.truth)
print(page)
plt.show()

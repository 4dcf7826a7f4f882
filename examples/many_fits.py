"""
Many small data sets: which sensor has changed?
===============================================

``fit_many`` fits one density for each of 200 sensors, and ``score_many`` scores the readings of
today.
"""

import matplotlib.pyplot as plt
import numpy as np

from sevenhills import fit_many, score_many

N_SENSORS, N_PAST, N_TODAY = 200, 150, 40
rng = np.random.RandomState(0)

# %%
# Every sensor measures temperature and humidity in two states, by day and by night. The states
# differ from sensor to sensor.
means = [[23, 35], [7, 65]] + rng.standard_normal((N_SENSORS, 2, 2)) * [3, 6]
shears = 0.5 * rng.standard_normal((N_SENSORS, 2, 2, 2)) + np.eye(2)


def readings(n_rows):
    states = rng.randint(2, size=(N_SENSORS, n_rows))
    each = np.arange(N_SENSORS)[:, None]
    steps = rng.standard_normal((N_SENSORS, n_rows, 1, 2)) @ shears[each, states]
    return means[each, states] + steps[:, :, 0]


past, today = readings(N_PAST), readings(N_TODAY)

# %%
# Five sensors were moved indoors, where the difference between day and night is a third smaller.
# Their daily means stay the same.
moved = np.sort(rng.choice(N_SENSORS, 5, replace=False))
today[moved] += (means[moved].mean(axis=1)[:, None] - today[moved]) / 3
print("moved:", moved)

# %%
# ``fit_many`` gives the same models as a loop over ``ROME().fit``; ``n_jobs`` sets the number of
# processes.
models = fit_many(past)
expected = np.array([scores.mean() for scores in score_many(models, readings(N_TODAY))])
found = np.array([scores.mean() for scores in score_many(models, today)])
suspects = np.argsort(found - expected)[:5]
print("lowest scores:", np.sort(suspects))

figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
axes[0].plot(expected, found, ".", color="0.6", ms=4)
axes[0].plot(expected[suspects], found[suspects], "o", color="#EE6677", label="suspects")
axes[0].axline((expected.mean(), expected.mean()), slope=1, color="black", lw=0.8)
axes[0].set(xlabel="mean log density, another day", ylabel="mean log density, today")
axes[0].set_yscale("symlog", linthresh=10)
axes[0].legend(frameon=False, loc="lower right")
worst = suspects[0]
axes[1].plot(*past[worst].T, ".", color="0.6", ms=4, label="past")
axes[1].plot(*today[worst].T, "x", color="#EE6677", label="today")
axes[1].set(xlabel="temperature", ylabel="humidity", title=f"sensor {worst}")
axes[1].legend(frameon=False, loc="upper right")
plt.show()

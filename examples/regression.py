"""
Regression with several likely values
=====================================

If a target has two likely values, its mean is neither of them, and an interval contains mostly
values that never occur. ``DensityRegressor`` estimates the whole conditional distribution, and
gives calibrated regions that may have several parts.
"""

import matplotlib.pyplot as plt
import numpy as np

from sevenhills import DensityRegressor

# %%
# A target on two branches, y = x and y = -x, with noise that grows.


def draw(n_samples, seed):
    rng = np.random.RandomState(seed)
    x = rng.uniform(0, 3, size=(n_samples, 1))
    noise = (0.1 + 0.1 * x[:, 0]) * rng.standard_normal(n_samples)
    return x, rng.choice([-1, 1], size=n_samples) * x[:, 0] + noise


X, y = draw(800, 0)
model = DensityRegressor().fit(X, y)

# %%
# The region of 90 % is one interval where the branches meet, and two where they are apart.
new = np.array([[0.1], [1.0], [2.5]])
for x, intervals in zip(new[:, 0], model.predict_region(new, 0.9).intervals(), strict=True):
    print(f"x = {x}:", " and ".join(f"{low:.2f} to {high:.2f}" for low, high in intervals))

# %%
# Intervals and regions are calibrated by held-out samples. Both contain about 90 % of new targets,
# and the region is much shorter.
X_new, y_new = draw(4000, 1)
regions, ends = model.predict_region(X_new, 0.9), model.predict_interval(X_new, 0.9)
inside = (y_new >= ends[:, 0]) & (y_new <= ends[:, 1])
print(
    f"interval: {inside.mean():.1%} of new targets, mean length {np.ptp(ends, axis=1).mean():.2f}"
)
print(
    f"region:   {regions.contains(y_new).mean():.1%} of new targets, "
    f"mean length {regions.size().mean():.2f}"
)

# %%
# The mean lies between the branches, where no target is.
grid = np.linspace(0, 3, 241)[:, None]
step = grid[1, 0] - grid[0, 0]
figure, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
for x, intervals in zip(grid[:, 0], model.predict_region(grid, 0.9).intervals(), strict=True):
    ax.bar(
        np.full(len(intervals), x),
        np.ptp(intervals, axis=1),
        step,
        intervals[:, 0],
        color="#88BBDD",
    )
ax.plot(grid, model.predict_interval(grid, 0.9), color="#AA3377", lw=1.2)
ax.plot(*X.T, y, ".", color="0.35", ms=2.5)
ax.plot(grid, model.predict(grid), color="#CC7722", lw=1.8)
ax.bar([0], [0], color="#88BBDD", label="region of 90 %")
for label, color in (("interval of 90 %", "#AA3377"), ("mean", "#CC7722")):
    ax.plot([], [], color=color, label=label)
ax.set(
    xlabel="x",
    ylabel="y",
    xlim=(0, 3),
    title="Two branches: an interval, and a region in two parts",
)
ax.legend(frameon=False, loc="upper left")
plt.show()

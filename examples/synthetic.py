"""
Synthetic samples
=================

A simulation needs more walks than were recorded. Samples of a density provide them. This example
checks that the samples are realistic and not copies.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.neighbors import NearestNeighbors

from sevenhills import AutoROME, GaussianKDE, datasets
from sevenhills.metrics import energy_test, mean_log_likelihood
from sevenhills.plotting import plot_samples

# %%
# Walks of twelve steps in the plane, 24 numbers each, along one of six routes.
walks, held_out = datasets.load("trajectories").split(run=0, n_samples=400)

# %%
# The log density of held-out walks measures the quality of a density. A permutation test shows
# whether held-out and synthetic walks differ. The single covariance of a plain kernel density
# estimate blurs the routes.
models = {"AutoROME": AutoROME(), "GaussianKDE": GaussianKDE()}
for name, model in models.items():
    model.fit(walks)
    test = energy_test(held_out, model.sample(len(held_out), random_state=0))
    score = mean_log_likelihood(model, held_out)
    print(f"{name:12s} held-out log density {score}, p-value {test.p_value:.3f}")

# %%
# Synthetic walks should be as far from the recorded walks as held-out walks are; copies are nearer.
synthetic = models["AutoROME"].sample(len(held_out), random_state=0)
nearest = NearestNeighbors(n_neighbors=1).fit(walks)
for name, rows in (("held-out", held_out), ("synthetic", synthetic)):
    distances = nearest.kneighbors(rows)[0][:, 0]
    print(f"{name:9s} walks: median distance to a recorded walk {np.median(distances):.2f} m")

# %%
# Synthetic walks over recorded walks.
figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained", sharex=True, sharey=True)
for ax, name in zip(axes, ("AutoROME", "GaussianKDE"), strict=True):
    plot_samples(walks, models[name].sample(40, random_state=1), ax).set_title(name)
plt.show()

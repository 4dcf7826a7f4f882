"""
Has the distribution changed, and where?
========================================

A test says whether two samples differ; two densities say where.
"""

import matplotlib.pyplot as plt
import numpy as np

from sevenhills import ROME, datasets
from sevenhills.metrics import energy_test, jensen_shannon
from sevenhills.plotting import plot_difference

# %%
# In the second sample a part of one of three hills is moved.
aniso = datasets.load("aniso")
before, after = aniso.sample(800, random_state=0), aniso.sample(800, random_state=1)
labels = ROME().fit(after).labels_
moved = np.flatnonzero(labels == 2)[:100]
after[moved] += [2.0, 2.0]
print("mean before", before.mean(axis=0).round(2), "and after", after.mean(axis=0).round(2))

# %%
# Under the hypothesis that nothing has changed, it does not matter which row belongs to which
# sample; the p-value is the share of random exchanges that give as large a distance.
same = aniso.sample(800, random_state=2)
for name, rows in (("unchanged", same), ("changed", after)):
    test = energy_test(before, rows, random_state=0)
    print(f"{name}: energy distance {test.statistic:.4f}, p-value {test.p_value:.3f}")

# %%
# Densities of both, their divergence, and where which is higher.
first, second = ROME().fit(before), ROME().fit(after)
print("Jensen-Shannon divergence", jensen_shannon(first, second, before, after))
ax = plot_difference(first, second, names=("before", "after"))
ax.set(xlabel="x", ylabel="y", title="Where the densities differ")
plt.show()

"""
Has the distribution changed, and where?
========================================

A permutation test shows whether two samples differ, and two densities show where.
"""

import matplotlib.pyplot as plt
import numpy as np

from sevenhills import ROME, datasets
from sevenhills.metrics import energy_test, jensen_shannon
from sevenhills.plotting import plot_difference

# %%
# In the second sample, a part of one of the three clusters is shifted.
aniso = datasets.load("aniso")
before, after = aniso.sample(800, random_state=0), aniso.sample(800, random_state=1)
labels = ROME().fit(after).labels_
moved = np.flatnonzero(labels == 2)[:100]
after[moved] += [2.0, 2.0]
print("mean before", before.mean(axis=0).round(2), "and after", after.mean(axis=0).round(2))

# %%
# If the distribution has not changed, the assignment of rows to samples is arbitrary. The p-value
# is the share of random assignments with a distance that is at least as large.
same = aniso.sample(800, random_state=2)
for name, rows in (("unchanged", same), ("changed", after)):
    test = energy_test(before, rows)
    print(f"{name}: energy distance {test.statistic:.4f}, p-value {test.p_value:.3f}")

# %%
# The densities of both samples, their divergence, and their log ratio.
first, second = ROME().fit(before), ROME().fit(after)
print("Jensen-Shannon divergence", jensen_shannon(first, second, before, after))
ax = plot_difference(first, second, names=("before", "after"))
ax.set(xlabel="x", ylabel="y", title="Where the densities differ")
plt.show()

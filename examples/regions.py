"""
Highest-density regions and modes
=================================

The highest-density region of 90 % is the smallest region with that probability. It may have holes
and several parts. A fitted density gives its outline, and whether a new point lies inside.
"""

import matplotlib.pyplot as plt
import numpy as np

from sevenhills import ROME
from sevenhills.datasets import make_shapes
from sevenhills.plotting import plot_regions

# %%
# A bow, a sheared Gaussian and a skewed cluster with heavy tails.
X = make_shapes(600, random_state=0)
rome = ROME().fit(X)
modes = rome.modes()
print(modes)
print(modes.locations.round(2))

# %%
# The highest-density region of 90 %, as polygons. Kernels widen the clusters, so the region holds
# somewhat more than 90 % of new samples. ``conformal`` calibrates regions by held-out samples.
polygons = rome.hdr_contours(0.9)
new = make_shapes(4000, random_state=1)
inside = (rome.hdr_probability(new) <= 0.9).mean()
print(f"{len(polygons)} outlines; {inside:.1%} of 4000 new samples are inside of the region of 90%")

# %%
# ``hdr_probability`` is the probability, under the fitted density, of the region with a higher
# density than a point.
points = np.array([[-3.2, 0.8], [-2.2, 0.2], [2.2, 0.2], [4.5, 2.0]])
for point, inner in zip(points, rome.hdr_probability(points), strict=True):
    print(f"{point}: outside of {inner:.2%}")

# %%
# The point below the bow lies in the middle of the data, but its density is low.
ax = plot_regions(rome, confidences=(0.99, 0.9, 0.5), modes=False)
ax.plot(*X.T, ".", color="0.6", ms=2, zorder=0)
ax.plot(*points.T, "k*", ms=10)
for point, inner in zip(points, rome.hdr_probability(points), strict=True):
    ax.annotate(f"{inner:.1%}", point, (7, 3), textcoords="offset points")
ax.set(xlim=(-5, 6), ylim=(-3.4, 2.8), title="Regions of 99%, 90% and 50%")
plt.show()

"""
Where is the mass? Regions, modes and p-values
==============================================

The smallest region that holds 90 % of a distribution may have holes and several parts. A density
knows its outline, its mass and whether a new point lies inside.
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
# The region of highest density with 90 % of the mass, as polygons. Kernels widen what they stand
# on, so that it holds somewhat more of fresh samples; regions of ``AutoROME`` come closer, and
# take longer.
polygons = rome.hdr_contours(0.9)
fresh = make_shapes(4000, random_state=1)
inside = (rome.hdr_probability(fresh) <= 0.9).mean()
print(
    f"{len(polygons)} outlines; {inside:.1%} of 4000 fresh samples are inside of the region of 90%"
)

# %%
# ``coverage`` is the mass at higher density, so that one minus it is a p-value: how unusual is a
# point?
points = np.array([[-3.2, 0.8], [-2.2, 0.2], [2.2, 0.2], [4.5, 2.0]])
for point, covered in zip(points, rome.hdr_probability(points), strict=True):
    print(f"{point}: p = {1 - covered:.4f}")

# %%
# The point below the bow is in the middle of the data, and an outlier all the same.
ax = plot_regions(rome, confidences=(0.99, 0.9, 0.5), modes=False)
ax.plot(*X.T, ".", color="0.6", ms=2, zorder=0)
ax.plot(*points.T, "k*", ms=10)
for point, covered in zip(points, rome.hdr_probability(points), strict=True):
    ax.annotate(f"p = {1 - covered:.2g}", point, (7, 3), textcoords="offset points")
ax.set(xlim=(-5, 6), ylim=(-3.4, 2.8), title="Regions of 99%, 90% and 50%, and p-values")
plt.show()

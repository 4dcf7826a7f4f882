"""
Find outliers in a table
========================

Every value of these outliers is ordinary, but their combination is not. A density detects such
rows; limits for single columns do not.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine

from sevenhills import ROME, DensityOutlierDetector
from sevenhills.plotting import plot_regions

# %%
# Three measurements of 178 wines. The laboratory mixed up two samples, three times: the phenols of
# a wine of one grower were recorded for a wine of another grower, and vice versa.
columns, growers = load_wine(return_X_y=True, as_frame=True)
table = columns[["flavanoids", "total_phenols", "color_intensity"]].copy()
rng = np.random.RandomState(0)
first, second = (rng.choice(np.flatnonzero(growers == each), 3, replace=False) for each in (0, 2))
swapped, exchanged = np.append(first, second), np.append(second, first)
table.loc[swapped, "total_phenols"] = table.loc[exchanged, "total_phenols"].to_numpy()

# %%
# The detector scores every row by models that were fitted without it; otherwise the kernel on an
# outlier would hide it. The p-value of a row is the share of rows that are not denser. With a rate
# of 5 %, the least dense 5 % of the rows are reported.
detector = DensityOutlierDetector(rate=0.05).fit(table)
found = table.assign(p_value=detector.p_value(table))[detector.predict(table) == -1]
found.insert(0, "swapped", found.index.isin(swapped))
print(found.sort_values("p_value").round(3).to_string())

# %%
# Some wines are unusual anyway, for example the one with most flavanoids. The picture shows two of
# the three columns, with the highest-density regions of 50 % and 95 %.
ax = plot_regions(detector.estimator_.marginal([0, 1]), confidences=(0.95, 0.5), modes=False)
ax.plot(*table.iloc[:, :2].to_numpy().T, ".", color="0.5", ms=4, label="wines")
ax.plot(*table.iloc[swapped, :2].to_numpy().T, "x", color="#EE6677", mew=2, label="swapped")
ring = {"ls": "", "marker": "o", "mfc": "none", "mec": "black", "ms": 10}
ax.plot(*found.iloc[:, 1:3].to_numpy().T, label="reported", **ring)
for row in found.itertuples():
    ax.annotate(f"{row.p_value:.3f}", row[2:4], xytext=(6, 5), textcoords="offset points", size=8)
ax.set(xlabel="flavanoids", ylabel="total phenols", title="Rows that were reported, with p-values")
ax.legend(frameon=False, loc="upper left")
plt.show()

# %%
# About 5 % of new, regular wines are reported, too: half of the wines are compared with the other
# half, ten times.
wines = columns[["flavanoids", "total_phenols", "color_intensity"]].to_numpy()
shares = []
for seed in range(10):
    order = np.random.RandomState(seed).permutation(len(wines))
    detector = DensityOutlierDetector(ROME(scale="auto"), rate=0.05).fit(wines[order[::2]])
    shares.append(np.mean(detector.predict(wines[order[1::2]]) == -1))
print(f"reported of new wines: {np.mean(shares):.1%}")

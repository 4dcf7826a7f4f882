"""
Find rows that do not belong
============================

Each value of these rows is ordinary; it is the combination that is not. A density sees that,
where limits for single columns do not.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_wine

from sevenhills import DensityOutlierDetector
from sevenhills.plotting import plot_regions

# %%
# Three measurements of 178 wines. Somebody has exchanged two samples in the laboratory, three
# times: the phenols of a wine of one grower were written down for a wine of another, and the
# other way round.
columns, growers = load_wine(return_X_y=True, as_frame=True)
table = columns[["flavanoids", "total_phenols", "color_intensity"]].copy()
rng = np.random.RandomState(0)
first, second = (rng.choice(np.flatnonzero(growers == each), 3, replace=False) for each in (0, 2))
spoiled, exchanged = np.append(first, second), np.append(second, first)
table.loc[spoiled, "total_phenols"] = table.loc[exchanged, "total_phenols"].to_numpy()

# %%
# The detector scores every row by fits that have not seen it; otherwise each outlier would be
# hidden under a kernel of its own. ``offset_`` is the log density below which a row is reported.
detector = DensityOutlierDetector().fit(table)
scores = pd.Series(detector.score_samples(table), name="log density")
found = table.join(scores)[detector.predict(table) == -1].sort_values("log density")
found.insert(0, "spoiled", found.index.isin(spoiled))
print(f"threshold: {detector.offset_:.2f}")
print(found.round(2).to_string())

# %%
# Some wines are unusual of themselves, such as the one with most flavanoids. The picture shows
# two of the three columns, with the regions that hold half and 95 % of the density.
ax = plot_regions(detector.estimator_.marginal([0, 1]), confidences=(0.95, 0.5), modes=False)
ax.plot(*table.iloc[:, :2].to_numpy().T, ".", color="0.5", ms=4, label="wines")
ax.plot(*table.iloc[spoiled, :2].to_numpy().T, "x", color="#EE6677", mew=2, label="spoiled")
ring = {"ls": "", "marker": "o", "mfc": "none", "mec": "black", "ms": 10}
ax.plot(*found.iloc[:, 1:3].to_numpy().T, label="reported", **ring)
ax.set(xlabel="flavanoids", ylabel="total phenols", title="Rows that were reported")
ax.legend(frameon=False, loc="upper left")
plt.show()

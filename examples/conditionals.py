"""
Marginals, conditionals and missing values
==========================================

A fitted density answers what one feature says of another, without any fit anew.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_iris

from sevenhills import ROME
from sevenhills.plotting import plot_corner, plot_line

iris = load_iris(as_frame=True).data.rename(columns=lambda name: name.removesuffix(" (cm)"))
rome = ROME().fit(iris)

# %%
# All marginals of one feature and of two, with the data behind them.
plot_corner(rome, iris)

# %%
# What petals tell of sepals: densities of the sepal length, given the petal length. Conditionals
# are densities again, so that they have quantiles and intervals.
petal_lengths = (1.5, 4.5, 6.0)
slices = {
    length: rome.conditional({"petal length": length}).marginal("sepal length")
    for length in petal_lengths
}
for length, density in slices.items():
    low, high = density.interval(0.9)
    print(f"petal length {length} cm: sepal length {low:.1f} to {high:.1f} cm with 90 %")

# %%
# A flower of which the petals were not measured: its log density by what is there, and its
# petals, filled in by their means given the sepals, or drawn.
flower = pd.DataFrame([[5.9, 3.0, np.nan, np.nan]], columns=iris.columns)
print(f"log density {rome.score_samples(flower, missing='marginal')[0]:.2f}")
print(f"mean    {rome.impute(flower)[0].round(2)}")
for seed in range(3):
    print(f"a draw  {rome.impute(flower, 'sample', random_state=seed)[0].round(2)}")

# %%
# Drawn values show what a mean hides: sepals alone do not tell the species.
figure, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
plot_line(rome.marginal("sepal length"), ax, label="all flowers", color="#777777", confidence=None)
for (length, density), color in zip(slices.items(), ("#4477AA", "#CCBB44", "#AA3377"), strict=True):
    plot_line(density, ax, label=f"petal length {length} cm", color=color)
ax.set(title="Sepal length, given the petal length", xlabel="sepal length (cm)")
figure.legend(frameon=False, loc="outside right upper")
plt.show()

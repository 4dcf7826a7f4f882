"""
Marginals, conditionals and missing values
==========================================

A fitted density gives the distribution of one feature given others, without another fit.
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
# The marginals of all features and of all pairs of features, over the data.
plot_corner(rome, iris)

# %%
# The density of the sepal length given the petal length. Conditionals are densities too, with
# quantiles and intervals.
petal_lengths = (1.5, 4.5, 6.0)
conditionals = {
    length: rome.conditional({"petal length": length}).marginal("sepal length")
    for length in petal_lengths
}
for length, density in conditionals.items():
    low, high = density.interval(0.9)
    print(f"petal length {length} cm: sepal length {low:.1f} to {high:.1f} cm with 90 %")

# %%
# A flower whose petals were not measured: its log density by the known features, and its petals,
# imputed by their mean given the sepals or by random draws.
flower = pd.DataFrame([[5.9, 3.0, np.nan, np.nan]], columns=iris.columns)
print(f"log density {rome.score_samples(flower, missing='marginal')[0]:.2f}")
print(f"mean    {rome.impute(flower)[0].round(2)}")
for seed in range(3):
    print(f"a draw  {rome.impute(flower, 'sample', random_state=seed)[0].round(2)}")

# %%
# Draws show what the mean hides: the sepals alone do not determine the species.
figure, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
plot_line(rome.marginal("sepal length"), ax, label="all flowers", color="#777777", confidence=None)
for (length, density), color in zip(
    conditionals.items(), ("#4477AA", "#CCBB44", "#AA3377"), strict=True
):
    plot_line(density, ax, label=f"petal length {length} cm", color=color)
ax.set(title="Sepal length, given the petal length", xlabel="sepal length (cm)")
figure.legend(frameon=False, loc="outside right upper")
plt.show()

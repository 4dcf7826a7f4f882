"""
Marginals, conditionals and missing values
==========================================

A fitted density gives the distribution of some features given others, without another fit, and
fills in missing values.
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
# The density of the sepal length given the petal length. A conditional is a density, too, with
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
# The petals of this flower were not measured. Its log density is that of the known features. The
# petals are imputed by their mean given the sepals, or by random draws.
flower = pd.DataFrame([[5.9, 3.0, np.nan, np.nan]], columns=iris.columns)
print(f"log density {rome.score_samples(flower, missing='marginal')[0]:.2f}")
print(f"mean    {np.asarray(rome.impute(flower))[0].round(2)}")
for seed in range(3):
    draw = np.asarray(rome.impute(flower, "sample", random_state=seed))[0]
    print(f"a draw  {draw.round(2)}")

# %%
# The draws differ, because the sepals alone do not determine the species. The mean does not show
# that.
figure, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
plot_line(rome.marginal("sepal length"), ax, label="all flowers", color="#777777", confidence=None)
for (length, density), color in zip(
    conditionals.items(), ("#4477AA", "#CCBB44", "#AA3377"), strict=True
):
    plot_line(density, ax, label=f"petal length {length} cm", color=color)
ax.set(title="Sepal length, given the petal length", xlabel="sepal length (cm)")
figure.legend(frameon=False, loc="outside right upper")
plt.show()

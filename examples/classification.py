"""
Classify with densities
=======================

``DensityClassifier`` applies Bayes' rule to one density per class. The classes may have any shape
and any number of modes. The densities also detect points that are unlike all classes.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.metrics import accuracy_score, log_loss

from sevenhills import DensityClassifier

# %%
# Two interleaved half moons, one for each class.
X, y = make_moons(400, noise=0.15, random_state=0)
X_test, y_test = make_moons(2000, noise=0.15, random_state=1)

# %%
# Quadratic discriminant analysis fits one Gaussian to each class, which cannot follow a moon.
models = [DensityClassifier(), QuadraticDiscriminantAnalysis()]
for model in models:
    model.fit(X, y)
    probabilities = model.predict_proba(X_test)
    accuracy = accuracy_score(y_test, model.predict(X_test))
    loss = log_loss(y_test, probabilities, labels=model.classes_)
    print(f"{type(model).__name__:30s} accuracy {accuracy:.3f}, log loss {loss:.3f}")

# %%
# Probabilities compare the classes with each other, so one of them may be high far from all data.
# A low log density over all classes shows that such a point is unlike the training data.
for place in ([0.0, 1.0], [4.0, 0.0]):
    probability = models[0].predict_proba([place]).max()
    log_density = models[0].score_samples([place])[0]
    label = models[0].predict([place])[0]
    print(f"{place}: class {label} with {probability:.0%}, log density {log_density:.1f}")

figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained", sharey=True)
x, height = np.linspace(-1.6, 2.6, 120), np.linspace(-1.1, 1.6, 80)
grid = np.stack(np.meshgrid(x, height), axis=-1)
for ax, model in zip(axes, models, strict=True):
    shown = model.predict_proba(grid.reshape(-1, 2))[:, 1].reshape(grid.shape[:2])
    shades = ax.contourf(x, height, shown, np.linspace(0, 1, 11), cmap="PuOr", alpha=0.8)
    for label, color in ((0, "#7F3B08"), (1, "#2D004B")):
        ax.plot(*X[y == label].T, ".", ms=3, color=color)
    ax.set(title=type(model).__name__, xlabel="x")
axes[0].set_ylabel("y")
figure.colorbar(shades, ax=axes, label="probability of class 1")
plt.show()

"""Draws every picture of ``plotting`` once; run as a module, prints digests of their pixels."""

import json
from hashlib import sha256

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from sevenhills import ROME, AutoROME, GaussianKDE, datasets, forecast, plotting


def drawings():
    """Return, by name, functions that draw on axes."""
    X = datasets.load("aniso").sample(150, random_state=0)
    rome, kde = ROME().fit(X), GaussianKDE().fit(X)
    walks = datasets.load("trajectories").sample(20, random_state=0)
    paths = np.random.RandomState(0).standard_normal((12, 9, 3, 2)).cumsum(axis=2)
    predictions, truth = paths[:, 1:], paths[:, 0]
    measures = ("ece", "ade")
    first, second = (forecast.evaluate(f * predictions, truth, measures=measures) for f in (1, 0.5))
    compared = forecast.compare(first, second, n_permutations=19)
    return {
        "plot_calibration": lambda ax: plotting.plot_calibration(first, ax),
        "plot_candidates": lambda ax: plotting.plot_candidates(rome, ax),
        "plot_clusters": lambda ax: plotting.plot_clusters(rome, X, ax),
        "plot_comparison": lambda ax: plotting.plot_comparison(compared, ax),
        "plot_corner": lambda ax: plotting.plot_corner(rome, X, ax=ax),
        "plot_density": lambda ax: plotting.plot_density(rome, X, ax),
        "plot_difference": lambda ax: plotting.plot_difference(rome, kde, ax=ax),
        "plot_forecast": lambda ax: plotting.plot_forecast(predictions, truth, 0, ax),
        "plot_line": lambda ax: plotting.plot_line(rome.marginal(0), ax),
        "plot_members": lambda ax: plotting.plot_members(AutoROME().fit(X), ax),
        "plot_reachability": lambda ax: plotting.plot_reachability(rome, ax),
        "plot_regions": lambda ax: plotting.plot_regions(rome, ax=ax),
        "plot_samples": lambda ax: plotting.plot_samples(X, rome.sample(50, random_state=0), ax),
        "plot_trajectories": lambda ax: plotting.plot_trajectories(walks, ax=ax),
    }


def digest(draw):
    """Return the digest of the pixels of a small figure."""
    figure = Figure(figsize=(3.5, 2.8), dpi=60, layout="constrained")
    canvas = FigureCanvasAgg(figure)
    draw(figure.subplots())
    canvas.draw()
    return sha256(np.asarray(canvas.buffer_rgba()).tobytes()).hexdigest()


if __name__ == "__main__":
    print(json.dumps({name: digest(draw) for name, draw in drawings().items()}))

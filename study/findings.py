"""Errors of the published study, each with a measurement that shows it."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite

import numpy as np
from scipy.special import logsumexp

from sevenhills import datasets
from sevenhills.density import KernelMixture
from sevenhills.estimators import ROME, ManifoldParzen
from sevenhills.metrics import wasserstein, wasserstein_indicator
from sevenhills.validation import random_generator

from .catalogue import BASELINES, RECIPES, published
from .tables import Summary


@dataclass(frozen=True)
class Finding:
    """An error of the study.

    Attributes
    ----------
    title : str
    text : str
        The error and the measurement.
    """

    title: str
    text: str


def findings(found: Mapping[tuple[str, str, str], Summary]) -> list[Finding]:
    """Return all findings, measured anew or taken from figures over runs.

    Parameters
    ----------
    found : mapping
        Figures by distribution, estimator and metric; findings without figures are left out.
    """
    every = (
        sum_of_logs(),
        varied_truth(found),
        ridge_of_gaussians(),
        wide_kernels(found),
        one_draw_per_window(),
        turned_windows(),
    )
    return [each for each in every if each is not None]


def sum_of_logs() -> Finding:
    """Compare the mixture of clusters with the sum of logarithms that Algorithm 1 prints."""
    train, test = datasets.load("aniso").split(run=0)
    density = ROME(min_std=0.01).fit(train).density_
    assert isinstance(density, KernelMixture)
    terms = np.array([density.component(label).logpdf(test) for label in density.clusters])
    shares = np.log(np.diff(density.offsets) / density.n_kernels)
    right = logsumexp(terms + shares[:, None], axis=0).mean()
    printed = (terms + shares[:, None]).sum(axis=0).mean()
    return Finding(
        "Algorithm 1 adds logarithms",
        "It adds the log densities of the clusters instead of their densities. On aniso, run 0, "
        f"the mean log-likelihood is {right:.2f} with the sum of densities, as the study reports, "
        f"and {printed:.1f} with the sum of logarithms.",
    )


def varied_truth(found: Mapping[tuple[str, str, str], Summary]) -> Finding | None:
    """Compare the divergences of fits of varied from the real and from the published truth."""
    methods = [name for name in BASELINES if ("varied", name, "D_JS_true") in found]
    if not methods:
        return None
    parts = [
        f"{RECIPES[name].title} {found['varied', name, 'D_JS_true'].mean:.4f} instead of "
        f"{found['varied', name, 'D_JS_as_published'].mean:.3f}"
        for name in methods
        if ("varied", name, "D_JS_as_published") in found
    ]
    return Finding(
        "The truth of varied is not that of its samples",
        "The samples have standard deviations of 1, 2.5 and .5; the study's true density has these "
        "numbers as variances. With the right density, the divergence from the truth is: "
        f"{', '.join(parts)}.",
    )


def ridge_of_gaussians() -> Finding:
    """Compare Gaussians with and without the study's ridge on trajectories."""
    distribution = datasets.load("trajectories")
    train, test = distribution.split(run=0)
    labels = ROME(min_std=distribution.min_std).fit(train).labels_
    wide, narrow = (
        ROME(min_std=min_std, density="gaussian").fit(train, labels=labels).score(test)
        for min_std in (distribution.min_std, 1e-3)
    )
    return Finding(
        "A ridge, not Gaussianity, makes f_GMM over-smooth on Trajectories",
        "The Gaussians that replace the kernels carry min_std squared on the diagonal of their "
        f"covariance. On trajectories, run 0, the mean log-likelihood is {wide:.1f} with that "
        f"ridge of .01, and {narrow:.1f} with a ridge of 1e-6; the truth has "
        f"{distribution.truth.logpdf(test).mean():.1f}.",
    )


def wide_kernels(found: Mapping[tuple[str, str, str], Summary]) -> Finding | None:
    """Compare ROME with the truth on trajectories, and two fits with each other."""
    keys = {
        "rome": ("trajectories", "rome", "L_hat"),
        "oracle": ("trajectories", "oracle", "L_hat"),
        "between": ("trajectories", "rome", "D_JS"),
        "true": ("trajectories", "rome", "D_JS_true"),
    }
    figures = {name: found[key].mean for name, key in keys.items() if key in found}
    if len(figures) < len(keys) or not all(map(isfinite, figures.values())):
        return None
    return Finding(
        "min_std = .1 on Trajectories is far from the truth, and D_JS does not show it",
        f"ROME's mean log-likelihood is {figures['rome']:.1f}, that of the truth "
        f"{figures['oracle']:.1f}: {figures['oracle'] - figures['rome']:.0f} nats apart. Two fits "
        f"differ by only {figures['between']:.3f} from each other, but by {figures['true']:.3f} of "
        "at most 1 from the truth: both are wide in the same way.",
    )


def one_draw_per_window(runs: int = 6, n_samples: int = 1000) -> Finding:
    """Compare independent draws of manifold Parzen windows with one draw from each."""
    printed = {
        cell.distribution: cell.mean
        for cell in published()
        if (cell.method, cell.metric) == ("mpw", "W_hat")
    }
    parts = []
    for name in ("aniso", "varied"):
        independent, one_each = _window_transport(name, runs, n_samples)
        parts.append(
            f"on {name} {independent:.2f} for independent draws and {one_each:.2f} for one draw "
            f"from each window, where the study has {printed[name]:.2f}"
        )
    return Finding(
        "Samples of manifold Parzen windows are not independent",
        "The study seems to draw exactly one sample from every window. Windows lie on the training "
        "samples, so that the draws have the same mode sizes and look closer to them. "
        f"Over {runs} runs of {n_samples} samples, the Wasserstein indicator is "
        f"{'; '.join(parts)}.",
    )


def _window_transport(name: str, runs: int, n_samples: int) -> np.ndarray:
    """Return the mean indicators of independent draws and of one draw from each window."""
    distribution = datasets.load(name)
    values = []
    for run in range(runs):
        first, second = distribution.split(run, n_samples)
        density = ManifoldParzen(min_std=distribution.min_std).fit(first).density_
        rng = random_generator(run)
        steps = rng.standard_normal((n_samples, density.n_features, 1))
        inverses = np.linalg.inv(density.transforms).transpose(0, 2, 1)
        each = density.means + np.matmul(inverses, steps)[:, :, 0]
        usual = wasserstein(first, second)
        draws = (density.sample(n_samples, random_state=rng), each)
        values.append([wasserstein_indicator(drawn, first, usual) for drawn in draws])
    return np.mean(values, axis=0)


def turned_windows(n_samples: int = 2000) -> Finding:
    """Compare draws of manifold Parzen windows with draws of transposed eigenvectors."""
    distribution = datasets.load("trajectories")
    density = (
        ManifoldParzen(min_std=distribution.min_std).fit(distribution.split(run=0)[0]).density_
    )
    rng = random_generator(0)
    kernel = rng.randint(density.n_kernels, size=n_samples)
    # transform = V / sqrt(L): right draws are V sqrt(L) steps, the study's are V^T sqrt(L) steps.
    stds = 1 / np.linalg.norm(density.transforms[kernel], axis=1)
    axes = density.transforms[kernel] * stds[:, None, :]
    steps = rng.standard_normal((n_samples, density.n_features)) * stds
    right = density.means[kernel] + np.einsum("ijk,ik->ij", axes, steps)
    turned = density.means[kernel] + np.einsum("ikj,ik->ij", axes, steps)
    scores = [density.logpdf(draws).mean() for draws in (right, turned)]
    return Finding(
        "Draws of manifold Parzen windows have the wrong orientation",
        "A window with eigenvectors V and eigenvalues L is sampled as if its covariance were V' L "
        "V instead of V L V'. On trajectories, run 0, draws have a mean log density of "
        f"{scores[0]:.1f} under the windows, draws with the wrong orientation {scores[1]:.1f}.",
    )

"""Compiling ahead of the first use."""

from typing import Any

import numpy as np

from .estimators import ROME, AutoROME, ManifoldParzen
from .kernels.compile import compile_seconds

#: Points from which log densities are computed by the methods for many points.
_MANY = 6000


def warm() -> float:
    """Compile all kernels, and return the seconds that it took.

    Kernels are otherwise compiled when they are first used, and then taken from a cache on disk:
    the first fit on a machine takes seconds longer than the next. Call this when an image is built
    or before times are measured. It returns about 0 if the kernels are in the cache.

    Examples
    --------
    >>> import sevenhills
    >>> seconds = sevenhills.warm()
    """
    # scikit-learn's data sets and forecasts are not needed to import the package.
    from . import datasets
    from .forecast import evaluate

    start = compile_seconds()
    rng = np.random.default_rng(0)
    plane = datasets.load("aniso").sample(5000, random_state=0)
    for estimator in (ROME(), ROME(selection="dbcv"), AutoROME(), ManifoldParzen()):
        _question(estimator.fit(plane[:300]).density_)
    ROME().fit(plane)  # enough samples for the tree, and for samples of rows
    for n_features in (1, 2, 3, 5, 8):
        X = rng.standard_normal((_MANY, n_features))
        ROME(selection=None).fit(X).score_samples(X)
    ManifoldParzen().fit(X).score_samples(X)
    space: Any = ROME(selection=None).fit(X[:300, :3]).density_
    space.conditional({0: X[:20, 0]}).logpdf(X[:20, 1:3])
    space.conditional({0: X[:20, 0]}).mode()
    walks = datasets.make_walks(20, random_state=0)
    evaluate(walks.law.draw(20, random_state=1), walks.truth, measures="all")
    return compile_seconds() - start


def _question(density: Any) -> None:
    """Call the methods of a mixture of kernels that have kernels of their own."""
    x = density.sample(20, random_state=0)
    density.logpdf(x)
    density.modes()
    density.grad_logpdf(x)
    density.hess_logpdf(x)
    density.effective_sample_size(x)
    density.predict_proba(x)
    density.conditional({0: float(x[0, 0])}).mean()
    rows = density.conditional({0: x[:, 0]})
    for method in (rows.mean, rows.mode):
        method()
    rows.ppf(0.5)
    rows.crps(x[:, 1])
    rows.hdr_level(0.9)
    density.impute(np.where([True, False], x, np.nan))
    density.probability([0.0, 0.0], [1.0, 1.0])

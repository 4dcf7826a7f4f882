"""The estimators that the laws are tested with: one list for all of them.

Every class of the registry is on it, so that a new estimator is tested without a change here.
"""

import pytest

from sevenhills import ROME, ManifoldParzen, compat
from sevenhills.estimators import ESTIMATORS

#: Parameters that make fits cheaper, and change nothing that a law is about.
_CHEAP = {"gmm": {"max_components": 3}}

#: One estimator of every class of the registry.
REGISTERED = [cls(**_CHEAP.get(name, {})) for name, cls in ESTIMATORS.items()]

#: Parameters with which a fit takes another path through the code.
SETTINGS = [
    ROME(selection="dbcv"),
    ROME(scale="auto"),
    ROME(density="gaussian"),
    ROME(density="knn"),
    ROME(density="mpw", decorrelate=False),
    ROME(decorrelate=False, normalize=False),
    ManifoldParzen(n_directions=1, n_neighbors=3),
]

EVERY = [*REGISTERED, *SETTINGS]

#: Their densities are mixtures of Gaussian kernels.
WITH_KERNELS = [each for each in EVERY if hasattr(each, "modes")]

#: Their densities integrate to one and can be sampled.
NORMALIZED = [each for each in EVERY if getattr(each, "density", None) != "knn"]

#: compat.ROME is no scikit-learn estimator; most laws hold for it, too.
AND_COMPAT = [*EVERY, compat.ROME()]


def name_of(estimator):
    return "compat.ROME()" if isinstance(estimator, compat.ROME) else repr(estimator)


def for_each(estimators):
    """Return the decorator that runs a test for each of some estimators."""
    return pytest.mark.parametrize("estimator", estimators, ids=name_of)


each_estimator = for_each(EVERY)

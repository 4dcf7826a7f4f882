"""Who is tortured: every estimator of the package, and for comparison those of other packages."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.special import logsumexp
from scipy.stats import gaussian_kde
from sklearn.base import clone
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import KernelDensity

from sevenhills import ROME, GaussianKDE, compat

from ..estimators import REGISTERED

#: What a subject may lack, and what that means.
THINGS = {
    "sampling": "sample",
    "integral": "a density that integrates to one",
    "tails": "a sum of kernels, with which the tails can be compared",
    "score": "score",
    "estimator": "the methods of a scikit-learn estimator: get_params, clone, n_features_in_",
    "unfitted": "an estimator before it is fitted",
    "value": "density_ and is_normalized",
    "files": "sevenhills.save and sevenhills.load",
    "threads": "n_jobs",
    "labels": "labels_",
    "weights": "sample_weight",
    "counts": "weights that count like repeated rows",
    "row order": "a density that does not depend on the order of the rows",
    "units": "a density that follows the unit of length",
    "rotation": "a density that follows rotations",
    "robustness": "densities near the bulk that do not depend on what is far away",
    "smoothness": "densities that do not depend on single samples",
}


@dataclass(frozen=True, eq=False)
class Subject:
    """An estimator under torture.

    ``lacks`` gives the reason for each of the things that it cannot offer, ``kernels`` turns a
    fitted model into the weights, means and covariances of the Gaussians that it is a sum of.
    """

    name: str
    make: Callable[[], Any]
    lacks: Mapping[str, str] = field(default_factory=dict)
    kernels: Callable[[Any], tuple[np.ndarray, np.ndarray, np.ndarray]] | None = None
    #: The end of messages about samples that it need not fit; None if it fits all.
    refuses: str | None = None

    def can(self, thing):
        """Return whether it offers one of the things."""
        return thing not in self.lacks

    def fit(self, X, **keywords):
        """Return a new estimator, fitted."""
        return self.make().fit(X, **keywords)

    def parameters(self):
        """Return the names of the constructor's parameters."""
        return tuple(inspect.signature(type(self.make())).parameters)

    def make_with(self, name, value):
        """Return a new estimator with one of its parameters changed."""
        model = self.make()
        setattr(model, name, value)
        return model

    def log_sum(self, model, X):
        """Return log densities by adding up kernels, one by one and without any shortcut."""
        weights, means, precisions = self.kernels(model)
        apart = X[:, None, :] - means
        squares = np.einsum("qki,kij,qkj->qk", apart, precisions, apart)
        log_dets = np.linalg.slogdet(precisions)[1]
        constant = 0.5 * X.shape[1] * np.log(2 * np.pi)
        return logsumexp(np.log(weights) + 0.5 * (log_dets - squares), axis=1) - constant


def _kernels_of_mixture(model):
    density = model.density_
    precisions = density.transforms @ density.transforms.transpose(0, 2, 1)
    return density.weights, density.means, np.repeat(precisions, np.diff(density.offsets), axis=0)


_ONE_SHAPE = "one covariance, or one measure of spread, for all samples"
_NO_CLUSTERS = "finds no clusters"
_NO_KERNELS = "no sum of kernels"
_NEIGHBORS = "a nearest-neighbor density is not normalized"
_FIRST = "the ordering starts at the first row"

#: Settings of ROME that take another path through the code.
_SETTINGS = (
    ROME(selection="dbcv"),
    ROME(selection=None),
    ROME(decorrelate=False),
    ROME(normalize=False),
    ROME(density="gaussian"),
    ROME(density="knn"),
    ROME(density="mpw"),
    ROME(start="first"),
)

#: Settings with a support, in units in which most of the samples are inside of it.
_SUPPORTED = (
    ROME(support={0: (-100.0, None, "log")}),
    GaussianKDE(support={0: (-100.0, 1e4, "mirror")}),
    ROME(support={0: ("circular", 400.0)}),
)
_FOLDED = "the kernels are those of latent coordinates"
_BOUNDED = "a support is that of a feature, in data units"

#: What an estimator does not promise although it has the methods; of all others it is demanded.
_NOT_PROMISED = {
    "ROME(selection='dbcv')": {
        "robustness": "density-based validation splits one hill, with every outlier otherwise",
        "rotation": "noise, which it finds in the hills, is scaled feature by feature",
    },
    "ROME(selection=None)": {"robustness": _ONE_SHAPE},
    "ROME(decorrelate=False)": {"rotation": "features are scaled one by one"},
    "ROME(normalize=False)": {"units": "kernels are measured in data units"},
    "ROME(density='knn')": {"sampling": _NEIGHBORS, "integral": _NEIGHBORS},
    "ROME(density='mpw')": {"smoothness": "windows of three neighbors follow single samples"},
    "ROME(start='first')": {"row order": _FIRST},
    "AutoROME()": {"rotation": "looks at the features one by one, too"},
    "GaussianKDE()": {"robustness": _ONE_SHAPE},
    "KernelDensityCV()": {"robustness": _ONE_SHAPE},
    "GaussianMixtureBIC(max_components=3)": {"robustness": _ONE_SHAPE},
    "ManifoldParzen()": {"robustness": _ONE_SHAPE},
    "VineDensity()": {
        "rotation": "margins are those of the features",
        "robustness": "margins are those of all samples",
    },
}


def _subject_of(estimator):
    """Return the subject of one of our estimators; missing methods say what it lacks."""
    lacks = dict(_NOT_PROMISED.get(repr(estimator), {}))
    if not hasattr(estimator, "modes"):
        lacks["tails"] = _NO_KERNELS
    if not hasattr(estimator, "fit_predict"):
        lacks["labels"] = _NO_CLUSTERS
    kernels = None if "tails" in lacks else _kernels_of_mixture
    return Subject(repr(estimator), partial(clone, estimator), lacks, kernels)


def _subject_with_support(estimator):
    lacks = {"tails": _FOLDED} | dict.fromkeys(("units", "rotation", "robustness"), _BOUNDED)
    subject = _subject_of(estimator)
    refuses = "correct the value or the support|declare the period in the unit of the feature"
    return replace(subject, lacks={**subject.lacks, **lacks}, kernels=None, refuses=refuses)


_COMPAT = Subject(
    "compat.ROME()",
    compat.ROME,
    {
        "score": "not among romepy's methods",
        "estimator": "romepy's class is no scikit-learn estimator",
        "value": "not among romepy's attributes",
        "threads": "not among romepy's parameters",
        "units": "min_std is given in data units",
        "row order": _FIRST,
    },
    lambda model: _kernels_of_mixture(model._model),
)

#: Every class of the registry, so that a new estimator is tested without a change here.
OURS = (
    *(_subject_of(each) for each in (*REGISTERED, *_SETTINGS)),
    _COMPAT,
    *map(_subject_with_support, _SUPPORTED),
)


class _ScipyKDE:
    """scipy's gaussian_kde as its users call it."""

    def __init__(self, bw_method=None):
        self.bw_method = bw_method

    def fit(self, X, sample_weight=None):
        self.kde = gaussian_kde(np.transpose(X), bw_method=self.bw_method, weights=sample_weight)
        return self

    def score_samples(self, X):
        return self.kde.logpdf(np.transpose(X))

    def sample(self, n_samples=1, random_state=None):
        return self.kde.resample(n_samples, seed=random_state).T


class _SklearnMixture(GaussianMixture):
    """scikit-learn's GaussianMixture, seeded for each sample."""

    def __init__(self, n_components=2, reg_covar=1e-6, n_init=1, random_state=0):
        super().__init__(
            n_components, reg_covar=reg_covar, n_init=n_init, random_state=random_state
        )

    def sample(self, n_samples=1, random_state=None):
        kept, self.random_state = self.random_state, random_state
        try:
            return super().sample(n_samples)[0]
        finally:
            self.random_state = kept


def _kernels_of_scipy(model):
    kde = model.kde
    precision = np.linalg.inv(kde.covariance)
    return kde.weights, kde.dataset.T, np.repeat(precision[None], kde.n, axis=0)


def _kernels_of_trees(model):
    centers = np.asarray(model.tree_.data)
    precision = np.eye(centers.shape[1]) / model.bandwidth_**2
    n_kernels = len(centers)
    return np.full(n_kernels, 1 / n_kernels), centers, np.repeat(precision[None], n_kernels, axis=0)


def _kernels_of_sklearn(model):
    return model.weights_, model.means_, model.precisions_


_NOT_OURS = {
    "value": "no density_ beside the estimator",
    "files": "writes no model files",
    "threads": "no n_jobs",
    "labels": _NO_CLUSTERS,
}

PEERS = (
    Subject(
        "sklearn KernelDensity()",
        KernelDensity,
        {**_NOT_OURS, "units": "the bandwidth is given in data units"},
        _kernels_of_trees,
    ),
    Subject(
        "sklearn GaussianMixture(2)",
        _SklearnMixture,
        {
            **_NOT_OURS,
            "weights": "fit takes no sample_weight",
            "robustness": _ONE_SHAPE,
            "units": "reg_covar is given in data units",
        },
        _kernels_of_sklearn,
    ),
    Subject(
        "scipy gaussian_kde",
        _ScipyKDE,
        {
            **_NOT_OURS,
            "estimator": "no scikit-learn estimator",
            "unfitted": "there is none before the samples",
            "score": "has no score",
            "counts": "weights are shares",
            "robustness": _ONE_SHAPE,
        },
        _kernels_of_scipy,
    ),
)

"""Scales of features: the density of scaled samples, in the units of the samples as given."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from sevenhills import (
    ROME,
    AutoROME,
    DensityClassifier,
    DensityOutlierDetector,
    DensityRegressor,
    KernelMixture,
    compat,
    datasets,
    load,
    save,
)
from sevenhills.clustering.scaling import feature_scales
from sevenhills.report.subject import make_subject
from sevenhills.scale import fit_many

#: Features of all kinds: two clusters, a skewed feature, a share and a direction.
SUPPORT = {1: (0, None), 2: (0, 1), 3: ("circular", 360.0)}
ESTIMATORS = [
    ROME(scale="auto"),
    ROME(scale="std"),
    ROME(scale="auto", density="mpw", selection="dbcv"),
    ROME(scale="auto", density="gaussian", shrinkage="auto"),
    ROME(scale="auto", normalize=False),
    AutoROME(),
    AutoROME(scale="std"),
]

each_estimator = pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
each_support = pytest.mark.parametrize("support", [None, SUPPORT], ids=["plain", "supports"])


def samples(n_samples=150, seed=0):
    """Two clusters, in which a direction about north depends on a share."""
    rng = np.random.default_rng(seed)
    is_first = np.arange(n_samples) % 3 == 0
    shares = rng.beta(2.0, 3.0, n_samples)
    return np.stack(
        [
            rng.normal(size=n_samples) + 12 * is_first,
            rng.lognormal(np.where(is_first, 1.0, 2.0), 0.4),
            shares,
            (30 * rng.normal(size=n_samples) + 90 * shares) % 360,
        ],
        axis=1,
    )


def with_support(estimator, support, factors=1.0):
    """The estimator for samples that are multiplied by factors."""
    if support is None:
        return clone(estimator)
    factors = factors * np.ones(4)
    return clone(estimator).set_params(
        support={
            1: (0, None),
            2: (0, factors[2]),
            3: ("circular", 360.0 * factors[3]),
        }
    )


# The density


@each_support
@each_estimator
def test_is_the_density_of_scaled_samples(estimator, support):
    X = samples()
    model = with_support(estimator, support).fit(X)
    plain = with_support(estimator, support, 1 / model.scale_).set_params(scale=None)
    plain.fit(X / model.scale_)
    log_scales = np.log(model.scale_).sum()
    expected = plain.score_samples(X / model.scale_) - log_scales
    assert_allclose(model.score_samples(X), expected, atol=1e-9)
    assert_array_equal(model.labels_, plain.labels_)
    for cluster, other in zip(model.clusters_, plain.clusters_, strict=True):
        assert_allclose(cluster.mean, other.mean * model.scale_, rtol=1e-9)
    if isinstance(model, AutoROME):
        assert_allclose(model.held_out_, plain.held_out_ - log_scales, atol=1e-9)
    else:
        assert_allclose(model.min_std_, plain.min_std_)
        assert_allclose(model.clusters_[0].stds, plain.clusters_[0].stds)
    assert_array_equal(model.candidates_.labels(), plain.candidates_.labels())


@pytest.mark.parametrize("kind", ["auto", "std"])
def test_scales_are_those_of_features(kind):
    X = samples()
    assert_array_equal(ROME(scale=kind).fit(X).scale_, feature_scales(X, kind=kind))
    assert_array_equal(ROME().fit(X).scale_, np.ones(4))
    assert_array_equal(AutoROME(scale=None).fit(X).scale_, np.ones(4))
    bounded = ROME(scale=kind, support={1: (0, None, "log")}).fit(X)
    X[:, 1] = bounded.support_[0].map.forward(X[:, 1])
    assert_allclose(bounded.scale_, feature_scales(X, kind=kind), rtol=1e-12)


def test_mapped_features_with_supports():
    """Maps of shapes follow those of bounds, in data units."""
    X = samples(400)
    X[:, 0] = np.sinh(X[:, 0] / 3)
    X[:, 1] = np.exp(X[:, 1] / 4)
    model = AutoROME(support=SUPPORT).fit(X)
    assert model.density_.maps is not None
    assert_allclose(model.held_out_, model.score(X), atol=0.7)
    turned = X + np.array([0, 0, 0, 360.0])
    assert_allclose(model.score_samples(turned), model.score_samples(X), atol=1e-9)
    drawn = model.sample(1000, random_state=0)
    assert (drawn[:, 1] > 0).all()
    assert ((drawn[:, 2] >= 0) & (drawn[:, 2] <= 1)).all()
    assert_allclose(np.median(drawn, axis=0)[:3], np.median(X, axis=0)[:3], rtol=0.5)


def test_features_of_a_small_spread_are_not_smoothed_away():
    rng = np.random.default_rng(0)
    X, new = rng.normal(size=(2, 300, 2)) * [1e-4, 1e4]
    raw, scaled = ROME().fit(X), ROME(scale="auto").fit(X)
    assert scaled.score(new) > raw.score(new) + 5


def test_a_feature_of_one_value():
    X = samples()
    X[:, 2] = 0.3
    for estimator in (ROME(scale="auto"), ROME(scale="std"), AutoROME()):
        model = estimator.fit(X)
        assert model.scale_[2] == 1.0
        assert np.isfinite(model.score_samples(X)).all()


@pytest.mark.parametrize("estimator", [ROME(scale="auto"), AutoROME()], ids=repr)
def test_features_of_very_different_spreads(estimator):
    X = samples() * [1e-250, 1e250, 1.0, 1e-300]
    model = clone(estimator).fit(X)
    assert np.isfinite(model.score_samples(X)).all()
    X[0, 2] = 1e200
    model = clone(estimator).fit(X)
    assert np.isfinite(model.score_samples(X)).all()


# Invariance


@each_support
@each_estimator
@pytest.mark.parametrize("factors", [(1000, 1, 1, 1), (1, 1e-6, 1, 3e5), (3e5, 7, 1e-6, 0.3)])
def test_units_of_features_change_the_density_by_a_constant(estimator, support, factors):
    X, factors = samples(), np.array(factors)
    plain = with_support(estimator, support).fit(X)
    changed = with_support(estimator, support, factors).fit(X * factors)
    expected = plain.score_samples(X) - np.log(factors).sum()
    assert_allclose(changed.score_samples(X * factors), expected, atol=1e-9)
    assert_array_equal(changed.labels_, plain.labels_)
    assert_allclose(changed.scale_, plain.scale_ * factors, rtol=1e-9)


@pytest.mark.parametrize("factor", [1000, 1e-6, 3e5])
@pytest.mark.parametrize("estimator", [ROME(scale="auto"), ROME(scale="std"), AutoROME()], ids=repr)
def test_units_of_rounded_features(estimator, factor):
    X = samples()
    X[:, 0], X[:, 3] = np.round(X[:, 0]), np.round(X[:, 3] / 10)
    plain, changed = (clone(estimator).fit(X * [f, 1, 1, 1]) for f in (1.0, factor))
    assert plain.resolution_.any()
    expected = plain.score_samples(X) - np.log(factor)
    assert_allclose(changed.score_samples(X * [factor, 1, 1, 1]), expected, atol=1e-9)
    assert_array_equal(changed.labels_, plain.labels_)


@each_support
@each_estimator
def test_row_and_column_order_do_not_matter(estimator, support):
    X = samples()
    plain = with_support(estimator, support).fit(X)
    rows = np.random.default_rng(0).permutation(len(X))
    mixed = with_support(estimator, support).fit(X[rows])
    assert_allclose(mixed.score_samples(X), plain.score_samples(X), atol=1e-7)
    assert_array_equal(mixed.labels_, plain.labels_[rows])
    turned = clone(estimator)
    if support is not None:
        turned.set_params(support={3 - j: each for j, each in support.items()})
    turned.fit(X[:, ::-1])
    assert_allclose(turned.score_samples(X[:, ::-1]), plain.score_samples(X), atol=1e-6)
    assert_allclose(turned.scale_, plain.scale_[::-1], rtol=1e-12)


@each_support
@each_estimator
def test_weights_are_repetitions(estimator, support):
    X = samples()
    weights = np.random.default_rng(0).integers(0, 4, size=len(X))
    weighted = with_support(estimator, support).set_params(resolution=None)
    repeated = clone(weighted).fit(np.repeat(X, weights, axis=0))
    weighted.fit(X, sample_weight=weights)
    assert_allclose(weighted.scale_, repeated.scale_, rtol=1e-12)
    assert_allclose(weighted.score_samples(X), repeated.score_samples(X), atol=1e-6)


# Files, words and errors


@each_estimator
def test_models_are_saved_and_loaded_to_the_bit(estimator, tmp_path):
    X = pd.DataFrame(samples(), columns=list("abcd"))
    model = with_support(estimator, SUPPORT).fit(X)
    save(model, tmp_path / "model")
    for again in (load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        assert again.scale == model.scale
        assert_array_equal(again.scale_, model.scale_)
        assert_array_equal(again.score_samples(X), model.score_samples(X))
    assert again.density_.feature_names == tuple("abcd")


@pytest.mark.parametrize("estimator", [ROME(scale="auto"), AutoROME(maps=None)], ids=repr)
def test_reports_know_the_samples(estimator):
    X = samples() * [1.0, 1e-3, 1e4, 1.0]
    model = clone(estimator).fit(X)
    assert make_subject(model, X, None).X is not None
    with pytest.raises(ValueError, match="X must be the samples that the model was fitted to"):
        make_subject(model, X[::-1], None)


def test_reports_know_the_samples_of_features_of_few_values():
    X = np.column_stack([samples(60)[:, 0], 1000 * (np.arange(60) % 3 == 0)])
    model = AutoROME().fit(X)
    assert model.categories_ == (1,)
    assert make_subject(model, X, None).labels is model.labels_


def test_summaries_name_the_scales():
    X = samples()
    for scale, words in (("auto", "typical differences"), ("std", "standard deviations")):
        for model in (ROME(scale=scale), AutoROME(scale=scale)):
            assert f"Features are divided by their {words}" in model.fit(X).summary()
    assert "divided" not in ROME().fit(X).summary()


@pytest.mark.parametrize("scale", ["mad", "", 1.0, True, b"auto", ["auto"], np.ones(4)])
def test_bad_scales_are_refused(scale):
    for estimator in (ROME(scale=scale), AutoROME(scale=scale)):
        with pytest.raises(ValueError, match="scale must be one of"):
            estimator.fit(samples())


@pytest.mark.parametrize("scale", ["auto", "std"])
def test_densities_without_kernels_refuse_scales(scale):
    with pytest.raises(ValueError, match="scale needs a mixture of kernels"):
        ROME(density="knn", scale=scale).fit(samples())


@pytest.mark.parametrize("estimator", [ROME(scale="auto"), AutoROME()], ids=repr)
def test_a_failed_fit_keeps_the_old_model(estimator):
    X = samples()
    model = clone(estimator).fit(X)
    before = dict(vars(model))
    with pytest.raises(ValueError, match="beyond what kernels can represent"):
        model.fit(X * 1e300)
    assert vars(model) == before
    unfitted = clone(estimator)
    with pytest.raises(ValueError, match="beyond what kernels can represent"):
        unfitted.fit(X * 1e300)
    assert not hasattr(unfitted, "scale_")


def test_one_sample_and_two():
    for estimator in (ROME(scale="auto", min_std=0.1), ROME(scale="std", min_std=0.1)):
        for n_samples in (1, 2):
            X = samples(n_samples)
            assert np.isfinite(clone(estimator).fit(X).score_samples(X)).all()


def test_the_published_method_is_the_default():
    X = datasets.load("aniso").sample(200, random_state=0)
    model = ROME().fit(X)
    assert ROME().scale is None
    assert isinstance(model.density_, KernelMixture)
    assert_array_equal(model.density_.means[np.lexsort(model.density_.means.T)], X[np.lexsort(X.T)])


class TestTheWarningAboutUnequalScales:
    """ROME warns of features in different units, once and not on behalf of others."""

    X = np.random.default_rng(0).normal(size=(60, 3)) * [1.0, 1.1, 1000.0]

    @staticmethod
    def warned(fit):
        """The warnings that Python shows."""
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("default")
            fit()
        return found

    def test_it_names_features_and_the_remedy(self):
        frame = pd.DataFrame(self.X, columns=["length", "width", "mass"])
        (found,) = self.warned(lambda: ROME().fit(frame))
        assert str(found.message) == (
            "the scales of mass and length differ by a factor of more than 100, and ROME takes "
            "features as they are, so that the wide ones decide the clusters. If they have "
            "different units, pass scale='auto' or use AutoROME()"
        )
        assert found.filename == __file__

    def test_similar_samples_are_warned_of_once(self):
        rng = np.random.default_rng(1)
        found = self.warned(
            lambda: [ROME().fit(self.X[rng.permutation(60)[:50]]) for _ in range(5)]
        )
        assert len(found) == 1

    @pytest.mark.parametrize(
        "fit",
        [
            lambda X: ROME(scale="auto").fit(X),
            lambda X: AutoROME().fit(X),
            lambda X: ROME().fit(X[:, :2]),
            lambda X: ROME(selection=None).fit(X),
            lambda X: ROME().fit(X * [1.0, 1.0, 0.0]),
            lambda X: DensityOutlierDetector(min_share=0.1).fit(X),
            lambda X: DensityClassifier(ROME(scale="auto"), pool=None).fit(X, np.arange(60) % 2),
            lambda X: DensityRegressor().fit(X[:, 1:], X[:, 0]),
            lambda X: compat.ROME().fit(X),
            lambda X: fit_many([X, X], ROME()),
        ],
    )
    def test_it_is_silent(self, fit):
        assert self.warned(lambda: fit(self.X)) == []

    def test_other_computations_warn_once(self):
        detector = DensityOutlierDetector(ROME(), calibration=3)
        assert len(self.warned(lambda: detector.fit(self.X))) == 1

    def test_paths_share_a_unit(self):
        X = datasets.load("trajectories").sample(100, random_state=0)
        assert self.warned(lambda: ROME().fit(X)) == []
        (found,) = self.warned(lambda: ROME().fit(X[:, ::-1] * np.arange(1, 25)))
        assert "differ by a factor" in str(found.message)

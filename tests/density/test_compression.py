"""Densities of fewer kernels: what they keep, and what they lose at held-out points."""

import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from sevenhills import (
    ROME,
    GaussianKDE,
    KernelMixture,
    datasets,
    load,
    save,
)
from sevenhills.density import Compression, CompressionError
from sevenhills.density.compression import ClusterKernels

from .. import oracles
from ..densities import fitted, random_mixture, samples
from ..strategies import awkward


def cluster_kernels(density):
    return ClusterKernels.from_kernels(density.kernels, np.arange(density.n_kernels))


def covariances(transforms):
    inverses = np.linalg.inv(transforms)
    return np.einsum("gji,gjk->gik", inverses, inverses)


def fit_and_held_out(name, n_samples=2000, n_held_out=3000, estimator=GaussianKDE):
    X = datasets.load(name).sample(n_samples + n_held_out, random_state=0)
    return estimator().fit(X[:n_samples]), X[n_samples:]


class TestCells:
    @given(
        seed=st.integers(0, 2**32 - 1),
        n_features=st.integers(1, 6),
        n_groups=st.sampled_from([1, 3, 40]),
        n_cells=st.integers(1, 40),
    )
    def test_cells_are_those_of_the_twin(self, seed, n_features, n_groups, n_cells):
        density = random_mixture(seed, n_features, n_groups, n_kernels=40, stretch=0.5)
        cluster = cluster_kernels(density)
        found = [cluster.rows[cell] for cell in cluster.divide(cluster.whole(), n_cells)]
        expected = oracles.divided_kernels(density, n_cells)
        assert {frozenset(cell) for cell in found} == {frozenset(cell) for cell in expected}

    @given(
        seed=st.integers(0, 2**32 - 1),
        n_features=st.integers(1, 6),
        n_groups=st.sampled_from([1, 3, 40]),
    )
    def test_kernels_of_cells_are_those_of_the_twin(self, seed, n_features, n_groups):
        density = random_mixture(seed, n_features, n_groups, n_kernels=40, stretch=1.0)
        cluster = cluster_kernels(density)
        order = np.random.RandomState(seed).permutation(40)
        cells = np.split(order, [1, 3, 10, 20])
        found = cluster.merge(cells)
        for k, cell in enumerate(cells):
            mass, mean, covariance = oracles.merged_kernel(density, cluster.rows[cell])
            assert_allclose(np.exp(found.log_weights[k]), mass)
            assert_allclose(found.means[k], mean, atol=1e-12)
            scale = np.abs(covariance).max()
            assert_allclose(covariances(found.transforms[k : k + 1])[0] / scale, covariance / scale)
        assert_allclose(found.log_dets, np.linalg.slogdet(found.transforms)[1])

    def test_more_cells_go_on_from_fewer(self):
        cluster = cluster_kernels(random_mixture(0))
        few = cluster.divide(cluster.whole(), 5)
        at_once = cluster.divide(cluster.whole(), 20)
        step_by_step = cluster.divide(few, 20)
        assert {frozenset(cell) for cell in at_once} == {frozenset(cell) for cell in step_by_step}

    def test_kernels_in_one_place_stay_together(self):
        centres = np.repeat([[0.1, 0.2], [0.3, 0.7]], [3, 4], axis=0)
        density = KernelMixture(np.full(7, 1 / 7), centres, [0, 7], [np.eye(2)])
        cluster = cluster_kernels(density)
        assert sorted(map(len, cluster.divide(cluster.whole(), 7))) == [3, 4]

    def test_centres_in_the_middle_go_to_the_same_side_in_any_order(self):
        centres = np.array([[-1.0, 0.0], [0.0, 0.0], [1.0, 0.0]])
        for order in ([0, 1, 2], [2, 1, 0], [1, 2, 0]):
            density = KernelMixture(np.full(3, 1 / 3), centres[order], [0, 3], [np.eye(2)])
            cluster = cluster_kernels(density)
            cells = cluster.divide(cluster.whole(), 2)
            assert sorted(cluster.means[cell].tolist() for cell in cells) == [
                [[-1.0, 0.0], [0.0, 0.0]],
                [[1.0, 0.0]],
            ]


@pytest.fixture(scope="module")
def pair():
    """A density of three clusters, before and after."""
    model, held_out = fit_and_held_out("aniso", estimator=ROME)
    return model.density_, model.compress(held_out, max_loss=0.05).density


class TestWhatIsKept:
    def test_mass_mean_and_covariance(self, pair):
        before, after = pair
        assert after.n_kernels < before.n_kernels / 100
        assert_allclose(after.weights.sum(), 1, rtol=1e-12)
        assert_allclose(after.mean(), before.mean(), rtol=1e-10)
        assert_allclose(after.cov(), before.cov(), rtol=1e-10)

    def test_clusters_and_samples(self, pair):
        before, after = pair
        assert_array_equal(np.unique(after.clusters), np.unique(before.clusters))
        for label in np.unique(before.clusters):
            masses = [p.weights[p.clusters[p.kernels.group_of_kernel] == label].sum() for p in pair]
            assert_allclose(*masses)
        assert_allclose(after.counts.sum(), before.counts.sum())
        assert_allclose(after.counts, before.counts.sum() * after.weights)

    def test_names(self):
        table = pd.DataFrame(samples(), columns=["x", "y"])
        model = GaussianKDE().fit(table[:150])
        after = model.compress(table[150:], max_loss=1.0).density
        assert after.feature_names == ("x", "y")
        with pytest.raises(ValueError, match="features"):
            model.compress(table[150:][["y", "x"]])

    def test_all_questions_have_answers(self, pair):
        _, after = pair
        X = samples()[:20]
        assert after.marginal([1]).logpdf(X[:, 1:]).shape == (20,)
        assert np.isfinite(after.conditional({0: 0.0}).logpdf([[0.5]])).all()
        assert after.sample(10, random_state=0).shape == (10, 2)
        assert len(after.modes()) == 3
        assert after.predict_proba(X).shape == (len(X), len(np.unique(after.clusters)))
        assert (after.effective_sample_size(X) > 0).all()
        assert not after.is_extrapolation(X).all()
        assert np.isfinite(after.grad_logpdf(X)).all()
        assert 0 < after.hdr_probability(X).min() <= 1
        assert after.bootstrap(n_replicates=5).logpdf(X).shape == (5, 20)

    def test_files(self, pair, tmp_path):
        _, after = pair
        save(after, tmp_path / "model.npz")
        assert_array_equal(load(tmp_path / "model.npz").logpdf(samples()), after.logpdf(samples()))


SLOW = pytest.mark.slow


class TestBound:
    @pytest.mark.parametrize("seed", [0, *(pytest.param(s, marks=SLOW) for s in (1, 2, 3))])
    @pytest.mark.parametrize(("name", "max_loss"), [("two_moons", 0.02), ("varied", 0.05)])
    def test_fresh_samples_lose_no_more(self, name, max_loss, seed):
        data = datasets.load(name)
        model = GaussianKDE().fit(data.sample(2000, random_state=seed))
        held_out, fresh = (data.sample(n, random_state=seed + 10) for n in (3000, 23_000))
        found = model.compress(held_out, max_loss=max_loss)
        losses = model.density_.logpdf(fresh[3000:]) - found.density.logpdf(fresh[3000:])
        assert losses.mean() <= found.bound <= max_loss
        assert found.n_after <= 2000 / 6

    @pytest.mark.parametrize("name", ["trajectories", "unimodal_trajectories"])
    def test_high_dimension(self, name):
        model, held_out = fit_and_held_out(name, 1500, 1000)
        found = model.compress(held_out)
        assert found.n_after <= 1500 / 50
        fresh = datasets.load(name).sample(2000, random_state=5)
        assert found.density.logpdf(fresh).mean() > model.score(fresh) - 0.01

    def test_what_is_measured(self):
        """By the half that did not choose."""
        model, X = fit_and_held_out("two_moons", 1000, 800)
        found = model.compress(X, max_loss=0.2, random_state=3)
        order = np.random.RandomState(3).permutation(X[np.lexsort(X.T)])
        losses = (model.density_.logpdf(order) - found.density.logpdf(order))[400:]
        assert_allclose(found.loss, losses.mean())
        assert_allclose(found.loss.std_error, losses.std(ddof=1) / 20)
        assert_allclose(found.change, np.abs(losses).mean())
        assert_allclose(found.largest, losses.max())
        more = np.append(losses, 2 * losses.max())
        assert_allclose(found.bound, more.mean() + 2.576 * more.std(ddof=1) / np.sqrt(401))
        assert (found.n_before, found.n_after) == (1000, found.density.n_kernels)

    def test_a_gain_at_an_outlier_does_not_pay_for_losses(self):
        model, X = fit_and_held_out("two_moons", 1000, 800)
        outliers = np.array([[1e3, 1e3], [-1e3, 1e3], [1e3, -1e3], [2e3, 1e3]])
        found = model.compress(np.vstack([X, outliers]), max_loss=0.3)
        assert found.n_after > 1
        assert found.loss > -0.2
        assert found.change > 100

    def test_gaussian_needs_one_kernel_and_moons_need_more(self):
        sizes = []
        for name in ("gaussian", "two_moons"):
            model, held_out = fit_and_held_out(name)
            sizes.append(model.compress(held_out, max_loss=0.05).n_after)
        assert sizes[0] == 1
        assert 4 <= sizes[1] <= 64

    def test_cells_are_where_they_are_needed(self):
        """One Gaussian cluster stays whole beside one that is bent."""
        rng = np.random.RandomState(0)
        moon = datasets.load("two_moons").sample(8000, random_state=0)
        X = np.where(rng.uniform(size=(8000, 1)) < 0.5, rng.standard_normal((8000, 2)) + 9, moon)
        labels = (X[:, 0] > 5).astype(int)
        model = ROME().fit(X[:3000], labels=labels[:3000])
        after = model.compress(X[3000:], max_loss=0.03).density
        n_bent, n_round = np.bincount(after.clusters)
        assert n_round == 1
        assert n_bent >= 4

    def test_more_is_lost_if_more_may_be(self):
        model, held_out = fit_and_held_out("two_moons")
        sizes = [model.compress(held_out, max_loss=loss).n_after for loss in (0.02, 0.1, 2.0)]
        assert sizes == sorted(sizes, reverse=True)
        assert sizes[-1] == 1


class TestRefusal:
    def test_the_loss_that_was_measured_is_named(self):
        model, held_out = fit_and_held_out("two_moons", 500, 200)
        with pytest.raises(
            CompressionError, match=r"of 500 kernels, 100 .* than max_loss = 1e-06$"
        ):
            model.compress(held_out, max_loss=1e-6)
        with pytest.raises(ValueError, match=r"^with 2 of 500 kernels"):
            model.compress(held_out, max_kernels=2)

    def test_few_kernels(self):
        model, held_out = fit_and_held_out("aniso", 5, 200)
        with pytest.raises(CompressionError, match=r"5 kernels in 1 cluster\(s\) are too few"):
            model.compress(held_out)
        assert model.compress(held_out, max_loss=10.0, max_kernels=1).n_after == 1

    def test_points_that_were_fitted(self):
        X = np.append(samples(), [[0.0, -0.0]], axis=0)
        model = GaussianKDE().fit(X)
        fresh = datasets.load("aniso").sample(500, random_state=7)
        with pytest.warns(UserWarning, match="3 of 503 rows of held_out are means of kernels"):
            model.compress(np.vstack([fresh, X[:2], [[-0.0, 0.0]]]), max_loss=1.0)

    @pytest.mark.parametrize(
        ("arguments", "error", "message"),
        [
            ({"held_out": samples()[:99] + 0.01}, ValueError, "at least 100 rows, got 99"),
            ({"held_out": np.full((200, 2), np.nan)}, ValueError, "NaN"),
            ({"held_out": np.ones((200, 3))}, ValueError, "3 features"),
            ({"max_loss": -1.0}, ValueError, "max_loss"),
            ({"max_loss": "0.1"}, TypeError, "max_loss"),
            ({"max_kernels": 0}, ValueError, "max_kernels must be at least 1"),
            ({"max_kernels": 2.5}, TypeError, "max_kernels"),
            ({"random_state": "a"}, TypeError, "random_state"),
        ],
    )
    def test_wrong_arguments(self, arguments, error, message):
        density = GaussianKDE().fit(samples()).density_
        with pytest.raises(error, match=message):
            density.compress(**{"held_out": samples() + 0.01, **arguments})

    def test_what_has_no_kernels(self):
        model = ROME(density="knn").fit(samples()[:150])
        with pytest.raises(TypeError, match="compress needs a mixture of kernels, but"):
            model.compress(samples()[150:])


class TestReproducible:
    def test_order_does_not_matter(self):
        model, held_out = fit_and_held_out("two_moons", 1000, 1000)
        density, rng = model.density_, np.random.RandomState(0)
        order = rng.permutation(density.n_kernels)
        shuffled = KernelMixture(
            density.weights[order], density.means[order], density.offsets, density.transforms
        )
        found = density.compress(held_out, max_loss=0.1)
        other = shuffled.compress(rng.permutation(held_out), max_loss=0.1)
        assert found.n_after == other.n_after
        assert_allclose(other.density.logpdf(held_out), found.density.logpdf(held_out), rtol=1e-9)
        assert_allclose(other.bound, found.bound, rtol=1e-9)

    def test_again_and_with_threads(self):
        model, held_out = fit_and_held_out("two_moons", 1000, 1000)
        one, two = (model.compress(held_out, max_loss=0.1, n_jobs=n) for n in (None, 2))
        assert_array_equal(one.density.means, two.density.means)
        assert one.bound == two.bound

    def test_pickle(self):
        model, held_out = fit_and_held_out("gaussian", 300, 300)
        found = model.compress(held_out, max_loss=1.0)
        again = pickle.loads(pickle.dumps(found))
        assert isinstance(again, Compression)
        assert again.loss == found.loss
        assert_array_equal(again.density.logpdf(held_out), found.density.logpdf(held_out))


class TestAnyMixture:
    @pytest.mark.parametrize("name", ["auto", "parzen"])
    @pytest.mark.whole
    def test_kernels_with_covariances_of_their_own(self, name):
        model, held_out = fitted(name), datasets.load("aniso").sample(600, random_state=7)
        found = model.compress(held_out, max_loss=0.5, max_kernels=100)
        assert_allclose(found.density.mean(), model.mean(), atol=1e-9)
        assert_allclose(found.density.cov(), model.cov(), atol=1e-9)

    @given(X=awkward(min_samples=2, max_samples=120, max_features=8))
    def test_awkward_samples(self, X):
        try:
            density = GaussianKDE().fit(X).density_
        except ValueError:
            assume(False)
        held_out = density.sample(100, random_state=0)
        assume(not np.isin(held_out, X).all(axis=1).any())
        found = density.compress(held_out, max_loss=1e9, max_kernels=7)
        assert_allclose(found.density.weights.sum(), 1, rtol=1e-12)
        assert np.isfinite(found.density.logpdf(held_out)).all()

    def test_points_where_even_the_logarithm_vanishes(self):
        model, held_out = fit_and_held_out("two_moons", 500, 500)
        far = np.vstack([held_out, np.full((9, 2), 1e200)])
        assert model.compress(far, max_loss=0.3).n_after > 1
        # Kernels so narrow that they are nothing between them, where one for both is something.
        apart = KernelMixture([0.5, 0.5], [[0.0], [1e3]], [0, 2], [[[1e160]]])
        between = np.linspace(300, 500, 200)[:, None]
        found = apart.compress(between, max_kernels=1)
        assert (found.loss, found.change) == (-10, np.inf)

    def test_weights_too_small_for_floats(self):
        log_weights = np.array([0.0, -2000.0, -2000.5])
        density = KernelMixture(
            np.exp(log_weights),
            [[0.0], [80.0], [90.0]],
            [0, 1, 3],
            np.ones((2, 1, 1)),
            log_weights=log_weights,
            clusters=[0, 1],
        )
        held_out = np.random.RandomState(0).standard_normal((200, 1))
        found = density.compress(held_out, max_kernels=2).density
        assert_allclose(found.log_weights, [0.0, -2000 + np.log1p(np.exp(-0.5))])
        assert_allclose(found.means[1], (80 + 90 * np.exp(-0.5)) / (1 + np.exp(-0.5)))

    def test_kernels_without_weight_are_left_out(self):
        density = KernelMixture(
            [0.5, 0.5, 0.0, 0.0],
            [[-1.0], [1.0], [1e9], [5.0]],
            [0, 3, 4],
            np.ones((2, 1, 1)),
            clusters=[0, 4],
        )
        held_out = density.sample(200, random_state=0)
        found = density.compress(held_out, max_loss=1.0, max_kernels=1).density
        assert_allclose(found.means, [[0.0]], atol=1e-12)
        assert_array_equal(found.clusters, [0])

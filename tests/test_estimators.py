"""Laws that hold for every estimator, and what is special to each."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import gaussian_kde, norm, qmc
from sklearn.base import clone
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import KernelDensity
from sklearn.utils.estimator_checks import parametrize_with_checks

from sevenhills import (
    ROME,
    AutoROME,
    GaussianKDE,
    GaussianMixtureBIC,
    KernelDensityCV,
    ManifoldParzen,
    VineDensity,
    datasets,
)

from .oracles import manifold_parzen_log_density, rome_log_density
from .strategies import samples

RIVALS = [
    ManifoldParzen(),
    ManifoldParzen(n_directions=1, n_neighbors=3),
    GaussianKDE(),
    KernelDensityCV(),
    GaussianMixtureBIC(max_components=4),
    VineDensity(),
    AutoROME(),
]
ABLATIONS = [
    ROME(selection="dbcv"),
    ROME(density="gaussian"),
    ROME(density="knn"),
    ROME(density="mpw", decorrelate=False),
    ROME(decorrelate=False, normalize=False),
]
#: scikit-learn's checks are about a class and its parameters; ROME's own are in test_rome.py.
CHECKED = [ROME(density="knn"), *{type(each): each for each in RIVALS}.values()]

#: Each draws samples in a way of its own.
DRAWN = [
    ManifoldParzen(n_directions=1, n_neighbors=3),
    GaussianMixtureBIC(max_components=4),
    VineDensity(),
    AutoROME(),
    ROME(density="mpw", decorrelate=False),
]


def name_of(estimator):
    return repr(estimator)


each_estimator = pytest.mark.parametrize("estimator", [*RIVALS, *ABLATIONS], ids=name_of)


@pytest.fixture(scope="module")
def moons():
    return datasets.load("two_moons").sample(400, random_state=1)


@parametrize_with_checks(CHECKED)
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("estimator", DRAWN, ids=name_of)
def test_integrates_to_one(estimator, moons):
    model = clone(estimator).fit(moons)
    assert model.is_normalized
    step = 0.02
    axes = np.arange(-4, 5, step), np.arange(-4, 4.5, step)
    grid = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)
    assert_allclose(np.exp(model.score_samples(grid)).sum() * step**2, 1.0, atol=0.02)


@pytest.mark.parametrize("estimator", DRAWN, ids=name_of)
def test_samples_follow_the_density(estimator, moons):
    """A chi-square over the bins of a grid, whose masses are integrals of the density."""
    model = clone(estimator).fit(moons)
    assert chi_square_z(model, model.sample(4000, random_state=3)) < 4


def chi_square_z(model, draws):
    """How many standard deviations the chi-square of draws lies above what is expected."""
    edges, parts = [np.linspace(-2.5, 3.5, 13), np.linspace(-2, 2.5, 10)], 60
    fine = [np.linspace(e[0], e[-1], parts * (len(e) - 1) + 1) for e in edges]
    centres = [(f[1:] + f[:-1]) / 2 for f in fine]
    grid = np.stack(np.meshgrid(*centres, indexing="ij"), axis=-1)
    cell = (fine[0][1] - fine[0][0]) * (fine[1][1] - fine[1][0])
    mass = np.exp(model.score_samples(grid.reshape(-1, 2))).reshape(grid.shape[:2]) * cell
    mass = mass.reshape(len(edges[0]) - 1, parts, len(edges[1]) - 1, parts).sum(axis=(1, 3))
    counts = np.histogram2d(*draws.T, bins=edges)[0]
    expected = len(draws) * mass
    large = expected > 8
    observed = np.append(counts[large], len(draws) - counts[large].sum())
    expected = np.append(expected[large], len(draws) - expected[large].sum())
    dof = len(observed) - 1
    chi_square = ((observed - expected) ** 2 / np.maximum(expected, 1)).sum()
    return (chi_square - dof) / np.sqrt(2 * dof)


def test_the_chi_square_can_fail(moons):
    model = ManifoldParzen().fit(moons)
    assert chi_square_z(model, model.sample(4000, random_state=3) + 0.05) > 10


@each_estimator
def test_row_order_and_units_do_not_matter(estimator, moons):
    queries = moons[::7] + 0.01
    expected = clone(estimator).fit(moons).score_samples(queries)
    rows = np.random.RandomState(0).permutation(len(moons))
    assert_allclose(clone(estimator).fit(moons[rows]).score_samples(queries), expected, atol=1e-7)
    scaled = clone(estimator)
    if getattr(scaled, "normalize", True):
        scaled.fit(1000 * moons)
        shift = 2 * np.log(1000)
        assert_allclose(scaled.score_samples(1000 * queries) + shift, expected, atol=1e-6)


@each_estimator
def test_the_data_can_change_after_the_fit(estimator, moons):
    X = moons.copy()
    model = clone(estimator).fit(X)
    before = model.score_samples(moons[:5])
    X[:] = 0
    assert_array_equal(model.score_samples(moons[:5]), before)


@each_estimator
def test_pickles(estimator, moons):
    model = clone(estimator).fit(moons)
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.score_samples(moons[:9]), model.score_samples(moons[:9]))


@each_estimator
def test_a_failed_refit_keeps_the_old_model(estimator, moons):
    model = clone(estimator).fit(moons)
    before = model.score_samples(moons[:5])
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.full((5, 3), np.nan))
    assert_array_equal(model.score_samples(moons[:5]), before)
    assert model.n_features_in_ == 2


@each_estimator
def test_far_queries(estimator, moons):
    model = clone(estimator).fit(moons)
    far = model.score_samples([[1e300, 0.0], [-1e308, 1e308], [1e6, 1e6]])
    assert not np.isnan(far).any()
    assert (far < -20).all()


@given(
    samples(min_samples=5, max_samples=50, max_features=4),
    st.sampled_from(RIVALS + ABLATIONS),
)
def test_awkward_samples(X, estimator):
    """Ties, lattices, lines and outliers give no NaN; samples without spread a clear error."""
    model = clone(estimator)
    n_directions = getattr(model, "n_directions", None)
    if n_directions is not None:
        model.set_params(n_directions=min(n_directions, X.shape[1]))
    if (X[0] == X).all() and not isinstance(model, VineDensity):
        with pytest.raises(ValueError, match="spread"):
            model.fit(X)
        return
    scores = model.fit(X).score_samples(X)
    assert not np.isnan(scores).any()
    assert isinstance(model, VineDensity) or np.isfinite(scores).all()


class TestManifoldParzen:
    @given(
        samples(min_samples=4, max_samples=40, max_features=4),
        st.sampled_from([0.05, 1.0]),
        st.integers(0, 4),
    )
    def test_equals_the_slow_estimator(self, X, min_std, n_directions):
        n_directions = min(n_directions, X.shape[1])
        X = X + 1e-6 * np.random.RandomState(0).standard_normal(X.shape)  # no ties
        model = ManifoldParzen(min_std=min_std, n_directions=n_directions).fit(X)
        queries = np.concatenate([X + 0.1, 30 * X])
        expected = manifold_parzen_log_density(X, min_std, n_directions, queries)
        assert_allclose(model.score_samples(queries), expected, rtol=1e-7, atol=1e-7)

    @pytest.mark.parametrize("n_directions", [0, 1, 2, None])
    @pytest.mark.whole
    def test_integrates_to_one_and_samples_follow(self, moons, n_directions):
        model = ManifoldParzen(min_std=0.05, n_directions=n_directions).fit(moons)
        step = 0.02
        axes = np.arange(-3, 4, step), np.arange(-3, 3.5, step)
        grid = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)
        assert_allclose(np.exp(model.score_samples(grid)).sum() * step**2, 1.0, atol=1e-4)
        assert chi_square_z(model, model.sample(4000, random_state=5)) < 4

    def test_one_number_of_neighbours_for_all(self, moons):
        assert ManifoldParzen().fit(moons).n_neighbors_ == 13
        assert ManifoldParzen(n_neighbors=400).fit(moons).n_neighbors_ == 400

    @pytest.mark.parametrize(
        ("parameters", "match"),
        [
            ({"n_neighbors": 401}, "n_neighbors"),
            ({"n_neighbors": 0}, "n_neighbors"),
            ({"n_directions": 3}, "n_directions"),
            ({"n_directions": -1}, "n_directions"),
            ({"min_std": -1.0}, "min_std"),
            ({"min_std": 0.0, "n_directions": 1}, "min_std"),
        ],
    )
    def test_bad_parameters(self, moons, parameters, match):
        with pytest.raises(ValueError, match=match):
            ManifoldParzen(**parameters).fit(moons)


class TestAblations:
    @given(
        samples(min_samples=8, max_samples=60, max_features=3),
        st.sampled_from(["kde", "gaussian", "knn", "mpw"]),
        st.booleans(),
        st.booleans(),
    )
    def test_equals_the_slow_estimator(self, X, density, decorrelate, normalize):
        X = X + 1e-6 * np.random.RandomState(0).standard_normal(X.shape)  # no ties
        labels = np.arange(len(X)) % 3 - 1
        options = {"density": density, "decorrelate": decorrelate, "normalize": normalize}
        model = ROME(min_std=0.3, start="first", **options).fit(X, labels=labels)
        queries = np.concatenate([X + 0.1, 3 * X])
        expected = rome_log_density(X, labels, 0.3, queries, **options)
        assert_allclose(model.score_samples(queries), expected, rtol=1e-7, atol=1e-7)

    @pytest.mark.parametrize("selection", ["silhouette", "dbcv", None])
    def test_which_settings_are_the_same(self, selection):
        """Without noise, seven of twelve are distinct for each way to choose a clustering."""
        X = datasets.load("aniso").sample(300, random_state=0)
        labels = np.maximum(ROME(selection=selection).fit(X).labels_, 0)
        seen = []
        for density in ("kde", "gaussian", "knn"):
            for decorrelate in (True, False):
                for normalize in (True, False):
                    model = ROME(
                        selection=selection,
                        density=density,
                        decorrelate=decorrelate,
                        normalize=normalize,
                    )
                    seen.append(model.fit(X, labels=labels).score_samples(X[:40]))
        apart = np.abs(np.array(seen)[:, None] - np.array(seen)).max(axis=-1) > 1e-7
        first = {int(np.argmin(row)) for row in apart}
        assert len(first) == 7

    def test_neighbours_cannot_be_sampled(self, moons):
        model = ROME(density="knn").fit(moons)
        assert not model.is_normalized
        with pytest.raises(ValueError, match="nearest-neighbour"):
            model.sample(3)

    def test_summaries_say_what_was_done(self, moons):
        assert "dbcv score" in ROME(selection="dbcv").fit(moons).summary()
        assert "neighbours" in ROME(density="knn").fit(moons).summary()

    def test_bad_choices(self, moons):
        with pytest.raises(ValueError, match="density must be one of"):
            ROME(density="gmm").fit(moons)
        with pytest.raises(ValueError, match="selection must be one of"):
            ROME(selection="calinski").fit(moons)


class TestPeers:
    @given(samples(min_samples=12, max_samples=60, max_features=4))
    def test_gaussian_kde_is_scipys(self, X):
        X = X + 1e-3 * np.random.RandomState(0).standard_normal(X.shape)  # no line
        queries = X[:5] + 0.1
        for method in ("scott", "silverman", 0.4):
            expected = gaussian_kde(X.T, bw_method=method).logpdf(queries.T)
            found = GaussianKDE(bw_method=method).fit(X).score_samples(queries)
            assert_allclose(found, expected, rtol=1e-6, atol=1e-6)

    def test_gaussian_kde_of_a_line(self):
        t = np.linspace(0, 1, 50)
        X = np.stack([t, 2 * t, np.ones(50)], axis=1)
        model = GaussianKDE().fit(X)
        assert np.isfinite(model.score_samples(X)).all()
        assert model.score_samples([[0.5, 0.5, 1.0]])[0] < model.score_samples([[0.5, 1.0, 1.0]])[0]
        with pytest.raises(ValueError, match="min_std"):
            GaussianKDE(min_std=0.0).fit(X)

    def test_kernel_density_is_scikit_learns(self, moons):
        model = KernelDensityCV().fit(moons)
        plain = KernelDensity(bandwidth=model.bandwidth_).fit(moons)
        assert_allclose(model.score_samples(moons), plain.score_samples(moons), atol=1e-9)
        assert model.bandwidth_ == model.bandwidths_[np.argmax(model.scores_)]
        assert 0.03 < model.bandwidth_ < 0.15
        chosen = KernelDensityCV(bandwidths=[0.01, 0.08, 0.5]).fit(moons)
        assert chosen.bandwidth_ == 0.08

    def test_held_out_scores(self, moons):
        model = KernelDensityCV(bandwidths=[0.1], cv=len(moons)).fit(moons)
        apart = ((moons[:, None] - moons) ** 2).sum(axis=-1) / 0.1**2
        terms = np.exp(-0.5 * apart) / (2 * np.pi * 0.1**2)
        np.fill_diagonal(terms, 0)
        expected = np.log(terms.sum(axis=1) / (len(moons) - 1)).mean()
        assert_allclose(model.scores_, [expected], rtol=1e-10)

    def test_gaussian_mixture_is_scikit_learns(self, moons):
        model = GaussianMixtureBIC(max_components=6).fit(moons)
        assert len(model.bic_) == 6
        assert model.n_components_ == np.argmin(model.bic_) + 1
        plain = [
            GaussianMixture(k, max_iter=500, n_init=3, random_state=0).fit(moons)
            for k in (1, model.n_components_)
        ]
        assert_allclose(model.bic_[0], plain[0].bic(moons), rtol=1e-3)
        assert abs(model.score(moons) - plain[1].score(moons)) < 0.1
        free = 6 * model.n_components_ - 1
        bic = -2 * len(moons) * model.score(moons) + free * np.log(len(moons))
        assert_allclose(model.bic_.min(), bic, rtol=1e-6)

    @pytest.mark.parametrize("reg_covar", [1e-6, 10.0, 1e4])
    def test_reg_covar_is_scikit_learns(self, moons, reg_covar):
        X = moons * [1.0, 1000.0]
        model = GaussianMixtureBIC(max_components=1, reg_covar=reg_covar).fit(X)
        expected = GaussianMixture(1, reg_covar=reg_covar, random_state=0).fit(X)
        assert_allclose(model.bic_, [expected.bic(X)], rtol=1e-9)
        assert_allclose(model.score_samples(X), expected.score_samples(X), rtol=1e-9)

    def test_reg_covar_beside_a_large_spread(self, moons):
        far = np.concatenate([moons, [[1e12, 1e12]]])
        with pytest.raises(ValueError, match="reg_covar is too small"):
            GaussianMixtureBIC(reg_covar=1e-6).fit(far)
        assert np.isfinite(GaussianMixtureBIC(max_components=2).fit(far).score(far))

    @pytest.mark.parametrize(
        ("estimator", "match"),
        [
            (GaussianMixtureBIC(reg_covar=0), "reg_covar"),
            (GaussianMixtureBIC(reg_covar=-1e-6), "reg_covar"),
            (GaussianKDE(bw_method="wide"), "bw_method"),
            (GaussianKDE(bw_method=-1.0), "bw_method"),
            (KernelDensityCV(bandwidths=[]), "bandwidths"),
            (KernelDensityCV(bandwidths="wide"), "bandwidths"),
            (KernelDensityCV(bandwidths=[-1.0]), "bandwidths"),
            (KernelDensityCV(cv=1), "cv"),
            (GaussianMixtureBIC(max_components=0), "max_components"),
            (VineDensity(truncation=-1), "truncation"),
        ],
        ids=name_of,
    )
    def test_bad_parameters(self, moons, estimator, match):
        with pytest.raises(ValueError, match=match):
            estimator.fit(moons)


class TestVine:
    def test_likelihood_on_the_sets_of_the_study(self):
        """The figures that pyvinecopulib's own scikit-learn face gives."""
        for name, expected in {"aniso": -2.86, "varied": -4.295, "two_moons": -0.936}.items():
            train, test = datasets.load(name).split(run=0)
            assert_allclose(VineDensity().fit(train).score(test), expected, atol=0.01)

    def test_the_background_reaches_everywhere_and_is_drawn_from(self, moons):
        """Vines give minus infinity at 12 standard deviations."""
        model = VineDensity().fit(moons[:40])
        spread = moons[:40].std(axis=0)
        far = model.score_samples(moons[:3] + spread * np.array([[12.0], [30.0], [1e6]]))
        assert np.isfinite(far).all()
        # All of the weight: the integral over a box that holds nearly all of both parts.
        centre = moons[:40].mean(axis=0)
        box = qmc.Sobol(2, seed=0).random(2**15) * 24 - 12
        mass = np.exp(model.score_samples(centre + box * spread)).mean() * 24**2 * spread.prod()
        assert mass == pytest.approx(1, abs=0.02)
        heavier = replace(model.density_, background_weight=0.3)
        drawn = np.abs(heavier.sample(20_000, random_state=0) - centre) / spread
        outside = (drawn > 4).any(axis=1).mean()  # the vine itself does not reach there
        assert outside == pytest.approx(0.3 * (1 - (1 - 2 * norm.sf(2)) ** 2), rel=0.2)

    def test_one_feature(self, moons):
        model = VineDensity().fit(moons[:, :1])
        assert model.sample(7, random_state=0).shape == (7, 1)
        assert model.sample(0, random_state=0).shape == (0, 1)
        assert np.isfinite(model.score_samples(moons[:, :1])).all()

    def test_seeds(self, moons):
        model = VineDensity().fit(moons)
        assert_array_equal(model.sample(5, random_state=1), model.sample(5, random_state=1))
        assert (model.sample(5, random_state=1) != model.sample(5, random_state=2)).any()

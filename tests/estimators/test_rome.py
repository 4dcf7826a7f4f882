import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from sevenhills import ROME, AutoROME, datasets
from sevenhills.whitening import silverman

from ..oracles import all_labels, plain_optics, rome_log_density, score
from ..strategies import samples


@pytest.fixture(scope="module")
def hills():
    """Three clusters and a little noise."""
    rng = np.random.RandomState(0)
    centres = np.array([[0.0, 0.0], [12.0, 1.0], [3.0, 15.0]])
    X = centres[rng.randint(3, size=240)] + rng.standard_normal((240, 2)) * [1.0, 0.4]
    return np.concatenate([X, [[40.0, 40.0], [-30.0, 10.0], [25.0, -30.0]]])


@parametrize_with_checks([ROME(), ROME(min_std=0.1, start="first", selection=None)])
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("estimator", [ROME(), AutoROME()], ids=repr)
def test_fit_predict_returns_the_labels_of_the_fit(estimator, hills):
    weights = np.linspace(1, 2, len(hills))
    labels = clone(estimator).fit_predict(hills, sample_weight=weights)
    assert_array_equal(labels, clone(estimator).fit(hills, sample_weight=weights).labels_)
    assert_array_equal(labels[-3:], -1)


@given(samples(min_samples=6, max_samples=60, max_features=5), st.sampled_from([0.01, 0.5]))
@pytest.mark.whole
def test_equals_the_slow_estimator(X, min_std):
    """Ordering, 199 labelings, choice and density, each by its plain definition."""
    rome = ROME(min_std=min_std, resolution=None, start="first").fit(X)
    k = min(5, len(X))
    ordering = plain_optics(X, k)
    labelings = all_labels(*ordering, k)
    distinct, cuts = np.unique(labelings, axis=0, return_inverse=True)
    scores = np.array([score(X, labels) for labels in distinct])[cuts.ravel()]
    best = labelings[int(np.argmax(scores >= scores.max() - 1e-12))]
    best = np.zeros_like(best) if scores.max() == -1.1 else best
    assert_array_equal(rome.labels_, best)
    queries = np.concatenate([X, X + 0.1])
    expected = rome_log_density(X, best, min_std, queries)
    assert_allclose(rome.score_samples(queries), expected, rtol=1e-8, atol=1e-8)


@given(samples(min_samples=1, max_samples=80, max_features=8, scales=(1e-12, 1.0, 1e12)))
def test_any_samples_give_a_finite_density(X):
    scale = max(np.abs(X).max(), 1e-300)
    for min_std in ("auto", 0.01 * scale):
        rome = ROME(min_std=min_std)
        if min_std == "auto" and (X[0] == X).all():
            with pytest.raises(ValueError, match="min_std"):
                rome.fit(X)
            continue
        rome.fit(X)
        assert np.isfinite(rome.score_samples(X)).all()
        assert np.isfinite(rome.sample(5, random_state=0)).all()


@pytest.mark.whole
def test_integrates_to_one(hills):
    rome = ROME().fit(hills)
    axes = np.linspace(-60, 70, 1301), np.linspace(-60, 70, 1301)
    grid = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)
    mass = np.exp(rome.score_samples(grid)).sum() * 0.1**2
    assert_allclose(mass, 1.0, atol=1e-3)


def test_row_order_does_not_matter(hills):
    expected = ROME().fit(hills).score_samples(hills)
    for seed in range(5):
        rows = np.random.RandomState(seed).permutation(len(hills))
        rome = ROME().fit(hills[rows])
        assert_allclose(rome.score_samples(hills), expected, rtol=1e-12)
        assert_array_equal(rome.labels_, ROME().fit(hills).labels_[rows])


@pytest.mark.parametrize("factor", [1e-250, 1e-9, 0.01, 3.7, 1e6, 1e120, 1e250])
def test_units_do_not_matter(hills, factor):
    one, other = ROME().fit(hills), ROME().fit(hills * factor)
    assert_array_equal(one.labels_, other.labels_)
    moved = other.score_samples(hills * factor) + 2 * np.log(factor)
    assert_allclose(moved, one.score_samples(hills), atol=1e-7)
    assert_allclose(other.min_std_, one.min_std_ * factor)
    heights = one.candidates_.rules == "dbscan"
    assert_allclose(
        other.candidates_.parameters[heights], one.candidates_.parameters[heights] * factor
    )


def test_scale_with_min_std(hills):
    one, other = ROME(min_std=0.1).fit(hills), ROME(min_std=1.0).fit(hills * 10)
    assert_allclose(
        other.score_samples(hills * 10) + 2 * np.log(10), one.score_samples(hills), atol=1e-9
    )


def test_translation(hills):
    there = hills + np.array([2.0**10, -(2.0**12)])
    one, other = ROME().fit(hills), ROME().fit(there)
    moved = other.score_samples(there)
    assert_allclose(moved, one.score_samples(hills), atol=1e-6)


def test_rotation_without_noise(hills):
    X = hills[:-3]
    turn = np.linalg.qr(np.random.RandomState(0).standard_normal((2, 2)))[0]
    one, other = ROME().fit(X), ROME().fit(X @ turn)
    assert (one.labels_ >= 0).all()
    assert_allclose(other.score_samples(X @ turn), one.score_samples(X), atol=1e-8)


def test_feature_order(hills):
    one, other = ROME().fit(hills), ROME().fit(hills[:, ::-1])
    assert_allclose(other.score_samples(hills[:, ::-1]), one.score_samples(hills), atol=1e-9)


def test_kinds_of_numbers(hills):
    X = np.round(hills)
    expected = ROME().fit(X).score_samples(X)
    for dtype in (np.int64, np.int16, np.float32, object):
        rome = ROME().fit(X.astype(dtype))
        assert_allclose(rome.score_samples(X.astype(dtype)), expected, atol=1e-9)
    assert_allclose(ROME().fit(np.asfortranarray(X)).score_samples(X.tolist()), expected)


def test_frames_in(hills):
    expected = ROME().fit(hills).score_samples(hills)
    table = {"east": hills[:, 0], "north": hills[:, 1]}
    for frame in (pd.DataFrame(table), pl.DataFrame(table)):
        rome = ROME().fit(frame)
        assert_array_equal(rome.feature_names_in_, ["east", "north"])
        assert_array_equal(rome.score_samples(frame), expected)
        with pytest.raises(ValueError, match="feature names"):
            rome.score_samples(frame[["north", "east"]])


def test_keeps_no_reference_to_the_samples(hills):
    X = hills.copy()
    rome = ROME().fit(X)
    expected = rome.score_samples(hills)
    X[:] = 0
    assert_array_equal(rome.score_samples(hills), expected)


def test_start_at_the_first_row_depends_on_row_order():
    X = datasets.load("two_moons").sample(400, random_state=3)
    rome = ROME(start="first").fit(X)
    assert rome.ordering_.order[0] == 0
    nearest = np.argmin(np.sum((X - X.mean(axis=0)) ** 2, axis=1))
    assert ROME().fit(X).ordering_.order[0] == nearest


def test_fitted_attributes_are_in_given_rows_and_units(hills):
    rome = ROME().fit(hills)
    ordering = rome.ordering_
    assert sorted(ordering.order) == list(range(len(hills)))
    assert np.isinf(ordering.reachability[ordering.order[0]])
    rows = ordering.order[1:]
    apart = np.linalg.norm(hills[rows] - hills[ordering.predecessor[rows]], axis=1)
    expected = np.maximum(apart, ordering.core_distances[ordering.predecessor[rows]])
    assert_allclose(ordering.reachability[rows], expected)
    distances = np.linalg.norm(hills[:, None] - hills, axis=-1)
    assert_allclose(ordering.core_distances, np.sort(distances, axis=1)[:, 4])
    assert_array_equal(rome.candidates_.labels(), rome.labels_)
    for cluster in rome.clusters_:
        members = hills[rome.labels_ == cluster.label]
        assert cluster.n_members == len(members)
        assert_allclose(cluster.mean, members.mean(axis=0), atol=1e-12)
    assert_allclose(sum(cluster.share for cluster in rome.clusters_), 1.0)
    with pytest.raises(ValueError, match="read-only"):
        ordering.order[0] = 1


def test_given_labels(hills):
    labels = np.arange(len(hills)) % 3 - 1
    rome = ROME(min_std=0.1).fit(hills, labels=labels)
    assert_array_equal(rome.labels_, labels)
    assert rome.candidates_ is None
    assert rome.ordering_ is None
    expected = rome_log_density(hills, labels, 0.1, hills)
    assert_allclose(rome.score_samples(hills), expected, rtol=1e-10)
    again = ROME(min_std=0.1).fit(hills, labels=[float(label) for label in labels])
    assert_array_equal(again.score_samples(hills), rome.score_samples(hills))


@pytest.mark.parametrize("labels", [np.full(243, -1), np.arange(243), np.repeat([0, 7, 9], 81)])
def test_odd_labels_give_a_finite_density(hills, labels):
    rome = ROME().fit(hills, labels=labels)
    expected = rome_log_density(hills, labels, rome.min_std_, hills)
    assert_allclose(rome.score_samples(hills), expected, rtol=1e-9)


def test_automatic_min_std_is_the_pooled_spread_within_clusters(hills):
    rome = ROME().fit(hills)
    squares = 0.0
    for label in set(rome.labels_) - {-1}:
        members = hills[rome.labels_ == label]
        squares += len(members) * np.trace(np.cov(members.T, ddof=0))
    assert_allclose(rome.min_std_, 0.01 * np.sqrt(squares / hills.size))


def test_one_cluster(hills):
    rome = ROME(selection=None).fit(hills)
    assert_array_equal(rome.labels_, 0)
    expected = rome_log_density(hills, rome.labels_, rome.min_std_, hills)
    assert_allclose(rome.score_samples(hills), expected)


def test_without_decorrelation_or_normalization(hills):
    labels = np.zeros(len(hills), dtype=int)
    upright = ROME(decorrelate=False, min_std=0.1).fit(hills, labels=labels)
    s = hills.std(axis=0)
    scale = (1 - 0.1 / s.max()) * s + 0.1
    b = len(hills) ** (-1 / 6)
    assert_allclose(np.abs(upright.density_.transforms[0]), np.diag(1 / (scale * b)), atol=1e-12)
    plain = ROME(normalize=False).fit(hills, labels=labels)
    T = plain.density_.transforms[0]
    assert_allclose(T @ T.T, np.eye(2) / b**2, atol=1e-10)


def test_sampling_follows_the_density(hills):
    rome = ROME().fit(hills)
    drawn = rome.sample(20_000, random_state=0)
    assert_array_equal(drawn, rome.sample(20_000, random_state=0))
    again = ROME().fit(drawn[:3000])
    counts = np.array([np.sum(drawn[:, 1] > 8), np.sum(drawn[:, 0] > 6)]) / len(drawn)
    assert_allclose(counts, [np.mean(hills[:, 1] > 8), np.mean(hills[:, 0] > 6)], atol=0.02)
    assert again.score(hills) > rome.score(hills) - 0.5
    singles = np.concatenate([rome.sample(random_state=seed) for seed in range(1000)])
    assert abs(np.mean(singles[:, 1] > 8) - counts[0]) < 0.05


def test_in_a_pipeline_and_a_grid_search(hills):
    pipeline = make_pipeline(StandardScaler(), ROME()).fit(hills)
    assert np.isfinite(pipeline.score(hills))
    search = GridSearchCV(ROME(), {"min_std": ["auto", 5.0]}, cv=3).fit(hills[:-3])
    assert search.best_params_ == {"min_std": "auto"}
    rome = ROME(min_std=0.2, k_min=4, start="first")
    assert clone(rome).get_params() == rome.get_params()
    with pytest.raises(TypeError):
        ROME(0.1)


def test_subclasses_have_their_own_signatures():
    class Fixed(ROME):
        """A recipe of one parameter."""

        def __init__(self, *, min_std=0.5):
            super().__init__(min_std=min_std)

    class Renamed(Fixed):
        """The same recipe."""

    for kind in (Fixed, Renamed):
        assert kind().get_params() == {"min_std": 0.5}
        assert clone(kind(min_std=0.1)).min_std == 0.1
    assert clone(ROME(n_xi=3)).n_xi == 3


def test_pickle(hills):
    rome = ROME().fit(hills)
    again = pickle.loads(pickle.dumps(rome))
    assert_array_equal(again.score_samples(hills), rome.score_samples(hills))


def test_summary_and_html(hills):
    rome = ROME()
    assert "narrowest std" not in rome._repr_html_()
    rome.fit(hills)
    assert "3 clusters" in rome.summary()
    assert "silhouette" in rome.summary()
    html = rome._repr_html_()
    assert html.count("narrowest std") == 1
    assert html.count("<tr>") >= 5
    assert "noise" in html
    assert "text/html" in rome._repr_mimebundle_()
    assert "One cluster" in ROME().fit(np.arange(9.0)[:, None]).summary()
    assert "not chosen" in ROME(selection=None).fit(hills).summary()


def test_good_data_give_no_output(hills, capfd):
    ROME().fit(hills).score_samples(hills)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("n_jobs", [2, -1])
def test_threads_change_nothing(hills, n_jobs):
    one, many = ROME().fit(hills), ROME(n_jobs=n_jobs).fit(hills)
    assert_array_equal(one.score_samples(hills), many.score_samples(hills))
    assert_array_equal(one.candidates_.scores, many.candidates_.scores)


def test_parameters_of_the_paper_matter(hills):
    assert ROME(k_min=7, k_max=9, alpha_k=50).fit(hills).ordering_.n_neighbors == 9
    few = ROME(n_eps=3, n_xi=0).fit(hills).candidates_
    assert few.n_cuts.sum() == 3
    assert set(few.rules) == {"dbscan"}
    assert ROME(n_eps=0, n_xi=9).fit(hills).candidates_.n_cuts.sum() == 9


class TestBadInput:
    @pytest.mark.parametrize(
        ("X", "error", "message"),
        [
            ([[1.0, np.nan], [2.0, 3.0]], ValueError, "NaN"),
            ([[1.0, np.inf], [2.0, 3.0]], ValueError, "infinity"),
            (np.empty((0, 2)), ValueError, "0 sample"),
            (np.empty((3, 0)), ValueError, "0 feature"),
            ([1.0, 2.0, 3.0], ValueError, "2D array"),
            (np.ones((2, 2, 2)), ValueError, "dim 3"),
            (np.ones((3, 2)) * 1j, ValueError, "Complex"),
            ([["a", "b"], ["c", "d"]], ValueError, "has words in column 0"),
            (np.ma.masked_array(np.ones((3, 2)), mask=np.eye(3, 2)), TypeError, "masked"),
        ],
    )
    def test_samples(self, X, error, message):
        with pytest.raises(error, match=message):
            ROME().fit(X)

    def test_sparse_samples(self):
        from scipy.sparse import csr_array

        with pytest.raises(TypeError, match=r"[Ss]parse"):
            ROME().fit(csr_array(np.eye(5)))

    @pytest.mark.parametrize(
        ("parameters", "error"),
        [
            ({"min_std": -0.1}, ValueError),
            ({"min_std": np.nan}, ValueError),
            ({"min_std": np.inf}, ValueError),
            ({"min_std": "small"}, TypeError),
            ({"min_std": None}, TypeError),
            ({"selection": "best"}, ValueError),
            ({"start": "last"}, ValueError),
            ({"k_min": 1}, ValueError),
            ({"k_min": 2.5}, TypeError),
            ({"k_max": 3}, ValueError),
            ({"alpha_k": 0}, ValueError),
            ({"alpha_k": "many"}, TypeError),
            ({"n_eps": -1}, ValueError),
            ({"n_xi": 1.5}, TypeError),
            ({"n_eps": 0, "n_xi": 0}, ValueError),
            ({"decorrelate": "no"}, TypeError),
            ({"normalize": None}, TypeError),
        ],
    )
    def test_parameters(self, hills, parameters, error):
        with pytest.raises(error, match=next(iter(parameters))):
            ROME(**parameters).fit(hills)

    @pytest.mark.parametrize(
        ("labels", "error"),
        [
            ([0, 1], ValueError),
            (np.zeros((243, 1)), ValueError),
            (["a"] * 243, TypeError),
            ([0.5] * 243, ValueError),
            ([np.nan] * 243, ValueError),
            ([-2] * 243, ValueError),
            (np.ma.zeros(243), TypeError),
        ],
    )
    def test_labels(self, hills, labels, error):
        with pytest.raises(error, match="labels"):
            ROME().fit(hills, labels=labels)

    def test_queries(self, hills):
        rome = ROME().fit(hills)
        for X in (hills[:, :1], [[np.nan, 0.0]], [1.0, 2.0], [["a", "b"]]):
            with pytest.raises(ValueError):  # noqa: PT011
                rome.score_samples(X)
        with pytest.raises(ValueError, match="n_samples"):
            rome.sample(-1)
        with pytest.raises(TypeError, match="n_samples"):
            rome.sample(2.5)

    def test_not_fitted(self, hills):
        for call in (
            lambda: ROME().score_samples(hills),
            lambda: ROME().sample(),
            lambda: ROME().summary(),
        ):
            with pytest.raises(NotFittedError):
                call()

    @pytest.mark.parametrize("X", [[[1.0, 2.0]], np.ones((10, 3))])
    def test_no_spread(self, X):
        with pytest.raises(ValueError, match="min_std"):
            ROME().fit(X)
        with pytest.raises(ValueError, match="min_std"):
            ROME(min_std=0).fit(X)
        assert np.isfinite(ROME(min_std=0.1).fit(X).score(X))

    @pytest.mark.parametrize("factor", [1e-300, 1e300])
    def test_beyond_what_kernels_can_represent(self, hills, factor):
        with pytest.raises(ValueError, match="X has a spread"):
            ROME().fit(hills * factor)

    def test_collinear_without_min_std(self):
        X = np.arange(20.0)[:, None] * [1.0, 2.0, 3.0]
        with pytest.raises(ValueError, match="min_std"):
            ROME(min_std=0).fit(X)
        assert np.isfinite(ROME().fit(X).score(X))

    def test_a_failed_refit_leaves_the_old_model(self, hills):
        rome = ROME().fit(hills)
        before = rome.score_samples(hills)
        state = set(vars(rome))
        for X in (np.full((9, 3), np.nan), np.ones((9, 3)), "text"):
            with pytest.raises((ValueError, TypeError)):
                rome.fit(X)
            assert rome.n_features_in_ == 2
            assert_array_equal(rome.score_samples(hills), before)
        rome.set_params(min_std=-1)
        with pytest.raises(ValueError, match="min_std"):
            rome.fit(hills)
        assert_array_equal(rome.score_samples(hills), before)
        assert set(vars(rome)) == state


class TestRotation:
    """Rotations change the kernels of noise, which are scaled feature by feature, and no others."""

    @pytest.fixture
    def rotated(self):
        hill = np.random.RandomState(0).standard_normal((80, 2)) * [3.0, 0.1]
        other = np.add(hill, [0.0, 30.0])
        X = np.concatenate([hill, other, [[60.0, -50.0]], [[-70.0, 90.0]]])
        labels = np.repeat([0, 1, -1], [80, 80, 2])
        c, s = np.cos(0.5), np.sin(0.5)
        return X, labels, np.array([[c, s], [-s, c]])

    @pytest.mark.parametrize("shrinkage", [None, "always"])
    def test_clusters_do_not_change(self, rotated, shrinkage):
        X, labels, turn = rotated
        here = ROME(shrinkage=shrinkage).fit(X, labels=labels)
        there = ROME(shrinkage=shrinkage).fit(X @ turn, labels=labels)
        near, change = labels >= 0, there.score_samples(X @ turn) - here.score_samples(X)
        assert_allclose(change[near], 0, atol=1e-9)
        if shrinkage is None:
            assert np.abs(change[~near]).min() > 0.5
        else:
            assert_allclose(change[~near], 0, atol=1e-9)

    def test_noise_has_the_mean_scale_of_clusters_by_feature(self, rotated):
        X, labels, turn = rotated
        for given_rows in (X, X @ turn):
            model = ROME(min_std=0.01).fit(given_rows, labels=labels)
            stds = [given_rows[labels == label].std(axis=0) for label in (0, 1)]
            width = silverman(1, 2) * np.mean(stds, axis=0)
            expected = np.log(1 / 162 / (2 * np.pi)) - np.log(width).sum()
            found = model.score_samples(given_rows[-2:])
            assert_allclose(found, expected, rtol=1e-9)

"""AutoROME: laws of the whole."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp
from scipy.stats import kstest, multivariate_normal, norm
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score

from sevenhills import ROME, AutoROME, KernelMixture, datasets, load, save
from sevenhills.clustering import Points
from sevenhills.density import FeatureMap, LogMap, TableMap
from sevenhills.density.maps import map_columns
from sevenhills.stacking import OUTLIER, Member, frames_of

from ..stacking.cases import blobs, random_state


def two_moons(n_samples, seed):
    return datasets.load("two_moons").sample(n_samples, random_state=seed)


@pytest.fixture(scope="module")
def moons():
    return two_moons(120, 1)


@pytest.fixture(scope="module")
def auto(moons):
    return AutoROME().fit(moons)


@pytest.fixture(scope="module")
def blob():
    rng = random_state(0)
    return rng.standard_normal((400, 3)) @ rng.standard_normal((3, 3))


def narrowest(density):
    """The smallest standard deviation of any kernel in any direction."""
    return 1 / np.linalg.norm(density.transforms, 2, axis=(1, 2)).max()


def margin_log_density(density, feature, x):
    """The logarithm of the density of one feature."""
    roots = np.linalg.inv(density.transforms)[:, :, feature]
    stds = np.repeat(np.linalg.norm(roots, axis=1), np.diff(density.offsets))
    parts = norm(density.means[:, feature], stds).logpdf(np.reshape(x, (-1, 1)))
    return logsumexp(parts + np.log(density.weights), axis=1)


@pytest.mark.parametrize("scales", [(1e-6, 1.0, 1e6), (1e6, 1e-6, 1.0)])
def test_units_of_features_matter_little_in_one_cluster(blob, scales):
    """Up to the folds, since rows are ordered by their distance to the mean."""
    raw = AutoROME(scale=None)
    one, other = clone(raw).fit(blob), clone(raw).fit(blob * scales)
    moved = other.score_samples(blob * scales) + np.log(scales).sum()
    assert np.abs(moved - one.score_samples(blob)).mean() < 0.05


def test_seeds(moons):
    X, queries = moons[:70], moons[70:]
    expected = AutoROME().fit(X).score_samples(queries)
    for again in (AutoROME(random_state=0), AutoROME(random_state=random_state(0))):
        assert_array_equal(again.fit(X).score_samples(queries), expected)
    other = AutoROME(random_state=1).fit(X).score_samples(queries)
    assert (other != expected).any()
    assert abs(other.mean() - expected.mean()) < 0.2


def test_threads_over_clusters_change_nothing():
    X, _ = blobs([20, 25, 15])
    one, other = AutoROME().fit(X), AutoROME(n_jobs=3).fit(X)
    assert len(one.clusters_) == 3
    assert_array_equal(other.score_samples(X), one.score_samples(X))


def test_one_feature_integrates_to_one_and_samples_follow():
    X = random_state(0).exponential(size=(200, 1))
    model = AutoROME().fit(X)
    axis = np.linspace(-20, 60, 40_001)
    mass = np.exp(model.score_samples(axis[:, None])) * (axis[1] - axis[0])
    assert_allclose(mass.sum(), 1.0, atol=1e-3)
    drawn = model.sample(3000, random_state=0)[:, 0]
    assert kstest(drawn, lambda x: np.interp(x, axis, np.cumsum(mass))).pvalue > 0.01


def test_gaussian_clusters_keep_one_gaussian():
    X = datasets.load("aniso").sample(1000, random_state=0)
    model = AutoROME().fit(X)
    assert len(model.clusters_) == 3
    assert model.density_.n_kernels == 3 + 10  # ten are the background
    for cluster in model.clusters_:
        rows = X[model.labels_ == cluster.label]
        assert model.cells_[cluster.label].members == ("Gaussian",)
        assert cluster.n_members == len(rows)
        assert_allclose(cluster.share, len(rows) / len(X))
        assert_allclose(cluster.mean, rows.mean(axis=0), atol=1e-9)
        variances = np.linalg.eigvalsh(np.cov(rows.T / model.scale_[:, None], ddof=0))[::-1]
        assert_allclose(cluster.stds, np.sqrt(variances), rtol=1e-2)


@pytest.mark.parametrize(("name", "gain"), [("two_moons", 0.3), ("trajectories", 2.0)])
def test_new_samples_are_likelier_than_under_rome(name, gain):
    train, test = datasets.load(name).split(run=0, n_samples=800)
    model = AutoROME().fit(train)
    assert model.score(test) > ROME().fit(train).score(test) + gain
    assert abs(model.held_out_ - model.score(test)) < 0.4


def test_one_gross_outlier_changes_little(blob, moons, auto):
    plain = AutoROME().fit(blob)
    model = AutoROME().fit(np.append(blob, [[1e6, -1e6, 1e6]], axis=0))
    assert np.abs(model.score_samples(blob) - plain.score_samples(blob)).mean() < 0.05
    assert model.labels_[-1] == OUTLIER
    assert (model.labels_[:-1] == 0).all()
    assert np.isfinite(model.score_samples([[1e6, -1e6, 1e6]])).all()
    model, new = AutoROME().fit([*moons, [1e6, -1e6]]), two_moons(500, 2)
    assert abs(model.score(new) - auto.score(new)) < 0.05


def test_features_of_few_values_are_no_part_of_clusters():
    X, group = blobs([150, 150], apart=30.0)
    year = 2007.0 + np.arange(300) % 3
    frame = pd.DataFrame(np.column_stack([X, year]), columns=["a", "b", "year"])
    model = AutoROME().fit(frame)
    assert adjusted_rand_score(model.labels_, group) == 1.0
    assert [cluster.n_members for cluster in model.clusters_] == [150, 150]
    found = sorted((cell.clusters, cell.values, cell.n_members) for cell in model.cells_)
    years = ((2007.0,), (2008.0,), (2009.0,))
    assert found == [((label,), value, 50) for label in (0, 1) for value in years]
    assert_array_equal(np.unique(model.predict(frame)), [0, 1])
    assert "Features of few values, which group samples" in model.summary()
    assert "2 clusters" in model.summary().splitlines()[0]


def test_rare_values_share_a_cell(tmp_path):
    X, _ = blobs([200], apart=0.0)
    kind = np.repeat([4.0, 8.0, 5.0], [100, 97, 3])
    model = AutoROME().fit(np.column_stack([X, kind]))
    found = sorted((cell.n_members, *cell.values) for cell in model.cells_)
    assert found in ([(97, 8.0), (103, None)], [(100, 4.0), (100, None)])
    assert "several" in model.summary()
    save(model, tmp_path / "model")
    assert [cell.values for cell in load(tmp_path / "model").cells_] == [
        cell.values for cell in model.cells_
    ]


def test_a_feature_of_two_values():
    rng = random_state(0)
    X = np.column_stack([rng.standard_normal((200, 2)), rng.randint(2, size=200)])
    model = AutoROME().fit(X)
    assert model.categories_ == (2,)
    assert len(model.clusters_) == 1
    assert sorted(cell.values for cell in model.cells_) == [(0.0,), (1.0,)]
    drawn = model.sample(500, random_state=0)[:, 2]
    n_others = np.sum(np.abs(drawn - (drawn > 0.5)) > 0.01)
    assert n_others < 5
    assert abs(drawn.mean() - X[:, 2].mean()) < 0.1
    # Other values are unlikely, but not ruled out.
    assert -30 < model.score_samples([[0.0, 0.0, 0.5]])[0] < -5


@pytest.mark.parametrize("values", [1, 2])
def test_what_has_no_spread_tells_nothing_of_the_rest(values):
    """Narrow kernels must not be chosen for what they win on a feature without spread."""
    rng = random_state(0)
    x, new = rng.standard_normal(200), rng.standard_normal(500)
    X = np.stack([x, 3.3 + rng.randint(values, size=200)], axis=1)
    alone, model = AutoROME().fit(X[:, :1]), AutoROME().fit(X)
    found = margin_log_density(model.density_, 0, new).mean()
    assert found > alone.score(new[:, None]) - 0.05


def test_equal_samples():
    X = np.full((20, 2), 0.1)
    with pytest.raises(ValueError, match="min_std"):
        AutoROME().fit(X)
    model = AutoROME(min_std=0.1).fit(X)
    truth = multivariate_normal([0.1, 0.1], 0.1**2).logpdf([0.1, 0.2])
    assert_allclose(model.score_samples([[0.1, 0.2]]), truth, atol=1e-6)


@pytest.mark.parametrize("n_samples", [2, 3, 5, 7])
@pytest.mark.parametrize("n_features", [1, 2, 9])
def test_few_samples(n_samples, n_features):
    X = random_state(n_features).standard_normal((n_samples, n_features))
    model = AutoROME().fit(X)
    assert np.isfinite(model.score_samples(X)).all()
    assert np.isfinite(model.held_out_)
    assert model.sample(3, random_state=0).shape == (3, n_features)
    assert all(cell.reason in model.summary() for cell in model.cells_)


@pytest.mark.parametrize("n_samples", [2, 3, 5])
def test_few_samples_are_no_spikes(n_samples):
    """Between samples there may be others."""
    model = AutoROME().fit(np.linspace(-1, 1, n_samples)[:, None] ** 3)
    between = np.linspace(-1, 1, 41)[:, None]
    assert model.score_samples(between).min() > -10


@pytest.mark.parametrize("min_std", [0.01, 2.0])
def test_no_kernel_is_narrower_than_min_std(moons, min_std):
    rng = random_state(0)
    line = rng.standard_normal((40, 1)) * [1.0, 2.0, -1.0]
    outlier = np.append(moons[:40], [[1e3, 1e3]], axis=0)
    counts = rng.randint(2, size=(50, 2)).astype(float)
    tails = rng.standard_t(1.5, size=(60, 2))
    for X in (line, outlier, counts, tails, moons[:9]):
        model = AutoROME(min_std=min_std).fit(X)
        scaled = model.density_.affine(np.diag(1 / model.scale_), np.zeros(X.shape[1]))
        assert narrowest(scaled) > min_std * (1 - 1e-6)
        assert np.isfinite(model.score_samples(X)).all()


def test_summaries_name_members_weights_and_gains(auto, moons):
    said, shown = auto.summary(), auto._repr_html_()
    for text in (said, shown):
        for cell in auto.cells_:
            for name, weight in zip(cell.members, cell.weights, strict=True):
                assert f"{name} ({weight:.0%})" in text.replace("&#x27;", "'")
            assert f"{cell.gain:.3f} ± {cell.gain_error:.3f}" in text
        assert f"{auto.held_out_:.4g}" in text
    assert f"{auto.density_.n_kernels} kernels in 2 dimensions" in said
    assert "AutoROME" in AutoROME()._repr_html_()
    assert all(np.isclose(cell.weights.sum(), 1.0) for cell in auto.cells_)
    assert sum(cell.n_members for cell in auto.cells_) == len(moons)


def test_summaries_name_outliers(blob):
    outliers = AutoROME().fit([*blob, [1e6] * 3])
    for text in (outliers.summary(), outliers._repr_html_()):
        assert "far from all clusters" in text


@pytest.mark.parametrize("n_samples", [150, 400])
def test_a_spiral_is_followed(n_samples):
    train, test = spiral(n_samples), spiral(500, 1)
    assert AutoROME().fit(train).score(test) > ROME().fit(train).score(test) + 0.1


def test_labels_of_kernels_are_those_of_samples():
    """Also of clusters that overlap, which share a density."""
    X, group = blobs([150, 150, 150, 150], apart=0.0)
    X += np.array([[0.0, 0.0], [4.5, 0.0], [60.0, 0.0], [0.0, 60.0]])[group]
    model = AutoROME().fit(X)
    assert len(model.clusters_) == 4
    assert sorted(len(cell.clusters) for cell in model.cells_) == [1, 1, 2]
    assert "Clusters that overlap, and share a density: " in model.summary()
    predicted = model.density_.predict(X)
    assert np.mean(predicted == model.labels_) > 0.98
    apart = group >= 2
    assert_array_equal(predicted[apart], model.labels_[apart])


def test_far_values_are_finite_and_the_background_is_light():
    X = random_state(0).standard_normal((1000, 2)) @ [[3.0, 1.0], [0.0, 2.0]]
    model = AutoROME().fit(X)
    far = X.mean(axis=0) + 500 * X.std(axis=0)
    assert -80 < model.score_samples([far])[0] < -15
    given = np.cov(X.T)
    assert np.linalg.norm(model.density_.cov() - given) < 0.01 * np.linalg.norm(given)


# Maps of features


def skewed(n_samples, seed=0):
    """Three related features: lognormal, a count, and one of a narrow slab and a long tail."""
    z = random_state(seed).standard_normal((n_samples, 3)) @ np.triu(np.ones((3, 3)))
    slab = np.where(z[:, 2] < 0, 0.01 * z[:, 2], np.expm1(z[:, 2]))
    return np.stack([np.exp(z[:, 0]), np.floor(4 * np.exp(0.8 * z[:, 1])), slab], axis=1)


@pytest.fixture(scope="module")
def mapped():
    model = AutoROME().fit(skewed(250))
    assert sum(type(each) is not FeatureMap for each in model.density_.maps) >= 2
    return model


def test_maps_gain_on_skewed_features(mapped):
    plain, new = AutoROME(maps=None).fit(skewed(250)), skewed(1000, 1)
    assert plain.density_.maps is None
    assert mapped.score(new) > plain.score(new) + 0.5
    assert mapped.held_out_ > plain.held_out_ + 0.5


def test_order_and_units_do_not_change_maps(mapped):
    X, new = skewed(250), skewed(50, 1)
    expected = mapped.score_samples(new)
    rows, columns = random_state(0).permutation(250), [2, 0, 1]
    found = AutoROME().fit(X[rows]).score_samples(new)
    assert_allclose(found, expected, rtol=1e-9)
    found = AutoROME().fit(X[:, columns]).score_samples(new[:, columns])
    assert_allclose(found, expected, rtol=1e-9)
    found = AutoROME().fit(X / 3.7).score_samples(new / 3.7)
    assert_allclose(found - 3 * np.log(3.7), expected, rtol=1e-9)


def test_weights_are_repeated_rows_in_the_choice_of_maps():
    X, weights = skewed(150, 1), np.tile([1, 3, 2], 50)
    given = AutoROME(resolution=None).fit(X, sample_weight=weights)
    repeated = AutoROME(resolution=None).fit(np.repeat(X, weights, axis=0))
    assert given.density_.maps is not None
    new = skewed(50, 2)
    assert_allclose(given.score_samples(new), repeated.score_samples(new), rtol=1e-9)
    assert_allclose(given.held_out_, repeated.held_out_, rtol=1e-9)


def test_maps_of_many_rows_depend_on_the_values_alone():
    X = skewed(5000)
    rows = random_state(1).permutation(5000)
    one, other = (
        frames_of(Points.from_samples(each), np.zeros(3, dtype=bool))[-1] for each in (X, X[rows])
    )
    assert one.maps == other.maps


def test_maps_are_those_of_the_data_frame(mapped):
    pd = pytest.importorskip("pandas")
    names = ["income", "visits", "rain"]
    model = AutoROME().fit(pd.DataFrame(skewed(250), columns=names))
    assert model.density_.maps == mapped.density_.maps
    assert "income to normal scores" in model.summary()
    assert "feature 0 to normal scores" in mapped.summary()
    assert "Mapped" not in AutoROME().fit(random_state(0).standard_normal((50, 2))).summary()


def test_held_out_allows_for_maps():
    """It estimates the mean log density of new samples, if the luck of the draw is subtracted."""
    apart = []
    for seed in range(8):
        z, new = (random_state(s).standard_normal((n, 3)) for s, n in ((seed, 120), (99, 2000)))
        truths = [(norm.logpdf(each) - each).sum(axis=1).mean() for each in (z, new)]
        model = AutoROME().fit(np.exp(z))
        assert model.density_.maps is not None
        apart.append((model.held_out_ - truths[0]) - (model.score(np.exp(new)) - truths[1]))
    assert abs(np.mean(apart)) < 0.1


def test_slopes_at_repeated_values_are_bounded():
    X = np.maximum(skewed(300), [1.0, 3.0, 0.0])
    (frame, *_) = frames_of(Points.from_samples(X), np.zeros(3, dtype=bool))[::-1]
    tables = [each for each in frame.maps if isinstance(each, TableMap)]
    assert tables
    assert max(each.slopes.max() for each in tables) < 50.1
    assert np.isfinite(AutoROME(resolution=None).fit(X).score_samples(X)).all()


@pytest.mark.parametrize("resolution", ["auto", None])
def test_values_at_a_bound_make_no_outliers_of_the_others(resolution):
    X, new = (np.maximum(skewed(300, seed), [1.0, 3.0, 0.0]) for seed in (0, 1))
    model = AutoROME(resolution=resolution).fit(X)
    assert (model.labels_ != OUTLIER).all()
    assert model.score(new) > model.held_out_ - 1.5


@pytest.mark.parametrize("min_std", [0.01, 0.2])
def test_min_std_holds_where_maps_are_steepest(min_std):
    X = np.exp(random_state(0).standard_normal((250, 3)))
    model = AutoROME(min_std=min_std).fit(X)
    density = model.density_
    steepest = np.exp(map_columns(density.maps, "log_slope", X).max(axis=0))
    assert steepest.max() > 1.5
    roots = np.linalg.inv(density.transforms) / (min_std * steepest * model.scale_)
    assert np.linalg.svd(roots, compute_uv=False).min() > 1 - 1e-3


def test_features_with_a_support_have_no_other_map():
    X = np.exp(random_state(0).standard_normal((200, 3)))
    model = AutoROME(support={1: (0, None, "log")}).fit(X)
    shapes = [type(each) for each in model.density_.maps]
    assert shapes[1] is LogMap
    assert not {FeatureMap, LogMap} & {shapes[0], shapes[2]}
    new = np.exp(random_state(1).standard_normal((1000, 3)))
    assert model.score(new) > AutoROME(maps=None).fit(X).score(new)
    assert abs(model.held_out_ - model.score(new)) < 0.3
    assert model.score_samples([[1.0, -1.0, 1.0]]) == -np.inf
    for text in ("Support: feature 1", "Mapped features: feature 0"):
        assert text in model.summary()


@pytest.mark.parametrize("maps", ["all", True, 1])
def test_bad_maps_are_named(blob, maps):
    with pytest.raises(ValueError, match="maps"):
        AutoROME(maps=maps).fit(blob)


@pytest.mark.parametrize("sizes", [(15, 15), (60, 12), (40, 40)])
def test_clusters_that_are_apart_stay(sizes):
    X, group = blobs(sizes, apart=20.0)
    model = AutoROME().fit(X)
    assert len(np.unique(model.labels_[group == 0])) == 1
    assert len(np.unique(model.labels_)) == 2
    shares = sorted(cluster.share for cluster in model.clusters_)
    assert_allclose(shares, sorted(np.divide(sizes, sum(sizes))))


@pytest.mark.parametrize(
    ("parameters", "error"),
    [
        ({"min_std": -1.0}, ValueError),
        ({"min_std": np.nan}, ValueError),
        ({"min_std": np.inf}, ValueError),
        ({"min_std": "wide"}, TypeError),
        ({"min_std": None}, TypeError),
        ({"min_std": True}, TypeError),
        ({"min_std": [0.1]}, TypeError),
        ({"random_state": "seed"}, TypeError),
        ({"random_state": 1.5}, TypeError),
        ({"random_state": True}, TypeError),
        ({"random_state": -1}, ValueError),
    ],
)
def test_bad_parameters_are_named(blob, parameters, error):
    with pytest.raises(error, match=next(iter(parameters))):
        AutoROME(**parameters).fit(blob)


def spiral(n_samples, seed=0):
    rng = random_state(seed)
    angle = 3 * np.pi * np.sqrt(rng.uniform(size=n_samples))
    X = np.stack([angle * np.cos(angle), angle * np.sin(angle)], axis=1)
    return X + 0.1 * rng.standard_normal(X.shape)


def test_clusters_are_those_of_rome():
    X, _ = blobs([40, 30])
    auto, rome = AutoROME().fit(X), ROME(scale="auto", selection="auto").fit(X)
    assert_array_equal(auto.labels_, rome.labels_)
    assert_array_equal(auto.ordering_.order, rome.ordering_.order)
    assert_array_equal(auto.candidates_.scores, rome.candidates_.scores)


def test_fewer_than_five_samples_are_not_clustered():
    model = AutoROME().fit(blobs([2, 2])[0])
    assert model.ordering_ is None
    assert model.candidates_ is None


def test_automatic_min_std_is_that_of_rome(blob):
    auto = AutoROME(min_std="auto").fit(blob)
    rome = ROME(selection=None, scale="auto").fit(blob)
    given = AutoROME(min_std=rome.min_std_).fit(blob)
    assert_array_equal(auto.labels_, 0)
    assert_allclose(auto.score_samples(blob), given.score_samples(blob), atol=1e-9)


class Ring(Member):
    """Gaussians at even distances on a circle."""

    name = "ring"

    def fit(self, samples):
        angles = np.linspace(0, 2 * np.pi, 60, endpoint=False)
        radii = np.linalg.norm(samples.points, axis=1)
        radius = np.average(radii, weights=samples.weights)
        variance = np.average((radii - radius) ** 2, weights=samples.weights)
        circle = radius * np.stack([np.cos(angles), np.sin(angles)], axis=1)
        return KernelMixture.from_covariances(np.full(60, 1 / 60), circle, variance * np.eye(2))

    def n_kernels(self, cell):
        return 60


def test_members_of_users():
    rng = random_state(0)
    angle = rng.uniform(0, 2 * np.pi, 300)
    X = np.stack([np.cos(angle), np.sin(angle)], axis=1) + 0.05 * rng.standard_normal((300, 2))
    plain = AutoROME(maps=None).fit(X)
    model = clone(AutoROME(maps=None, members=[Ring()])).fit(X)
    assert model.cells_[0].members[0] == "ring"
    assert model.held_out_ > plain.held_out_ + 0.05
    assert model.cells_[0].n_tried == plain.cells_[0].n_tried + 1
    assert "ring (" in model.summary()


@pytest.mark.parametrize("members", [Ring(), [Ring], ["Gaussian"], 3])
def test_bad_members_are_named(moons, members):
    with pytest.raises(TypeError, match="members"):
        AutoROME(members=members).fit(moons)

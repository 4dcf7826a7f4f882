"""A weight of k is k repetitions: the weighted routines beside literal repetition."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.mixture import GaussianMixture

from sevenhills import (
    ROME,
    GaussianKDE,
    GaussianMixtureBIC,
    KernelDensityCV,
    ManifoldParzen,
    VineDensity,
    compat,
)
from sevenhills.clustering import (
    Points,
    choose,
    cut,
    neighbors_for,
    order_by_reachability,
    score,
)
from sevenhills.clustering.nearest import nearest_distances
from sevenhills.clustering.optics import Partitions
from sevenhills.clustering.points import Copies, find_clusters
from sevenhills.clustering.selection import all_points_reach, dbcv_scores, silhouette_scores
from sevenhills.kernels.blocks import build_blocks, most_needed

from ..strategies import samples
from .estimators import AND_COMPAT, for_each

whole_weights = st.lists(st.sampled_from([1, 1, 2, 3, 4, 5, 9, 30]), min_size=150, max_size=150)


def repeated(X, weights):
    return np.repeat(X, weights, axis=0)


def distinct(X):
    """Return distinct rows in canonical order, so that the first is where OPTICS starts."""
    return X[Points.from_samples(X).rows]


@given(samples(min_samples=2, max_samples=120), st.data())
def test_core_distances_by_accumulated_weight(X, data):
    """The slow twin sorts all distances and adds weights up."""
    rng = np.random.RandomState(data.draw(st.integers(0, 1000)))
    weights = rng.choice([0.1, 0.5, 1.0, 2.0, 7.5], len(X))
    mass = rng.uniform(0.05, 1.0) * weights.sum()
    found = nearest_distances(X, weights, build_blocks(X, 16), mass)[0]
    apart = cdist(X, X)
    order = np.argsort(apart, axis=1, kind="stable")
    reached = np.cumsum(weights[order], axis=1) >= mass * (1 - 1e-9)
    expected = np.take_along_axis(apart, order, axis=1)[np.arange(len(X)), reached.argmax(axis=1)]
    assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=50), st.floats(0.01, 1.0))
def test_most_needed(weights, share):
    weights = np.array(weights)
    mass = share * weights.sum()
    needed = most_needed(weights, mass)
    assert np.sort(weights)[:needed].sum() >= mass * (1 - 1e-6)


@given(st.lists(st.floats(1e-3, 50), min_size=1, max_size=50))
def test_pieces_add_up(weights):
    weights = np.array(weights)
    X = np.arange(len(weights))[:, None] * 1.0
    pieces = Points.from_samples(X, weights, start="first").split()
    whole = np.arange(len(weights)) if pieces.whole is None else pieces.whole
    assert_allclose(np.bincount(whole, pieces.weights), weights, rtol=1e-12)
    assert (np.diff(whole) >= 0).all()
    assert np.bincount(whole).max() <= 4
    assert (pieces.weights > 0).all()
    assert_allclose(pieces.joined()[2], weights, rtol=1e-12)


def clustered(points, criterion):
    """Return the clusters of the rows of points."""
    if points.n_counted >= 5:
        points, k = points.split(), neighbors_for(points.n_counted, points.X.shape[1])
        ordering = order_by_reachability(points.X, k, points.weights)
        cuts = cut(ordering, weights=points.weights)
        scores = score(points.X, cuts, criterion, n_neighbors=k, weights=points.weights)
        points = points.clustered(ordering, choose(cuts, scores))
    return points.row_clusters()


@given(samples(min_samples=3, max_samples=60, max_features=4, scales=(1.0, 0.1)), whole_weights)
@pytest.mark.parametrize("selection", ["silhouette", "dbcv"])
def test_clusters_of_weights_are_those_of_repetitions(selection, X, weights):
    """All of it beside the same rows repeated: order, heights, candidates, scores, labels."""
    X = distinct(X)
    weights = np.array(weights[: len(X)])
    copies = Points.from_samples(repeated(X, weights), start="first")
    theirs = clustered(copies, selection)
    rows = np.repeat(np.arange(len(X)), weights)
    expanded = replace(
        Points.from_samples(X, weights.astype(float), start="first"),
        rows=np.flatnonzero(np.append(True, np.diff(rows))),
        of_rows=rows,
        middles=np.concatenate([np.arange(w) + 0.5 for w in weights]),
    )
    found = clustered(expanded, selection)
    assert_array_equal(found.labels, theirs.labels)
    if theirs.ordering is None:
        assert found.ordering is None
        return
    assert_array_equal(found.ordering.order, theirs.ordering.order)
    assert_array_equal(found.ordering.reachability, theirs.ordering.reachability)
    assert_array_equal(found.ordering.core_distances, theirs.ordering.core_distances)
    assert_array_equal(found.ordering.predecessor, theirs.ordering.predecessor)
    assert_array_equal(found.candidates.partitions.runs, theirs.candidates.partitions.runs)
    assert_array_equal(found.candidates.n_cuts, theirs.candidates.n_cuts)
    assert_allclose(found.candidates.scores, theirs.candidates.scores, atol=1e-9)
    assert_allclose(found.candidates.noise_share, theirs.candidates.noise_share, atol=1e-12)


@given(samples(min_samples=8, max_samples=50, max_features=3), whole_weights)
def test_scores_of_weights_are_those_of_repetitions(X, weights):
    """Also for partitions that no cut would make."""
    weights = np.array(weights[: len(X)])
    labels = np.arange(len(X)) * 4 // len(X) - 1

    def partitions(labels):
        starts = np.flatnonzero(np.append(True, np.diff(labels) != 0))
        ends = np.append(starts[1:], len(labels))
        runs = np.stack([starts, ends, labels[starts]], axis=1)
        return Partitions(runs, np.array([0, len(runs)]))

    for scorer in (silhouette_scores, partial(dbcv_scores, n_neighbors=3)):
        points = replace(
            Points.from_samples(X, weights.astype(float), start="first"), labels=labels
        ).split()
        ours = scorer(points.X, partitions(points.labels), weights=points.weights)
        theirs = scorer(repeated(X, weights), partitions(np.repeat(labels, weights)))
        assert_allclose(ours, theirs, atol=1e-9)


def test_reach_of_weights_below_one():
    """Two halves of a sample at one distance are one sample there."""
    X = np.array([[0.0], [1.0], [-1.0], [4.0], [9.0]])
    halves = all_points_reach(X, np.array([1.0, 0.5, 0.5, 1.0, 1.0]), build_blocks(X, 16), 1)
    whole = all_points_reach(X[[0, 1, 3, 4]], np.ones(4), build_blocks(X[[0, 1, 3, 4]], 16), 1)
    assert_allclose(halves[0], whole[0])


#: Without a selection, and with the rows in the order given, weights take other paths.
each_estimator = for_each([*AND_COMPAT, ROME(selection=None), ROME(start="first")])


def fresh(estimator):
    return compat.ROME() if isinstance(estimator, compat.ROME) else clone(estimator)


@pytest.fixture(scope="module")
def few():
    rng = np.random.RandomState(3)
    X = rng.standard_normal((60, 2)) * 0.4 + 4 * rng.randint(2, size=(60, 1))
    return np.round(X, 1), rng.randint(0, 6, 60)


@each_estimator
def test_a_weight_is_a_number_of_repetitions(estimator, few):
    X, weights = few
    ours = fresh(estimator).fit(X, sample_weight=weights)
    theirs = fresh(estimator).fit(repeated(X, weights))
    queries = np.concatenate([X, X[:20] + 0.05, 10 * X[:5]])
    assert_allclose(ours.score_samples(queries), theirs.score_samples(queries), rtol=0, atol=1e-8)


@for_each([ROME(), ROME(density="knn"), KernelDensityCV()])
def test_one_weight_for_all_is_giving_all_rows_twice(estimator, few):
    X, _ = few
    ours = fresh(estimator).fit(X, sample_weight=2)
    theirs = fresh(estimator).fit(repeated(X, 2))
    assert_allclose(ours.score_samples(X), theirs.score_samples(X), rtol=0, atol=1e-8)


@each_estimator
def test_a_weight_may_be_split(estimator, few):
    """Two rows of weights a and b at one place are one of weight a + b."""
    X, _ = few
    X = np.unique(X, axis=0)
    rng = np.random.RandomState(0)
    weights = rng.choice([0.5, 1.0, 1.25, 3.5], len(X))
    rows = np.repeat(np.arange(len(X)), 2)
    parts = np.repeat(weights, 2) * np.tile([0.25, 0.75], len(X))
    whole = fresh(estimator).fit(X, sample_weight=weights)
    split = fresh(estimator).fit(X[rows], sample_weight=parts)
    # Where rows stay as they are given, parts of a sample are samples.
    tolerance = 0.5 if "first" in repr(estimator) or "compat" in repr(estimator) else 1e-8
    assert_allclose(split.score_samples(X), whole.score_samples(X), rtol=0, atol=tolerance)


@each_estimator
def test_weights_that_are_no_whole_numbers(estimator, few):
    """Weights near one give a density near that of ones, in any order of the rows."""
    X, _ = few
    rng = np.random.RandomState(1)
    weights = 1 + 0.01 * rng.uniform(-1, 1, len(X))
    model = fresh(estimator).fit(X, sample_weight=weights)
    plain = fresh(estimator).fit(X)
    # Neighbors are counted: a neighborhood that lacks a hundredth of a sample takes one more.
    # Directions of equal variance are kept together, but weights make their variances differ.
    tolerances = {"knn": 0.7, "n_directions=1": 0.3}
    tolerance = next((t for word, t in tolerances.items() if word in repr(estimator)), 0.1)
    assert abs(np.mean(model.score_samples(X) - plain.score_samples(X))) < tolerance
    if "first" in repr(estimator) or "compat" in repr(estimator):
        return
    order = rng.permutation(len(X))
    shuffled = fresh(estimator).fit(X[order], sample_weight=weights[order])
    assert_allclose(shuffled.score_samples(X), model.score_samples(X), rtol=0, atol=1e-9)


@each_estimator
def test_rows_that_weigh_nothing_take_no_part(estimator, few):
    X, _ = few
    far = np.full((1, 2), 1e6)
    model = fresh(estimator).fit(np.concatenate([far, X, far]), sample_weight=[0, *[1] * 60, 0])
    plain = fresh(estimator).fit(X)
    assert_array_equal(model.score_samples(X), plain.score_samples(X))
    if hasattr(plain, "labels_"):
        assert_array_equal(model.labels_, [-1, *plain.labels_, -1])


@each_estimator
@pytest.mark.parametrize("weights", [1e-3, 1e9])
def test_very_large_and_very_small_weights(estimator, weights, few):
    """One weight for all says how many samples there are; few samples are smoothed more."""
    X, _ = few
    if isinstance(estimator, VineDensity) and weights > 1:
        with pytest.raises(ValueError, match="sample_weight adds up"):
            VineDensity().fit(X, sample_weight=weights)
        return
    model = fresh(estimator)
    if isinstance(getattr(model, "n_neighbors", None), int):
        model.n_neighbors = type(model)().n_neighbors  # weights may add up to less than one sample
    if hasattr(model, "resolution"):
        model.resolution = None  # spread, these are 30,000 samples
    assert np.isfinite(model.fit(X, sample_weight=weights).score_samples(X)).all()


@each_estimator
def test_wild_weights_give_finite_answers(estimator, few):
    X, _ = few
    weights = 10.0 ** np.random.RandomState(0).uniform(-12, 5, len(X))
    if isinstance(estimator, VineDensity):  # rounds rows away
        weights = np.maximum(weights, 0.5) / 20
    scores = fresh(estimator).fit(X, sample_weight=weights).score_samples(X)
    assert np.isfinite(scores).all()


def test_what_is_reported_goes_by_the_given_rows(few):
    X, weights = few
    rome = ROME(resolution=None)
    ours, theirs = clone(rome).fit(X, sample_weight=weights), clone(rome).fit(repeated(X, weights))
    kept = weights > 0
    # Copies of a row may have different labels; the row has that of the one in the middle.
    middle = (np.cumsum(weights) - weights + weights // 2)[kept]
    assert_array_equal(ours.labels_[~kept], -1)
    assert_array_equal(ours.labels_[kept], theirs.labels_[middle])
    assert_allclose([c.share for c in ours.clusters_], [c.share for c in theirs.clusters_])
    assert_allclose([c.bandwidth for c in ours.clusters_], [c.bandwidth for c in theirs.clusters_])
    assert sum(c.n_members for c in ours.clusters_) == kept.sum()
    assert sorted(ours.ordering_.order) == list(range(len(X)))
    assert np.isinf(ours.ordering_.core_distances[~kept]).all()
    for i in range(len(ours.candidates_)):
        labels = ours.candidates_.labels(i)
        assert_array_equal(labels[~kept], -1)
        assert_array_equal(labels[kept], theirs.candidates_.labels(i)[middle])


@given(samples(min_samples=2, max_samples=40, max_features=3), whole_weights, st.booleans())
def test_equal_rows_are_one_point_without_any_difference(X, weights, lattice):
    """Rows are merged; the slow twin orders every copy for itself, as it is given."""
    X = np.round(X) if lattice else X
    weights = np.array(weights[: len(X)])
    try:
        merged = ROME(resolution=None).fit(X, sample_weight=weights)
    except ValueError as error:
        assert "no spread" in str(error)  # noqa: PT017
        return
    copies = repeated(X, weights)
    frame = Points.from_samples(copies)
    by_point = np.argsort(frame.of_rows, kind="stable")
    given = copies[by_point] / frame.unit
    exact = {"resolution": None}
    direct = ROME(start="first", min_std=merged.min_std_ / frame.unit, **exact).fit(given)
    expected = direct.score_samples(X / frame.unit) - X.shape[1] * np.log(frame.unit)
    assert_allclose(merged.score_samples(X), expected, rtol=1e-9, atol=1e-8)
    assert_array_equal(ROME(**exact).fit(copies).labels_[by_point], direct.labels_)


@settings(max_examples=20)
@given(samples(min_samples=30, max_samples=80, max_features=3, scales=(1.0, 1e-3)))
def test_the_gaussian_mixture_is_scikit_learns(X):
    X = np.unique(X, axis=0)
    if len(X) < 10 or np.ptp(X, axis=0).min() == 0:
        return
    reg_covar = 1e-4 * float(X.var())
    ours = GaussianMixtureBIC(max_components=3, reg_covar=reg_covar).fit(X)
    frame = Points.from_samples(X)
    # To the bit those of the fit, since rounding decides between starts of lattices.
    points = frame.X
    points = points - np.quantile(points, 0.5, axis=0, method="lower")
    rng = np.random.RandomState(0)
    fits = [
        GaussianMixture(k, reg_covar=reg_covar / frame.unit**2, random_state=rng).fit(points)
        for k in (1, 2, 3)
    ]
    expected = np.array([fit.bic(points) for fit in fits]) + 2 * X.size * np.log(frame.unit)
    assert_allclose(ours.bic_, expected, rtol=1e-6)
    best = fits[int(np.argmin(expected))].score_samples(points)
    given = best - X.shape[1] * np.log(frame.unit)
    assert_allclose(ours.score_samples(X[frame.rows]), given, rtol=1e-6, atol=1e-6)


def test_neighbors_and_backgrounds_go_by_the_sum_of_weights(few):
    """Equal rows are one point, so that repetitions cannot tell points from samples."""
    X, _ = few
    points = Points.from_samples(X, np.full(len(X), 40.0))
    expected = neighbors_for(40 * len(X), 2)
    assert expected > neighbors_for(len(X), 2)
    assert find_clusters(points).ordering.n_neighbors == expected
    assert ROME().fit(X, sample_weight=40).ordering_.n_neighbors == expected
    vine = VineDensity().fit(X, sample_weight=2)
    assert_allclose(vine.density_.background_weight, 0.1 / (2 * len(X) + 0.1))


def test_widths_go_by_the_sum_of_weights(few):
    X, _ = few
    n_samples = 40 * len(X)
    kde = GaussianKDE().fit(X, sample_weight=40)
    assert_allclose(kde.factor_, n_samples ** (-1 / 6))
    parzen = ManifoldParzen().fit(X, sample_weight=40)
    assert parzen.n_neighbors_ == int(np.sqrt(n_samples) / 1.5)
    ours, plain = KernelDensityCV().fit(X, sample_weight=2), KernelDensityCV().fit(X)
    assert_allclose(ours.bandwidths_, plain.bandwidths_ * 2 ** (-1 / 6))


def test_the_criterion_goes_by_the_sum_of_weights(few):
    X, weights = few
    model = GaussianMixtureBIC(max_components=3).fit(X, sample_weight=weights)
    n_free = 6 * model.n_components_ - 1
    n_samples = weights.sum()
    likelihood = n_samples * model.score(X, sample_weight=weights)
    assert_allclose(model.bic_.min(), n_free * np.log(n_samples) - 2 * likelihood, rtol=1e-9)


BAD_WEIGHTS = {
    "too few": ([1.0, 2.0], ValueError, "sample_weight must have shape"),
    "a column": (np.ones((60, 1)), ValueError, "sample_weight must have shape"),
    "negative": (-np.ones(60), ValueError, "sample_weight must not be negative"),
    "zeros": (np.zeros(60), ValueError, "sample_weight has nothing but zeros"),
    "not a number": ([np.nan] + [1.0] * 59, ValueError, "sample_weight must be finite"),
    "infinite": ([np.inf] + [1.0] * 59, ValueError, "sample_weight must be finite"),
    "too large": (np.full(60, 1e308), ValueError, "sample_weight adds up to inf"),
    "too small": (np.full(60, 5e-324), ValueError, "sample_weight adds up to"),
    "texts": (["1"] * 60, TypeError, "sample_weight must be an array of numbers"),
    "objects": ([object()] * 60, TypeError, "sample_weight must be an array of numbers"),
    "complex": (np.ones(60) * 1j, TypeError, "sample_weight must be an array of numbers"),
    "masked": (np.ma.ones(60), TypeError, "sample_weight is a masked array"),
}


@each_estimator
@pytest.mark.parametrize("kind", BAD_WEIGHTS)
def test_bad_weights_are_refused(estimator, kind, few):
    weights, error, match = BAD_WEIGHTS[kind]
    with pytest.raises(error, match=match):
        fresh(estimator).fit(few[0], sample_weight=weights)


def test_scores_can_be_weighted(few):
    X, weights = few
    model = ROME().fit(X)
    assert_allclose(model.score(X, sample_weight=weights), model.score(repeated(X, weights)))


def test_a_row_half_of_which_is_noise_belongs_to_the_cluster():
    """A tie of votes between copies goes to the larger label, which is never noise."""
    first = np.zeros(1, dtype=np.int64)
    copies = Copies(np.arange(2), first.repeat(2), np.ones(2), first)
    assert_array_equal(copies.vote(np.array([-1, 3])), [3])
    assert_array_equal(copies.vote(np.array([3, -1])), [3])

"""Clusters in folds, and members: each is a density, judged on samples that it has not seen."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from sevenhills import KernelMixture
from sevenhills.covariance import (
    Ellipse,
    Pooled,
    Shrinkage,
    shrunk_ellipse,
    weighted_moments,
    whitening_transforms,
)
from sevenhills.folds import Fold
from sevenhills.stacking import Member
from sevenhills.stacking.cells import BACKGROUND
from sevenhills.stacking.components import student_precisions
from sevenhills.stacking.members import (
    FactorGaussian,
    Gaussian,
    Kernels,
    LocalGaussians,
    Mixture,
    Student,
)
from sevenhills.stacking.weights import mean_and_error

from ..oracles import local_log_density
from ..strategies import repeats_of
from .cases import awkward, blobs, cell_of, crescent, judged, random_state

MEMBERS = [
    Gaussian(),
    Student(),
    Kernels(0.4),
    LocalGaussians(15, 0.7),
    FactorGaussian(1),
    Mixture(3, False, np.inf, 0),
    Mixture(3, True, np.inf, 0),
    Mixture(2, False, 4.0, 0),
]
every_member = pytest.mark.parametrize("member", MEMBERS, ids=lambda member: member.name)


@pytest.fixture(scope="module")
def cell():
    return cell_of(crescent())


def test_samples_are_whitened():
    X = crescent()
    cell = cell_of(X)
    mean, transform = cell.ellipse
    assert_allclose((X - mean) @ transform, cell.points, atol=1e-8)
    assert_allclose(weighted_moments(cell.points, cell.weights).mean, 0, atol=1e-8)
    assert (cell.n_rows, cell.n_features, cell.n_samples) == (120, 2, 120)
    assert_array_equal(cell.neighbors[:, 0], np.arange(120))


def test_training_samples_are_those_that_a_fold_does_not_hold_out():
    cell = cell_of(crescent())
    assert_array_equal(cell.samples().points, cell.points)
    assert_array_equal(cell.test_weights(5), np.ones(120))
    for f, fold in enumerate(cell.folds):
        samples = cell.training[f]
        assert_array_equal(samples.points, np.delete(cell.points, fold.test, axis=0))
        assert_array_equal(samples.weights, 1.0)
        # Their ellipse is given in whitened coordinates, too.
        mean, _ = weighted_moments(samples.points, samples.weights)
        assert_allclose(samples.ellipse.mean, mean, atol=1e-8)


def test_many_features_allow_no_covariance_for_each_row():
    few, many = (cell_of(np.random.RandomState(0).standard_normal((9, m))) for m in (2, 101))
    assert few.allows_components
    assert few.allows_matrices(9)
    assert not many.allows_components
    assert not many.allows_matrices(9)


def by_fold(member, cell):
    """Return every fold with the log densities of its test rows."""
    return [(fold, member.held_out(cell, f, None)[0]) for f, fold in enumerate(cell.folds)]


def density_of(trial):
    """Return the density of all samples of the cell."""
    return trial.member.density(trial.cell, trial.learned)


def test_judgements_have_a_background(cell):
    """So that one sample apart from all others does not decide."""
    member = Kernels(0.1)
    trial = judged(member, cell, 1)
    test = cell.points[cell.folds[0].test]
    wide = multivariate_normal(np.zeros(2), 4 * np.eye(2)).logpdf(test)
    log_background = wide + np.log(BACKGROUND / cell.n_samples)
    expected = np.logaddexp(member.held_out(cell, 0, None)[0], log_background)
    assert_allclose(trial.held_out, expected, rtol=1e-9)


def test_names_differ():
    assert len({member.name for member in MEMBERS}) == len(MEMBERS)


@every_member
def test_integrates_to_one(cell, member):
    density = member.fit(cell.samples())
    axis = np.arange(-16, 18, 0.1)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    assert_allclose(density.pdf(grid).sum() * 0.1**2, 1.0, atol=2e-3)


@every_member
def test_held_out_samples_are_less_likely_than_seen_ones(cell, member):
    trial = judged(member, cell)
    test = np.concatenate([fold.test for fold in cell.folds])
    seen = density_of(trial).logpdf(cell.points[test])
    assert trial.held_out.shape == test.shape
    assert_allclose(trial.score, trial.held_out.mean())
    assert trial.score - 0.02 < seen.mean() < trial.score + 1.5


@pytest.mark.parametrize("shared", [False, True])
def test_one_gaussian_by_hand(shared):
    X, pooled = crescent(), Pooled(np.array([[2.0, 0.3], [0.3, 1.0]]), 500.0) if shared else None
    cell = cell_of(X, pooled)
    for fold, held_out in by_fold(Gaussian(), cell):
        mean, S = shrunk_moments(X[fold.train], pooled)
        truth = multivariate_normal(mean, S).logpdf(X[fold.test])
        found = held_out + cell.ellipse.log_det
        assert_allclose(found, truth, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("width", [0.1, 0.5, 0.97])
def test_kernels_by_hand(width):
    X = crescent()
    cell = cell_of(X)
    for fold, held_out in by_fold(Kernels(width), cell):
        mean, S = shrunk_moments(X[fold.train], None)
        S = width**2 * S + (1 - width**2) * 1e-6 * np.eye(2)
        means = mean + np.sqrt(1 - width**2) * (X[fold.train] - mean)
        terms = [multivariate_normal(m, S).logpdf(X[fold.test]) for m in means]
        truth = logsumexp(terms, axis=0) - np.log(len(means))
        found = held_out + cell.ellipse.log_det
        assert_allclose(found, truth, rtol=1e-6, atol=1e-6)


def shrunk_moments(X, pooled):
    """Mean and shrunk covariance, with the ridge."""
    found, _ = shrunk_ellipse(X, np.ones(len(X)), 1e-6 * np.eye(2), pooled)
    return found.mean, found.covariance


@every_member
def test_many_test_rows_are_those_of_the_mixture(cell, member, monkeypatch):
    """Few rows take a way of their own."""
    expected = judged(member, cell).held_out
    monkeypatch.setattr("sevenhills.stacking.members._MAX_PAIRS", 0)
    assert_allclose(judged(member, cell).held_out, expected, atol=1e-7)


@every_member
def test_a_member_can_be_judged_on_more_folds_later(cell, member):
    first = judged(member, cell, 1)
    assert len(first.held_out) == len(first.weights) == len(cell.folds[0].test)
    later, whole = first.on_folds(5), judged(member, cell)
    assert len(later.folds) == len(whole.folds) == cell.n_tested == 5
    assert_array_equal(later.held_out, whole.held_out)
    assert_array_equal(later.on_folds(5).held_out, whole.held_out)
    # Members are compared on the folds on which both were judged.
    gain, error = first.gain_over(whole)
    assert gain == error == 0


def test_scanned_folds_are_the_first_with_enough_test_samples():
    for n_samples, n_scanned in ((40, 5), (120, 3), (300, 1), (3000, 1)):
        cell = cell_of(random_state(0).standard_normal((n_samples, 2)))
        assert cell.n_scanned == n_scanned


@pytest.mark.parametrize("n_rows", [1, 7, 119, 120, 500])
def test_thinned_samples_are_spread_over_all(cell, n_rows):
    samples = cell.samples()
    thinned = samples.thinned(n_rows)
    assert len(thinned.rows) == len(thinned.points) == len(thinned.weights) == min(n_rows, 120)
    assert (np.diff(thinned.rows) > 0).all()
    assert np.isin(thinned.rows, samples.rows).all()
    assert n_rows > 1 or thinned.rows[0] == 0
    if 1 < n_rows < 120:
        assert thinned.rows[0] == 0
        assert thinned.rows[-1] == 119
        assert np.ptp(np.diff(thinned.rows)) <= 1
    assert thinned.ellipse is samples.ellipse


@pytest.mark.parametrize(
    ("member", "n_kernels"),
    [
        (Gaussian(), 1),
        (FactorGaussian(2), 1),
        (Kernels(0.9), 128),
        (Kernels(0.1), 1000),
        (LocalGaussians(60, 0.7), 666),
        (Mixture(5, False, np.inf, 0), 5),
        (Mixture(5, True, 4.0, 0), 5 * len(student_precisions(4.0, 5)[0])),
    ],
    ids=lambda each: getattr(each, "name", None),
)
def test_wide_kernels_are_fewer_than_samples(member, n_kernels):
    """And as good as all."""
    rng = random_state(0)
    cell = cell_of(rng.standard_normal((1000, 5)))
    assert member.n_kernels(cell) == n_kernels
    density = member.fit(cell.samples())
    assert density.n_kernels == n_kernels
    new = (rng.standard_normal((500, 5)) - cell.ellipse.mean) @ cell.ellipse.transform
    every = type("Every", (type(member),), {"n_kernels": lambda self, cell: cell.n_rows})
    whole = every.fit(member, cell.samples())
    assert abs(density.logpdf(new).mean() - whole.logpdf(new).mean()) < 0.05


def test_factors_of_many_features():
    """Samples of two factors are likelier under the Gaussian of two than under any other."""
    rng = random_state(0)
    loadings = 2 * rng.standard_normal((2, 12))
    X = rng.standard_normal((60, 2)) @ loadings + rng.standard_normal((60, 12))
    cell = cell_of(X)
    scores = [judged(FactorGaussian(number), cell).score for number in (1, 2, 4)]
    assert np.argmax(scores) == 1
    assert scores[1] > judged(Gaussian(), cell).score
    density = FactorGaussian(2).fit(cell.samples()).affine(cell.back, cell.ellipse.mean)
    truth = loadings.T @ loadings + np.eye(12)
    assert np.linalg.norm(density.cov() - truth) < 0.4 * np.linalg.norm(truth)


@pytest.mark.parametrize("width", [0.2, 0.6])
def test_kernels_keep_mean_and_covariance(cell, width):
    density = Kernels(width).fit(cell.samples())
    given = np.cov(cell.points.T, ddof=0)
    assert_allclose(density.mean(), 0, atol=1e-8)
    assert_allclose(density.cov(), (1 - width**2) * given + width**2 * np.eye(2), atol=1e-5)


@pytest.mark.parametrize("width", [0.35, 1.0])
def test_local_gaussians_are_the_slow_ones(cell, width):
    found = LocalGaussians(12, width).fit(cell.samples()).logpdf(cell.points)
    expected = local_log_density(cell.points, 12, width, cell.ridge, cell.points)
    assert_allclose(found, expected, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("member", MEMBERS[3:] + MEMBERS[1:2], ids=lambda member: member.name)
def test_the_scores_of_a_fold_do_not_depend_on_its_own_samples(cell, member):
    """They are those of a fit to the other samples alone."""
    fold = cell.folds[0]
    rows, ones = np.arange(len(fold.train)), np.ones(len(fold.train))
    alone = Fold(rows, ones, rows, ones, rows, ones)
    points, pieces = cell.points[fold.train], cell.pieces[fold.train]
    rest = replace(cell, points=points, pieces=pieces, weights=ones, folds=(alone,))
    vars(rest)["n_samples"] = cell.n_samples  # which sets the strength of shrinkage
    samples = replace(rest.samples(), ellipse=cell.fold_ellipses[0])
    expected = member.fit(samples).logpdf(cell.points[fold.test])
    # The density of a Student's t is a sum of Gaussians, its held-out scores are exact.
    atol = 0.03 if "Student" in member.name else 1e-7
    assert_allclose(member.held_out(cell, 0, None)[0], expected, atol=atol)


def test_mixtures_can_start_from_others(cell):
    start = judged(Mixture(3, False, np.inf, 0), cell)
    again = judged(Mixture(3, False, np.inf, 1, start.learned), cell)
    assert abs(again.score - start.score) < 0.05
    other = judged(Mixture(3, True, 4.0, 1, start.learned), cell)
    assert abs(other.score - start.score) < 0.5


def test_mixtures_start_from_as_many_pieces():
    X, group = blobs([40, 40, 40], apart=3.0)
    pieces = cell_of(X, pieces=group + 5)
    assert pieces.n_pieces == 3
    scores = [judged(Mixture(3, False, np.inf, seed), pieces).score for seed in range(4)]
    assert len(set(scores)) == 1  # no seed matters
    scores = [judged(Mixture(3, False, np.inf, seed), cell_of(X)).score for seed in range(4)]
    assert len(set(scores)) > 1


def plain_ellipse(X, weights, ridge, pooled):
    mean, covariance = weighted_moments(X, weights)
    return Ellipse(mean, whitening_transforms(covariance + ridge)), Shrinkage(0.0, 0.0)


@pytest.mark.parametrize("member", MEMBERS[:5], ids=lambda member: member.name)
def test_weights_are_repetitions(member, monkeypatch):
    """For all members that start from no random draw. Shrinkage leaves out rows, not samples."""
    monkeypatch.setattr("sevenhills.stacking.cells.shrunk_ellipse", plain_ellipse)
    X, repeats = crescent()[:60], repeats_of(60, 0)
    one = cell_of(X, weights=repeats.astype(float))
    other = cell_of(np.repeat(X, repeats, axis=0))
    assert one.n_samples == other.n_samples == repeats.sum()
    assert_allclose(other.ellipse.transform, one.ellipse.transform, rtol=1e-9)
    found, expected = judged(member, one), judged(member, other)
    assert_allclose(found.score, expected.score, rtol=1e-6)
    queries = random_state(1).standard_normal((50, 2))
    assert_allclose(
        density_of(found).logpdf(queries), density_of(expected).logpdf(queries), rtol=1e-6
    )


@every_member
@pytest.mark.parametrize("kind", ["tied", "repeated", "constant"])
def test_awkward_samples_have_finite_densities(kind, member):
    cell = cell_of(awkward(kind, 0, 60, 3), least=1e-8)
    trial = judged(member, cell)
    assert np.isfinite(trial.held_out).all()
    assert np.isfinite(density_of(trial).logpdf(cell.points)).all()


class Wide(Member):
    """A member as users write it."""

    name = "wide"

    def fit(self, samples):
        mean = np.average(samples.points, axis=0, weights=samples.weights)
        return KernelMixture.from_covariances([1.0], [mean], 4 * np.eye(len(mean)))


def test_a_member_needs_no_more_than_a_name_and_a_fit(cell):
    trial = judged(Wide(), cell)
    for fold, held_out in by_fold(trial.member, cell):
        mean = cell.points[fold.train].mean(axis=0)
        expected = multivariate_normal(mean, 4 * np.eye(2)).logpdf(cell.points[fold.test])
        assert_allclose(held_out, expected)
    assert_allclose(density_of(trial).mean(), cell.points.mean(axis=0), atol=1e-12)
    gain, error = trial.gain_over(judged(Gaussian(), cell))
    assert gain < -4 * error < 0


@given(st.integers(0, 2**31), st.integers(1, 50))
def test_mean_and_error_of_weights_are_those_of_repeated_values(seed, n_values):
    values, repeats = random_state(seed).standard_normal(n_values), repeats_of(n_values, seed)
    copies = np.repeat(values, repeats)
    expected = copies.mean(), copies.std() / np.sqrt(len(copies))
    assert_allclose(mean_and_error(values, repeats.astype(float)), expected, atol=1e-12)
    assert mean_and_error(np.zeros(7), np.full(7, 0.1)) == (0.0, 0.0)

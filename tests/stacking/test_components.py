"""Mixtures of components, beside plain expectation maximization."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp
from scipy.stats import multivariate_t

from sevenhills import KernelMixture
from sevenhills.stacking.components import (
    Components,
    Prior,
    fit_components,
    kmeans_start,
    quadratic_features,
    squared_distances,
    student_precisions,
)

from ..oracles import expectation_maximisation, mixture_log_parts
from ..strategies import repeats_of
from .cases import KINDS_OF_SAMPLES, awkward, blobs, random_state

seeds = st.integers(0, 2**31)


def random_components(seed, n_components, n_features, dof):
    rng = random_state(seed)
    factors = rng.standard_normal((n_components, n_features, n_features))
    return Components(
        weights=rng.dirichlet(np.ones(n_components)),
        means=3 * rng.standard_normal((n_components, n_features)),
        covariances=factors @ factors.transpose(0, 2, 1) + 0.1 * np.eye(n_features),
        dof=dof,
    )


def one_hot(labels, n_labels):
    return np.eye(n_labels)[labels]


@given(seeds, st.integers(1, 6), st.integers(1, 6), st.sampled_from([np.inf, 1.0, 4.0, 30.0]))
def test_densities_are_direct_sums(seed, n_components, n_features, dof):
    components = random_components(seed, n_components, n_features, dof)
    X = 4 * random_state(seed).standard_normal((15, n_features))
    features, parts = quadratic_features(X), mixture_log_parts(X, *components)
    expected = logsumexp(parts, axis=1)
    assert_allclose(components.log_density(features), expected, rtol=1e-8, atol=1e-8)


@given(
    seeds,
    st.sampled_from(KINDS_OF_SAMPLES),
    st.integers(1, 4),
    st.integers(1, 3),
    st.sampled_from([np.inf, 4.0]),
    st.sampled_from([(0.0, 0.0), (1.0, 3.0), (2.0, 0.0)]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_fit_equals_plain_expectation_maximisation(
    seed, kind, n_components, n_features, dof, strengths, known, targeted, tied
):
    X = awkward(kind, seed, 40, n_features)
    repeats = repeats_of(40, seed) if tied else np.ones(40, dtype=int)
    weights = repeats.astype(float)
    shape = np.diag(1.0 + np.arange(n_features)) if known else None
    target = np.eye(n_features) + 0.5 if targeted else None
    prior = Prior(*strengths, shape, 1e-4 * np.eye(n_features), target)
    start = kmeans_start(X, weights, n_components, random_state(seed))
    components = fit_components(quadratic_features(X), weights, start, prior, dof)
    shares = components.shares(quadratic_features(X))
    copies, starts = np.repeat(X, repeats, axis=0), np.repeat(start, repeats, axis=0)
    expected, found_shares, likelihoods = expectation_maximisation(copies, starts, prior, dof)
    expected_shares = found_shares[np.cumsum(repeats) - 1]
    assert_allclose(components.weights, expected[0], atol=1e-6)
    parts = mixture_log_parts(X, *expected, dof)
    found = components.log_density(quadratic_features(X))
    assert_allclose(found, logsumexp(parts, axis=1), atol=1e-4)
    assert_allclose(shares, expected_shares, atol=1e-4)
    assert_allclose(shares.sum(axis=1), 1.0)
    assert components.dof == dof
    assert np.isclose(np.average(found, weights=weights), likelihoods[-1], atol=1e-4)


@settings(max_examples=20)
@given(seeds, st.integers(1, 3), st.sampled_from([np.inf, 4.0]))
def test_likelihood_never_falls_where_nothing_is_shrunk(seed, n_components, dof):
    X, _ = blobs([30, 30], apart=3.0, seed=seed)
    start = one_hot(random_state(seed).randint(n_components, size=60), n_components)
    prior = Prior(0.0, 0.0, None, np.zeros((2, 2)))
    features, ones = quadratic_features(X), np.ones(60)
    components = fit_components(features, ones, start, prior, dof)
    found = components.log_density(features).mean()
    steps = expectation_maximisation(X, start, prior, dof)[2]
    assert (np.diff(steps) > -1e-8).all()
    assert_allclose(found, steps[-1], atol=1e-6)
    before, shares = -np.inf, start
    for _ in range(6):  # every fit goes on from the responsibilities of the one before
        components = fit_components(features, ones, shares, prior)
        shares = components.shares(features)
        after = components.log_density(features).mean()
        assert after >= before - 1e-8
        before = after


def test_far_samples_pull_less_on_a_student():
    X = np.append(awkward("random", 0, 50, 1), [[100.0]], axis=0)
    prior = Prior(0.0, 0.0, None, 1e-8 * np.eye(1))
    data = quadratic_features(X), np.ones(51), np.ones((51, 1))
    means = [fit_components(*data, prior, dof).means for dof in (4.0, np.inf)]
    assert abs(means[0]) < 0.3 < 1.5 < means[1]


@given(seeds, st.integers(1, 6), st.sampled_from([1.0, 10.0, 100.0]))
def test_a_component_of_equal_samples_far_out_is_known_well(seed, n_features, far):
    """Its scatter is the ridge, whose inverse is huge; rounding must not be magnified."""
    rng = random_state(seed)
    bulk, spot = rng.standard_normal((30, n_features)), rng.standard_normal((1, n_features))
    X = np.concatenate([bulk, np.repeat(far * spot, 4, axis=0)])
    start = one_hot(np.repeat([0, 1], [30, 4]), 2)
    prior = Prior(0.0, 0.0, None, 1e-8 * np.eye(n_features))
    components = fit_components(quadratic_features(X), np.ones(34), start, prior)
    squares = squared_distances(quadratic_features(X), *components[1:3])[0][30:, 1]
    assert_allclose(squares, 0.0, atol=1e-5 * far**2)


def test_priors_make_components_round_or_alike():
    rng = random_state(0)
    X = np.concatenate([rng.standard_normal((40, 2)) * s for s in ([1, 5], [3, 1])])
    X[40:] += 50
    data = quadratic_features(X), np.ones(80), one_hot(np.repeat([0, 1], 40), 2)
    nothing = np.zeros((2, 2))
    round_ones = fit_components(*data, Prior(1e9, 0.0, None, nothing)).covariances
    for scatter in round_ones:
        assert_allclose(scatter, scatter[0, 0] * np.eye(2), atol=1e-4 * scatter[0, 0])
    alike = fit_components(*data, Prior(0.0, 1e9, None, nothing)).covariances
    shapes = [scatter / np.trace(scatter) for scatter in alike]
    assert_allclose(shapes[0], shapes[1], atol=1e-4)
    assert np.trace(alike[0]) > 1.5 * np.trace(alike[1])


@given(
    seeds,
    st.sampled_from(KINDS_OF_SAMPLES),
    st.integers(1, 9),
    st.integers(1, 40),
)
def test_every_row_has_one_centre(seed, kind, n_components, n_samples):
    X = awkward(kind, seed, max(n_samples, 4))
    weights = 10.0 ** random_state(seed).uniform(-3, 3, size=len(X))
    shares = kmeans_start(X, weights, n_components, random_state(seed))
    assert shares.shape == (len(X), n_components)
    assert set(np.unique(shares)) <= {0.0, 1.0}
    assert_array_equal(shares.sum(axis=1), 1.0)
    assert_array_equal(kmeans_start(X, weights, n_components, random_state(seed)), shares)


def test_equal_rows_have_one_centre_and_can_be_fitted():
    X, weights = np.full((12, 2), 0.1), np.ones(12)
    shares = kmeans_start(X, weights, 3, random_state())
    assert_array_equal(shares.sum(axis=1), 1.0)
    prior = Prior(1.0, 3.0, None, 1e-8 * np.eye(2))
    components = fit_components(quadratic_features(X), weights, shares, prior)
    assert np.isfinite(components.log_density(quadratic_features(X))).all()


@given(seeds)
def test_groups_far_apart_have_centres_of_their_own(seed):
    group = np.repeat(np.arange(3), 20)
    X = awkward("random", seed, 60) + 1e3 * group[:, None]
    shares = kmeans_start(X, np.ones(60), 3, random_state(seed))
    centre = shares.argmax(axis=1)
    assert len({(a, b) for a, b in zip(group, centre, strict=True)}) == 3


@pytest.mark.parametrize("n_features", [1, 2, 5, 24])
def test_gaussians_add_up_to_students_t(n_features):
    factors, weights = student_precisions(4.0, n_features)
    assert_allclose(weights.sum(), 1.0)
    truth = multivariate_t(np.zeros(n_features), np.eye(n_features), 4.0)
    X = truth.rvs(5000, random_state=0).reshape(5000, n_features)
    sum_of_gaussians = KernelMixture(
        weights=weights,
        means=np.zeros((len(factors), n_features)),
        offsets=np.arange(len(factors) + 1),
        transforms=np.sqrt(factors)[:, None, None] * np.eye(n_features),
    )
    apart = np.abs(sum_of_gaussians.logpdf(X) - truth.logpdf(X))
    assert np.mean(apart < 0.02) > 0.999


def test_a_few_gaussians_are_enough():
    assert all(len(student_precisions(4.0, n_features)[0]) < 40 for n_features in (1, 2, 5, 24))

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import chisquare, kstest, multivariate_normal

from sevenhills import KernelMixture

from ..oracles import log_density


def random_mixture(seed, n_features=2, n_groups=3, n_kernels=200, spread=5.0):
    rng = np.random.RandomState(seed)
    cuts = np.sort(rng.choice(np.arange(1, n_kernels), n_groups - 1, replace=False))
    offsets = np.concatenate([[0], cuts, [n_kernels]])
    home = spread * rng.standard_normal((n_groups, n_features))
    centres = rng.standard_normal((n_kernels, n_features)) + np.repeat(
        home, np.diff(offsets), axis=0
    )
    transforms = rng.standard_normal((n_groups, n_features, n_features)) + 2 * np.eye(n_features)
    return KernelMixture(rng.dirichlet(np.ones(n_kernels)), centres, offsets, transforms)


@given(
    st.integers(0, 10**6),
    st.integers(1, 12),
    st.integers(1, 5),
    st.integers(5, 300),
    st.sampled_from([0.0, 1.0, 30.0, 1e4]),
)
def test_equals_direct_log_sum_exp_in_the_far_tails_too(seed, n_features, n_groups, n, spread):
    density = random_mixture(seed, n_features, n_groups, n, spread)
    rng = np.random.RandomState(seed)
    near = density.means[rng.randint(n, size=20)]
    far = rng.standard_normal((20, n_features)) * rng.choice([1, 10, 1e3, 1e6], size=(20, 1))
    for X in (near, near + far):
        assert_allclose(density.logpdf(X), log_density(density, X), rtol=1e-9, atol=1e-9)


def test_hundreds_of_nats_down_nothing_is_lost():
    density = KernelMixture([1.0], [[0.0, 0.0]], [0, 1], [np.eye(2)])
    x = np.array([[30.0, 0.0], [45.0, 0.0], [1e3, 0.0], [1e150, 0.0]])
    assert_allclose(density.logpdf(x), -np.log(2 * np.pi) - x[:, 0] ** 2 / 2, rtol=1e-14)
    assert density.logpdf([[1e300, -1e300]]) == -np.inf
    assert_array_equal(density.pdf([[1e300, 0.0]]), 0.0)


@pytest.mark.parametrize("n_features", [1, 2])
def test_integrates_to_one(n_features):
    density = random_mixture(1, n_features, spread=1.0)
    axis = np.linspace(-14, 14, 501 if n_features == 2 else 20001)
    grid = np.stack(np.meshgrid(*[axis] * n_features), axis=-1).reshape(-1, n_features)
    mass = density.pdf(grid).sum() * (axis[1] - axis[0]) ** n_features
    assert_allclose(mass, 1.0, atol=2e-3)


def test_a_call_may_be_split_and_threaded():
    density = random_mixture(0)
    X = density.sample(1500, random_state=0)
    whole = density.logpdf(X)
    assert_array_equal(whole, density.logpdf(X, n_jobs=3))
    # Products of matrices of another shape may be rounded otherwise.
    halves = np.concatenate([density.logpdf(X[:700]), density.logpdf(X[700:])])
    assert_allclose(whole, halves, rtol=1e-13)
    assert_allclose(whole[:5], [density.logpdf(x[None])[0] for x in X[:5]], rtol=1e-13)


def test_far_queries_in_threads_give_no_warning():
    density = random_mixture(0)
    X = np.tile([[1e308, -1e308], [0.0, 0.0]], (400, 1))
    found = density.logpdf(X, n_jobs=2)
    assert_array_equal(found[::2], -np.inf)
    assert np.isfinite(found[1::2]).all()


def test_an_offset_loses_no_more_than_the_data_do():
    density = random_mixture(0)
    X = density.sample(100, random_state=0)
    moved = KernelMixture(
        density.weights, density.means + 2.0**30, density.offsets, density.transforms
    )
    queries = X + 2.0**30
    expected = log_density(moved, queries)
    assert_allclose(moved.logpdf(queries), expected, rtol=1e-9, atol=1e-7)


def test_is_immutable_and_keeps_no_reference():
    weights, centres = np.array([0.5, 0.5]), np.array([[0.0], [1.0]])
    density = KernelMixture(weights, centres, [0, 2], [[[1.0]]])
    before = density.logpdf([[0.3]])
    centres += 100
    assert_array_equal(density.logpdf([[0.3]]), before)
    for name in ("weights", "means", "offsets", "transforms", "log_dets"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(density, name)[...] = 0
    with pytest.raises(AttributeError):
        density.weights = weights
    assert (density.n_features, density.n_kernels, density.n_groups) == (1, 2, 1)
    assert repr(density) == "KernelMixture(n_features=1, n_kernels=2, n_groups=1)"


def test_survives_pickling():
    density = random_mixture(0)
    X = density.sample(10, random_state=0)
    expected = density.logpdf(X)
    assert_array_equal(pickle.loads(pickle.dumps(density)).logpdf(X), expected)


@pytest.mark.parametrize("single", [False, True])
def test_samples_follow_the_density(single):
    """In one call and in many calls of one, the mass below a line is what integration says."""
    density = random_mixture(3, n_features=1, n_groups=2, n_kernels=40)
    rng = np.random.RandomState(0)
    if single:
        drawn = np.concatenate([density.sample(random_state=rng) for _ in range(2000)])
    else:
        drawn = density.sample(4000, random_state=0)
    axis = np.linspace(-60, 60, 120001)
    cdf = np.cumsum(density.pdf(axis[:, None])) * (axis[1] - axis[0])
    assert kstest(drawn[:, 0], lambda x: np.interp(x, axis, cdf)).pvalue > 0.01


def test_samples_of_groups_follow_the_weights_and_are_independent():
    density = KernelMixture(
        [0.3, 0.7], [[-50.0, 0.0], [50.0, 0.0]], [0, 1, 2], [np.eye(2), np.eye(2)]
    )
    drawn = density.sample(6000, random_state=1)
    left = drawn[:, 0] < 0
    assert chisquare([left.sum(), (~left).sum()], [1800, 4200]).pvalue > 0.01
    n = min(left.sum(), (~left).sum())
    assert abs(np.corrcoef(drawn[left][:n, 1], drawn[~left][:n, 1])[0, 1]) < 0.06
    runs = np.sum(left[1:] != left[:-1]) / (len(left) - 1)
    assert abs(runs - 2 * 0.3 * 0.7) < 0.03


def test_covariance_of_samples():
    transform = np.array([[2.0, 1.0], [0.0, 0.5]])
    density = KernelMixture([1.0], [[3.0, -1.0]], [0, 1], [transform])
    drawn = density.sample(200_000, random_state=0)
    assert_allclose(np.cov(drawn.T), np.linalg.inv(transform @ transform.T), rtol=0.03)
    assert_allclose(drawn.mean(axis=0), [3.0, -1.0], atol=0.03)


def test_random_state():
    density = random_mixture(0)
    assert_array_equal(density.sample(5, random_state=7), density.sample(5, random_state=7))
    assert (density.sample(5) != density.sample(5)).all()
    assert density.sample(0).shape == (0, 2)
    assert density.sample(3, np.random.default_rng(0)).shape == (3, 2)


@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(2, 4))
def test_affine_is_the_density_of_what_is_mapped(seed, n_features, n_groups):
    density = random_mixture(seed, n_features, n_groups, 30)
    rng = np.random.RandomState(seed)
    matrix = rng.standard_normal((n_features, n_features)) + 3 * np.eye(n_features)
    shift = 10 * rng.standard_normal(n_features)
    moved = density.affine(matrix, shift)
    X = density.sample(20, random_state=0)
    log_det = np.linalg.slogdet(matrix)[1]
    expected = density.logpdf(X) - log_det
    assert_allclose(moved.logpdf(X @ matrix + shift), expected, rtol=1e-7, atol=1e-7)
    assert_allclose(moved.log_dets, np.linalg.slogdet(moved.transforms)[1], atol=1e-9)
    back = moved.affine(np.linalg.inv(matrix), -np.linalg.solve(matrix.T, shift))
    assert_allclose(back.logpdf(X), density.logpdf(X), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("factor", [1e-200, 1e-9, 1e12, 1e200])
def test_affine_in_any_unit(factor):
    density = random_mixture(0)
    X = density.sample(20, random_state=0)
    moved = density.affine(factor * np.eye(2), np.zeros(2)).logpdf(factor * X)
    assert_allclose(moved, density.logpdf(X) - 2 * np.log(factor), rtol=1e-10)


@pytest.mark.parametrize(
    "matrix", [np.ones((2, 2)), np.zeros((2, 2)), np.eye(3), [[1.0, 0.0]], np.full((2, 2), np.nan)]
)
def test_affine_refuses_what_is_no_regular_matrix(matrix):
    with pytest.raises(ValueError, match="matrix"):
        random_mixture(0).affine(matrix, np.zeros(2))


@given(st.integers(0, 10**6), st.lists(st.integers(1, 60), min_size=1, max_size=5))
def test_merge_is_the_weighted_sum(seed, sizes):
    """Groups of many and of few kernels are summed in different ways, and together."""
    rng = np.random.RandomState(seed)
    parts = [random_mixture(seed + i, 3, min(n, 3), n) for i, n in enumerate(sizes)]
    shares = rng.dirichlet(np.ones(len(parts)))
    both = KernelMixture.merge(parts, shares)
    X = np.concatenate([part.sample(5, random_state=0) for part in parts])
    expected = sum(share * part.pdf(X) for share, part in zip(shares, parts, strict=True))
    assert_allclose(both.pdf(X), expected, rtol=1e-9)
    assert_allclose(both.logpdf(X), log_density(both, X), rtol=1e-9, atol=1e-9)
    assert both.n_kernels == sum(sizes)
    assert both.n_groups == sum(part.n_groups for part in parts)


def test_merge_with_a_weight_of_zero_leaves_a_density_out():
    one, other = random_mixture(0), random_mixture(1)
    X = one.sample(20, random_state=0)
    both = KernelMixture.merge([one, other], [1.0, 0.0])
    assert_allclose(both.logpdf(X), one.logpdf(X), rtol=1e-12)


@pytest.mark.parametrize(
    ("n_parts", "weights"),
    [(0, []), (2, [1.0]), (2, [[0.5, 0.5]]), (2, [0.5, 0.6]), (2, [1.5, -0.5]), (1, [np.nan])],
)
def test_merge_refuses_weights_that_are_none(n_parts, weights):
    with pytest.raises(ValueError, match="weights"):
        KernelMixture.merge([random_mixture(0)] * n_parts, weights)


def test_merge_refuses_different_dimensions():
    with pytest.raises(ValueError, match="same features, got 2 and 3"):
        KernelMixture.merge([random_mixture(0, 2), random_mixture(0, 3)], [0.5, 0.5])


GOOD = {
    "weights": [0.5, 0.5],
    "means": [[0.0], [1.0]],
    "offsets": [0, 2],
    "transforms": [[[1.0]]],
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weights": [0.5]}, "weights must have shape"),
        ({"weights": [0.5, 0.6]}, "weights must not be negative and must add up"),
        ({"weights": [1.5, -0.5]}, "weights must not be negative"),
        ({"weights": [np.nan, 1]}, "weights must be finite"),
        ({"means": [0.0, 1.0]}, "means must have 2 dim"),
        ({"means": np.empty((0, 1))}, "means must have 2 dimensions and not be empty"),
        ({"offsets": [[0, 2]]}, "offsets must"),
        ({"offsets": [0, 1]}, "offsets must rise"),
        ({"offsets": [0, 0, 2]}, "offsets must rise"),
        ({"transforms": [[1.0]]}, "transforms must have shape"),
        ({"transforms": [[[1.0, 0.0]]]}, "transforms must have shape"),
        ({"transforms": [[[0.0]]]}, "transforms must be regular"),
        ({"log_dets": [0.0, 0.0]}, "log_dets"),
    ],
)
def test_refuses_what_is_no_mixture(change, message):
    with pytest.raises(ValueError, match=message):
        KernelMixture(**(GOOD | change))


@pytest.mark.parametrize(
    ("X", "error"),
    [
        ([0.0], ValueError),
        ([[0.0, 1.0]], ValueError),
        ([[np.nan]], ValueError),
        (np.empty((0, 1)), ValueError),
        ([["a"]], ValueError),
        (np.ma.masked_array([[1.0]], mask=[[True]]), TypeError),
    ],
)
def test_refuses_bad_queries(X, error):
    with pytest.raises(error):
        KernelMixture(**GOOD).logpdf(X)


@pytest.mark.parametrize(
    ("count", "error"), [(-1, ValueError), (1.5, TypeError), ("3", TypeError), (True, TypeError)]
)
def test_refuses_bad_counts(count, error):
    with pytest.raises(error, match="n_samples"):
        KernelMixture(**GOOD).sample(count)


@pytest.mark.parametrize("seed", ["seed", 1.5, True])
def test_refuses_bad_random_states(seed):
    with pytest.raises(TypeError, match="random_state"):
        KernelMixture(**GOOD).sample(1, random_state=seed)


def test_what_is_optional_may_be_none():
    arrays = {
        "weights": [0.5, 0.5],
        "means": [[-1.0], [1.0]],
        "offsets": [0, 1, 2],
        "transforms": [[[2.0]], [[3.0]]],
    }
    optional = ("log_dets", "log_weights", "clusters", "counts", "feature_names")
    found = KernelMixture(**arrays, **dict.fromkeys(optional))
    plain = KernelMixture(**arrays)
    for name in optional:
        np.testing.assert_array_equal(getattr(found, name), getattr(plain, name))
    np.testing.assert_array_equal(found.logpdf([[0.3]]), plain.logpdf([[0.3]]))


# Other ways to make a mixture


@pytest.mark.parametrize("shared", [True, False])
def test_covariances(shared):
    rng = np.random.RandomState(0)
    factors = rng.standard_normal((3, 2, 2))
    covariances = factors @ factors.transpose(0, 2, 1)
    weights, means = [0.2, 0.3, 0.5], rng.standard_normal((3, 2))
    density = KernelMixture.from_covariances(
        weights, means, covariances[0] if shared else covariances
    )
    X = rng.standard_normal((20, 2))
    expected = sum(
        weight * multivariate_normal(mean, covariances[0 if shared else k]).pdf(X)
        for k, (weight, mean) in enumerate(zip(weights, means, strict=True))
    )
    assert_allclose(density.pdf(X), expected, rtol=1e-10)


@pytest.mark.parametrize(
    ("covariances", "message"),
    [
        (np.eye(3), r"covariances must have shape \(2, 2\) or \(1, 2, 2\), got \(3, 3\)"),
        ([[1.0, 0.0], [0.5, 1.0]], "covariances must be symmetric"),
        ([[1.0, 2.0], [2.0, 1.0]], "covariances must be positive definite"),
    ],
)
def test_bad_covariances_are_refused(covariances, message):
    with pytest.raises(ValueError, match=message):
        KernelMixture.from_covariances([1.0], [[0.0, 0.0]], covariances)


def test_components_add_up_to_the_density():
    density = KernelMixture(
        [0.2, 0.3, 0.4, 0.1], [[0.0], [1.0], [9.0], [4.0]], [0, 2, 3, 4],
        [[[1.0]], [[0.5]], [[0.1]]], clusters=[0, 3, -1], counts=[2, 3, 4, 1],
    )  # fmt: skip
    X = np.linspace(-3, 12, 40)[:, None]
    shares = {0: 0.5, 3: 0.4, -1: 0.1}
    parts = sum(share * density.component(label).pdf(X) for label, share in shares.items())
    assert_allclose(parts, density.pdf(X), rtol=1e-12)
    assert_array_equal(density.component(0).counts, [2, 3])
    with pytest.raises(ValueError, match=r"label must be one of the clusters \[-1, 0, 3\], got 7"):
        density.component(7)

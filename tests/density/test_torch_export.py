import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.stats import chi2_contingency

from sevenhills import ROME, AutoROME, GaussianKDE, KernelMixture, ManifoldParzen, datasets
from sevenhills.density import CircleMap, FeatureMap, YeoJohnson, preimages, torch_export
from sevenhills.metrics import energy_distance

from .. import densities
from .test_maps import MAPS, mixture
from .test_mixture import random_mixture

torch = pytest.importorskip("torch")

# Forward derivatives of PyTorch itself load what is no longer recommended.
forward = pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")

ESTIMATORS = [ROME(), AutoROME(), ManifoldParzen(), GaussianKDE()]


def many_small_groups(seed, n_features=3, n_kernels=60, width=1.0):
    """Kernels that are turned each by itself, of sizes six orders of magnitude apart."""
    rng = np.random.RandomState(seed)
    transforms = rng.standard_normal((n_kernels, n_features, n_features)) + 2 * np.eye(n_features)
    transforms *= 10.0 ** rng.uniform(-3, 3, (n_kernels, 1, 1)) / width
    centres = 3 * width * rng.standard_normal((n_kernels, n_features))
    weights = rng.dirichlet(np.ones(n_kernels))
    return KernelMixture(weights, centres, np.arange(n_kernels + 1), transforms)


def both_ways(seed, offset=0.0):
    """A large group beside many small ones."""
    large, small = random_mixture(seed, 3, 1, 80), many_small_groups(seed)
    return KernelMixture.merge([large, small], [0.4, 0.6]).affine(np.eye(3), np.full(3, offset))


def assert_equal_logpdf(density, X, rtol=1e-10, atol=1e-10):
    found = density.to_torch().log_prob(torch.tensor(X))
    assert found.dtype == torch.float64
    assert_allclose(found.numpy(), density.logpdf(X), rtol=rtol, atol=atol)


@given(
    st.integers(0, 10**6),
    st.integers(1, 12),
    st.integers(1, 5),
    st.integers(5, 200),
    st.sampled_from([0.0, 1.0, 30.0, 1e4]),
)
def test_log_prob_is_logpdf_in_the_far_tails_too(seed, n_features, n_groups, n, spread):
    density = random_mixture(seed, n_features, n_groups, n, spread)
    rng = np.random.RandomState(seed)
    near = density.means[rng.randint(n, size=20)]
    far = rng.standard_normal((20, n_features)) * rng.choice([1, 10, 1e3, 1e6], size=(20, 1))
    assert_equal_logpdf(density, near)
    assert_equal_logpdf(density, near + far)


@given(st.integers(0, 10**6))
def test_log_prob_is_logpdf_where_kernels_have_covariances_of_their_own(seed):
    density = both_ways(seed)
    X = density.sample(20, random_state=seed)
    for points in (X, density.means, X + 1e3, X * 1e5):
        assert_equal_logpdf(density, points)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("name", ["varied", "trajectories"])
def test_log_prob_of_fits(estimator, name):
    train, test = datasets.load(name).split(run=0, n_samples=400)
    assert_equal_logpdf(estimator.fit(train).density_, test)


def test_a_large_offset_loses_no_more_than_the_data_do():
    density = both_ways(0, offset=2.0**20)
    assert_equal_logpdf(density, density.sample(50, random_state=0))


@pytest.mark.parametrize("factor", [1e-200, 1e-9, 1e12, 1e100])
def test_any_unit(factor):
    density = both_ways(0).affine(factor * np.eye(3), np.zeros(3))
    assert_equal_logpdf(density, density.sample(50, random_state=0))


def test_kernels_that_weigh_nothing_are_left_out():
    density = KernelMixture([1.0, 0.0], [[0.0], [1e200]], [0, 1, 2], [[[1.0]], [[1.0]]])
    x = torch.tensor([[3.0], [-1e160]], dtype=torch.float64, requires_grad=True)
    found = density.to_torch().log_prob(x)
    assert_allclose(found[0].item(), density.logpdf([[3.0]])[0])
    found[0].backward()
    assert_allclose(x.grad[0], -3.0)


@pytest.mark.parametrize("shape", [(), (1,), (7,), (2, 3), (0,), (2, 0, 3)])
def test_any_batch_shape(shape):
    density = random_mixture(0, 2)
    found = density.to_torch().log_prob(torch.zeros((*shape, 2)))
    assert found.shape == shape
    assert_allclose(found, np.full(shape, density.logpdf([[0.0, 0.0]])[0]))


@forward
@pytest.mark.parametrize("density", [random_mixture(0, 3), both_ways(1)], ids=["few", "many"])
def test_derivatives_are_those_of_differences(density):
    """First and second derivatives, backwards and forwards."""
    log_prob = density.to_torch().log_prob
    x = torch.tensor(density.means[::40] + 0.3, requires_grad=True)
    assert torch.autograd.gradcheck(log_prob, (x,), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(log_prob, (x,), check_fwd_over_rev=True)


@forward
def test_hessians_of_many_points_at_once():
    density = both_ways(2)
    log_prob = density.to_torch().log_prob
    X = torch.tensor(density.sample(4, random_state=0))
    at_once = torch.func.vmap(torch.func.hessian(log_prob))(X)
    single = torch.stack([torch.autograd.functional.hessian(log_prob, x) for x in X])
    assert_allclose(at_once, single, rtol=1e-9, atol=1e-9 * float(single.abs().max()))


def test_blocks_and_gradients_that_are_computed_again_change_nothing(monkeypatch):
    density = both_ways(3)
    X = torch.tensor(density.sample(30, random_state=0))

    def log_prob_and_derivatives():
        x = X.clone().requires_grad_()
        value = density.to_torch().log_prob(x)
        (gradient,) = torch.autograd.grad(value.sum(), x, create_graph=True)
        (second,) = torch.autograd.grad((gradient**2).sum(), x)
        return value.detach(), gradient.detach(), second

    whole = log_prob_and_derivatives()
    monkeypatch.setattr(torch_export, "_TRACKED_NUMBERS", 1000)
    for found, expected in zip(log_prob_and_derivatives(), whole, strict=True):
        assert_allclose(found, expected, rtol=1e-12)


@forward
def test_blocks_change_nothing(monkeypatch):
    """In plain evaluations, in forward derivatives and in many evaluations at once."""
    density = both_ways(4)
    log_prob = density.to_torch().log_prob
    X = torch.tensor(density.sample(30, random_state=0))

    def evaluate():
        _, slopes = torch.func.jvp(log_prob, (X,), (torch.ones_like(X),))
        return log_prob(X), slopes, torch.func.vmap(log_prob)(X.reshape(3, 10, 3))

    whole = evaluate()
    monkeypatch.setattr(torch_export, "_BLOCK_NUMBERS", 1000)
    for found, expected in zip(evaluate(), whole, strict=True):
        assert_allclose(found, expected, rtol=1e-12)


def test_gradient_ascent_climbs_and_stays_finite():
    density = ROME().fit(datasets.load("two_moons").sample(500, random_state=0)).density_
    distribution = density.to_torch()
    x = torch.nn.Parameter(torch.tensor([[0.0, 0.0], [3.0, 3.0], [-9.0, 5.0], [1.0, -2.0]]))
    start = distribution.log_prob(x).detach()
    optimizer = torch.optim.Adam([x], lr=0.1)
    for _ in range(200):
        optimizer.zero_grad()
        loss = -distribution.log_prob(x).mean()
        loss.backward()
        optimizer.step()
        assert torch.isfinite(x).all()
        assert torch.isfinite(loss)
    end = distribution.log_prob(x).detach()
    assert (end > start).all()
    assert (end > -2).all()


def test_is_a_term_of_a_loss():
    """A net that maps noise learns to stay where the density is high."""
    torch.manual_seed(0)
    prior = random_mixture(0, 2, 1, 50, spread=3.0).to_torch(dtype=torch.float32)
    net = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    noise = torch.randn(64, 2)
    losses = []
    for _ in range(150):
        optimizer.zero_grad()
        loss = -prior.log_prob(net(noise)).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] - 1
    assert -prior.log_prob(prior.mean).item() > losses[-1] - 5


def test_single_precision():
    density = both_ways(0, offset=1000.0)
    X = density.sample(50, random_state=0).astype(np.float32)
    distribution = density.to_torch(dtype=torch.float32)
    found = distribution.log_prob(torch.tensor(X))
    assert found.dtype == torch.float32
    assert_allclose(found, density.logpdf(X), rtol=1e-2, atol=1e-2)
    again = distribution.to(dtype=torch.float64).log_prob(torch.tensor(X))
    assert_allclose(again, density.logpdf(X), rtol=1e-10, atol=1e-10)


def test_points_keep_their_precision_until_the_offset_is_gone():
    density = random_mixture(0, 2).affine(np.eye(2), [1e6, -1e6])
    X = density.sample(20, random_state=0)
    found = density.to_torch(dtype=torch.float32).log_prob(torch.tensor(X))
    assert found.dtype == torch.float32
    assert_allclose(found, density.logpdf(X), rtol=1e-3, atol=1e-3)


def test_draws_follow_the_density():
    density = random_mixture(0, 2, 3, 30)
    torch.manual_seed(0)
    drawn = density.to_torch().sample((20_000,)).numpy()
    ours = density.sample(20_000, random_state=0)
    levels = [density.logpdf(ours), density.logpdf(drawn)]
    deciles = np.quantile(levels[0], np.linspace(0, 1, 11)[1:-1])
    table = [np.bincount(np.searchsorted(deciles, each), minlength=10) for each in levels]
    assert chi2_contingency(table).pvalue > 0.01
    assert_allclose(drawn.mean(axis=0), density.mean(), atol=0.15)
    assert_allclose(np.cov(drawn.T), density.cov(), rtol=0.1, atol=0.3)


def test_draws_of_every_kernel_have_its_covariance():
    density = many_small_groups(0, n_features=2, n_kernels=20)
    torch.manual_seed(0)
    alone = [
        KernelMixture([1.0], density.means[k : k + 1], [0, 1], density.transforms[k : k + 1])
        for k in range(3)
    ]
    for one in alone:
        drawn = one.to_torch().sample((20_000,)).numpy()
        assert_allclose(np.cov(drawn.T), one.cov(), rtol=0.05, atol=0.05 * one.cov().max())


def test_draws_follow_the_seed_and_have_no_gradient():
    distribution = random_mixture(0).to_torch()
    torch.manual_seed(3)
    first = distribution.sample((2, 3))
    torch.manual_seed(3)
    assert torch.equal(distribution.sample((2, 3)), first)
    assert first.shape == (2, 3, 2)
    assert distribution.sample().shape == (2,)
    assert distribution.sample((0,)).shape == (0, 2)
    assert not distribution.has_rsample
    with pytest.raises(NotImplementedError):
        distribution.rsample()


def test_moments():
    density = both_ways(0)
    distribution = density.to_torch()
    assert_allclose(distribution.mean, density.mean())
    assert_allclose(distribution.covariance_matrix, density.cov())
    assert_allclose(distribution.variance, np.diag(density.cov()))
    assert_allclose(distribution.stddev, np.sqrt(np.diag(density.cov())))


def test_is_a_distribution_like_others():
    distribution = random_mixture(0, 3).to_torch()
    assert isinstance(distribution, torch.distributions.Distribution)
    assert (distribution.batch_shape, distribution.event_shape) == ((), (3,))
    assert distribution.support.check(torch.zeros(5, 3)).all()
    assert "n_features=3" in repr(distribution)
    shift = torch.distributions.AffineTransform(torch.ones(3), 2.0, event_dim=1)
    moved = torch.distributions.TransformedDistribution(distribution, [shift])
    x = torch.randn(4, 3, dtype=torch.float64)
    expected = distribution.log_prob(x) - 3 * np.log(2)
    assert_allclose(moved.log_prob(2 * x + 1), expected, rtol=1e-6)


def test_expand():
    distribution = random_mixture(0, 3).to_torch()
    batch = distribution.expand((4,))
    assert (batch.batch_shape, batch.event_shape) == ((4,), (3,))
    assert batch.sample((5,)).shape == (5, 4, 3)
    assert (batch.mean.shape, batch.covariance_matrix.shape) == ((4, 3), (4, 3, 3))
    x = torch.randn(2, 1, 3)
    assert_allclose(batch.log_prob(x), distribution.log_prob(x).expand(2, 4))
    assert batch.to(dtype=torch.float32).batch_shape == (4,)
    assert distribution.batch_shape == ()


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
def test_is_copied_with_models(copied):
    distribution = random_mixture(0).to_torch(dtype=torch.float32).expand((2,))
    distribution.sample()
    x = torch.randn(2, 2)
    again = copied(distribution)
    assert torch.equal(again.log_prob(x), distribution.log_prob(x))
    assert again.log_prob(x).dtype == torch.float32


def test_refuses_what_it_cannot_take():
    density = random_mixture(0, 2)
    distribution = density.to_torch()
    with pytest.raises(TypeError, match="value must be a tensor"):
        distribution.log_prob([0.0, 0.0])
    for bad in (torch.zeros(3), torch.zeros(2, 1), torch.tensor(0.0)):
        with pytest.raises(ValueError, match="value must have 2 features"):
            distribution.log_prob(bad)
    with pytest.raises(ValueError, match="dtype must be"):
        density.to_torch(dtype=torch.float16)
    tiny = density.affine(1e-60 * np.eye(2), np.zeros(2))
    with pytest.raises(ValueError, match="too wide or too narrow"):
        tiny.to_torch(dtype=torch.float32)


def test_the_package_does_not_import_torch():
    code = "import sys, sevenhills; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@forward
@pytest.mark.parametrize("name", densities.ESTIMATORS)
@pytest.mark.parametrize("n_features", [2, 5])
def test_our_derivatives_are_those_of_autograd(name, n_features):
    density = densities.fitted(name, n_features, 120).density_
    near = density.sample(20, random_state=0)
    X = np.concatenate([near, 4 * near, near + 1e3])
    there = density.to_torch()
    points = torch.tensor(X, requires_grad=True)
    (gradient,) = torch.autograd.grad(there.log_prob(points).sum(), points)
    found = density.grad_logpdf(X)
    assert_allclose(found, gradient.numpy(), rtol=1e-9, atol=1e-9 * np.abs(found).max())
    for x, hessian in zip(X[::6], density.hess_logpdf(X[::6]), strict=True):
        expected = torch.func.hessian(there.log_prob)(torch.tensor(x)).numpy()
        # Of two terms as large as the squared gradient, the difference is left.
        size = 1 + (density.grad_logpdf(x[None]) ** 2).sum()
        assert_allclose(hessian, expected, rtol=1e-7, atol=1e-9 * size)


# Tensors that come in


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_tensors_of_any_precision_are_taken(dtype):
    rng = np.random.RandomState(0)
    X = torch.tensor(rng.standard_normal((60, 2))).to(dtype)
    weights = torch.ones(60, dtype=dtype)
    values = X.double().numpy()
    plain = ROME().fit(values)
    for tensor in (X, X.clone().requires_grad_(), X.T.contiguous().T):
        model = ROME().fit(tensor, sample_weight=weights)
        assert_allclose(model.score_samples(tensor), plain.score_samples(values), rtol=1e-12)
        assert_allclose(model.density_.logpdf(tensor), plain.density_.logpdf(values), rtol=1e-12)
    found, expected = energy_distance(X, X[:30]), energy_distance(values, values[:30])
    assert float(found) == pytest.approx(float(expected))


@pytest.mark.parametrize("far", [[1e12], [1e20, -1e20], [1e12] * 40])
@pytest.mark.parametrize("own", [False, True])
def test_far_kernels_cost_the_others_no_digits(far, own):
    rng = np.random.RandomState(0)
    centres = rng.standard_normal((80, 2))
    centres[-len(far) :] += np.array(far)[:, None]
    offsets, transforms = ([0, 80], [np.eye(2)])
    if own:
        offsets, transforms = np.arange(81), np.tile(np.eye(2), (80, 1, 1))
    density = KernelMixture(np.full(80, 1 / 80), centres, offsets, transforms)
    points = centres[:30] + 0.1
    assert_equal_logpdf(density, points, rtol=0, atol=1e-12)
    short = density.to_torch(dtype=torch.float32)
    found = short.log_prob(torch.tensor(points)).numpy()
    if len(far) < 40 or not own:
        assert_allclose(found, density.logpdf(points), atol=1e-4)


MAPPED = {name: mixture(each, FeatureMap(), each, width=0.3) for name, each in MAPS.items()}
each_map = pytest.mark.parametrize("density", MAPPED.values(), ids=MAPPED)


@each_map
def test_log_prob_and_gradients_with_maps(density):
    X = density.sample(40, random_state=0)
    outside = np.vstack([X, [[9.0, 0.0, 9.0], [-9.0, 1.0, -9.0]]])
    assert_equal_logpdf(density, outside)
    x = torch.tensor(X, requires_grad=True)
    density.to_torch().log_prob(x).sum().backward()
    assert_allclose(x.grad.numpy(), density.grad_logpdf(X), rtol=1e-7, atol=1e-7)
    singles = density.to_torch(dtype=torch.float32).log_prob(torch.tensor(X[:9]).float())
    assert_allclose(singles.numpy(), density.logpdf(X[:9].astype(np.float32)), rtol=1e-3, atol=1e-3)


@forward
@each_map
def test_second_derivatives_with_maps(density):
    log_prob = density.to_torch().log_prob
    x = torch.tensor(density.sample(3, random_state=1), requires_grad=True)
    assert torch.autograd.gradgradcheck(log_prob, (x,), check_fwd_over_rev=True)


@each_map
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_samples_with_maps(density, dtype):
    torch.manual_seed(0)
    wrapped = density.to_torch(dtype=dtype)
    drawn = wrapped.sample((4000,))
    assert wrapped.support.check(drawn).all()
    assert torch.isfinite(wrapped.log_prob(drawn)).all()
    u = np.sort(density.marginal(0).cdf(drawn[:, 0].double().numpy()))
    assert np.abs(u - np.linspace(0, 1, len(u))).max() < 1.8 / np.sqrt(len(u))
    assert_allclose(wrapped.mean.double().numpy(), density.mean(), rtol=1e-6)


def test_the_center_of_a_power_map_has_a_gradient():
    density = mixture(YeoJohnson(0.3, 0.25, 0.8))
    x = torch.tensor([[0.25]], dtype=torch.float64, requires_grad=True)
    density.to_torch().log_prob(x).sum().backward()
    around = density.grad_logpdf([[0.25 - 1e-9], [0.25 + 1e-9]])
    assert around.min() - 1e-6 <= x.grad.item() <= around.max() + 1e-6


def test_points_with_many_images(monkeypatch):
    density = mixture(*[CircleMap(0.0, 1.0)] * 3, width=0.1)
    X = density.sample(10, random_state=0)
    expected = density.logpdf(X)
    monkeypatch.setattr(preimages, "_MAX_NUMBERS", 12)
    assert_allclose(density.to_torch().log_prob(torch.tensor(X)).numpy(), expected, atol=1e-7)

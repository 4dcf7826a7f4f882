"""Made-up walks with a known law."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp
from scipy.stats import kstest, multivariate_normal

from sevenhills.datasets import make_walks


@pytest.fixture(scope="module")
def walks():
    return make_walks(40, random_state=0)


def covariance_of(law, scene):
    """Write the covariance of a path around its mean out, (24, 24)."""
    covariances = law.factors @ law.factors.transpose(0, 2, 1)
    across = np.array([-law.headings[scene, 1], law.headings[scene, 0]])
    turn = np.array([law.headings[scene], across])
    out = np.zeros((24, 24))
    for t in range(12):
        for u in range(12):
            block = turn.T @ np.diag(covariances[:, t, u]) @ turn
            out[2 * t : 2 * t + 2, 2 * u : 2 * u + 2] = block
    return out


class TestLaw:
    def test_log_density_is_that_of_a_mixture_of_gaussians(self, walks):
        law = walks.law
        paths = law.draw(3, random_state=1)
        for s in (0, 7):
            normal = multivariate_normal(cov=covariance_of(law, s))
            terms = [
                np.log(share) + normal.logpdf((paths[s] - mean).reshape(3, -1))
                for share, mean in zip(law.shares[s], law.means[s], strict=True)
            ]
            assert_allclose(law.logpdf(paths)[s], logsumexp(terms, axis=0), rtol=1e-9)

    def test_truths_follow_the_law(self):
        """Half squared distances from the nearest mean would be chi-square but for the mixture."""
        walks = make_walks(400, random_state=3)
        own = walks.law.logpdf(walks.law.draw(99, random_state=4))
        ranks = (own > walks.law.logpdf(walks.truth)[:, None]).mean(axis=1)
        assert kstest(ranks, "uniform").pvalue > 0.001

    def test_draws_have_the_moments_of_the_law(self, walks):
        law = walks.law[:1]
        drawn = law.draw(20_000, random_state=0)[0].reshape(20_000, -1)
        means = law.means[0].reshape(4, -1)
        between = np.cov(means.T, aweights=law.shares[0], ddof=0)
        assert_allclose(drawn.mean(axis=0), law.shares[0] @ means, atol=0.05)
        assert_allclose(np.cov(drawn.T), between + covariance_of(law, 0), atol=0.12)

    def test_blocks_of_scenes_are_drawn_as_all(self, walks):
        rng = np.random.RandomState(5)
        parts = [walks.law[:11].draw(4, rng), walks.law[11:].draw(4, rng)]
        assert_array_equal(np.concatenate(parts), walks.law.draw(4, 5))

    def test_blocks_of_log_densities(self, walks, monkeypatch):
        paths = walks.law.draw(3, random_state=2)
        whole = walks.law.logpdf(paths)
        monkeypatch.setattr("sevenhills.datasets.walks._BLOCK", 1000)
        assert_allclose(walks.law.logpdf(paths), whole, rtol=1e-12)

    def test_the_law_is_the_likeliest(self, walks):
        truth = walks.law.draw(50, random_state=1)
        right = walks.law.logpdf(truth).mean()
        for wrong in (walks.law.spread(0.5), walks.law.spread(2.0), walks.law.turned(0.3)):
            assert wrong.logpdf(truth).mean() < right - 1

    def test_seeds(self):
        first, second = make_walks(3, random_state=1), make_walks(3, random_state=1)
        assert_array_equal(first.truth, second.truth)
        assert make_walks(2, 5, 7, random_state=0).truth.shape == (2, 7, 2)
        assert repr(first) == "Walks(n_scenes=3, n_observed=8, n_predicted=12)"

    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (lambda law: law.logpdf(np.zeros((2, 12, 2))), r"paths must have shape \(40, 12, 2\)"),
            (lambda law: law.spread(0.0), "factor must be positive"),
            (lambda law: law.draw(0), "n_samples must be at least 1"),
            (lambda law: make_walks(3, n_observed=1), "n_observed must be at least 2"),
            (lambda law: make_walks(3, dt=-1.0), "dt must be positive"),
        ],
    )
    def test_bad_values(self, walks, call, message):
        with pytest.raises(ValueError, match=message):
            call(walks.law)

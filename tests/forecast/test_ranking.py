"""Several forecasters in one table, and the number of scenes that tells them apart."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import ttest_1samp

from sevenhills.datasets import make_walks
from sevenhills.forecast import Mixtures, compare, evaluate, power, rank


def scored(values, **options):
    """Return an evaluation whose measure "ade" has these positive values."""
    predictions = np.asarray(values, dtype=float)[:, None, None, None]
    options = {"measures": "ade", "check_units": False, "n_replicates": 2} | options
    return evaluate(predictions, np.zeros((len(values), 1, 1)), **options)


def normal_scores(rng, means, n_scenes, noise=1.0):
    """Return evaluations of forecasters that share the difficulty of the scenes."""
    difficulty = 100 + 5 * rng.standard_normal(n_scenes)
    return {
        f"f{i}": scored(difficulty + mean + noise * rng.standard_normal(n_scenes))
        for i, mean in enumerate(means)
    }


class TestRank:
    def test_the_order_of_the_means_and_pairs_as_compared(self):
        found = normal_scores(np.random.RandomState(0), [0.0, 2.0, 1.0], 100)
        ranking = rank(found)
        assert ranking.measure == "ade"
        assert [row.forecaster for row in ranking.summary] == ["f0", "f2", "f1"]
        assert [row.rank for row in ranking.summary] == ["1", "2", "3"]
        assert ranking.ties == ()
        assert list(ranking.evaluations) == ["f0", "f2", "f1"]
        assert set(ranking.pairs) == {("f0", "f2"), ("f0", "f1"), ("f2", "f1")}
        for (one, other), pair in ranking.pairs.items():
            expected = compare(found[one], found[other])["ade"]
            assert_allclose(pair.difference, expected.difference, rtol=1e-12)
            assert_allclose([pair.low, pair.high], [expected.low, expected.high], atol=0.1)
            assert pair.n_better == expected.n_better
        row = ranking["f1"]
        assert_allclose(row.difference, found["f1"]["ade"].mean - found["f0"]["ade"].mean)
        assert row.low < row.difference < row.high
        assert row.mean == found["f1"]["ade"].mean
        assert row.standard_error == found["f1"]["ade"].standard_error
        assert row.median == np.median(found["f1"].scenes["ade"])
        assert np.isnan(ranking["f0"].difference)
        assert np.isnan(row.ece)

    def test_those_that_cannot_be_told_apart_share_ranks(self):
        found = normal_scores(np.random.RandomState(0), [0.0, 0.01, 3.0], 100)
        ranking = rank(found)
        assert [row.rank for row in ranking.summary] == ["1-2", "1-2", "3"]
        assert [set(tie) for tie in ranking.ties] == [{"f0", "f1"}]
        assert "cannot be told apart by these 100 scenes" in repr(ranking)

    def test_the_order_of_forecasters_does_not_matter(self):
        found = normal_scores(np.random.RandomState(1), [0.0, 0.3, 0.1, 0.2], 80)
        one, other = rank(found), rank(dict(reversed(found.items())))
        assert [row.forecaster for row in one.summary] == [row.forecaster for row in other.summary]
        assert_allclose([row.mean for row in one.summary], [row.mean for row in other.summary])

    @pytest.mark.parametrize("measure", ["nll_step", "ece"])
    def test_scenes_that_one_of_them_lacks_are_left_out(self, measure):
        rng = np.random.RandomState(0)
        samples = {name: rng.standard_normal((50, 8, 1, 1)) for name in "ab"}
        truth = rng.standard_normal((50, 1, 1))
        options = {"errors": "skip", "measures": measure, "check_units": False}
        kept = {name: each[5:] for name, each in samples.items()}
        expected = rank(kept, truth[5:], **options)
        truth[:5] = 9.0  # five scenes that are hard for both, and the second leaves them out
        samples["b"][:5] = samples["b"][:5, :1]
        found = rank(samples, truth, **options)
        assert found.n_scenes == 45
        assert found.evaluations["a"][measure].n_scenes == 50
        for one, other in zip(found.summary, expected.summary, strict=True):
            assert (one.forecaster, one.rank) == (other.forecaster, other.rank)
            # Ties of the calibration are broken at random.
            tolerance = 0.01 if measure == "ece" else 1e-9
            assert_allclose(one.mean, other.mean, atol=tolerance)
            assert_allclose(one.standard_error, other.standard_error, rtol=0.1)
            assert_allclose(one.largest_share, other.largest_share)
            assert_allclose(one.difference, other.difference, atol=2 * tolerance)

    def test_groups_are_exchanged_as_a_whole(self):
        rng = np.random.RandomState(0)
        groups = np.repeat(np.arange(12), 10)
        effect = rng.standard_normal(12)
        effect = 0.5 * (effect - effect.mean())[groups]  # the same in all scenes of a group
        base = 100 + rng.uniform(size=120)
        values = {"a": base, "b": base + 0.2 + effect + 0.1 * rng.standard_normal(120)}
        alone = rank({name: scored(each) for name, each in values.items()})
        found = rank({name: scored(each, groups=groups) for name, each in values.items()})
        assert alone.ties == ()
        assert alone["b"].p_value < 0.005 < found["b"].p_value
        both = [scored(each, groups=groups) for each in values.values()]
        assert_allclose(compare(*both)["ade"].p_value, found.pairs["a", "b"].p_value, atol=0.02)

    def test_predictions_are_evaluated_with_the_same_options(self):
        walks = make_walks(40, random_state=0)
        laws = {"wide": walks.law.spread(2.0), "true": walks.law}
        samples = {name: law.draw(20, random_state=1) for name, law in laws.items()}
        measures = ("nll_step", "ece", "energy_score", "ade")
        ranking = rank(samples, walks.truth, measures=measures, n_replicates=50)
        assert ranking.measure == "nll_step"
        again = rank(ranking.evaluations, measure="ece", n_replicates=50)
        assert again.summary[0].forecaster == "true"
        assert again["wide"].mean == ranking["wide"].ece
        assert ranking["true"].energy_score == ranking.evaluations["true"]["energy_score"].mean
        assert list(ranking.columns("measures")) == ["measure", *ranking.evaluations]
        assert ranking.to_pandas("measures").shape == (4, 3)

    def test_exact_likelihoods_of_different_mixtures(self):
        """Numbers of components may differ, but not those of samples that are estimated from."""
        rng = np.random.RandomState(0)
        truth = rng.standard_normal((40, 2, 2))
        covariance = np.eye(4)[None, None]
        found = rank(
            {
                "one": Mixtures(np.ones((40, 1)), np.zeros((40, 1, 2, 2)), covariance),
                "two": Mixtures(np.ones((40, 2)), np.full((40, 2, 2, 2), 1.0), covariance),
            },
            truth,
            measures="nll",
        )
        assert [row.source for row in found.summary] == ["exact", "exact"]
        assert "may come from the density" not in found.resolution
        samples = rng.standard_normal((40, 12, 2, 2))
        both = found.evaluations | {"samples": evaluate(samples, truth, measures="nll")}
        with pytest.raises(ValueError, match="cannot be compared, they differ in n_samples"):
            rank(both)
        mixed = rank(both, ignore=("n_samples", "n_draws", "k", "estimator", "step_estimator"))
        assert mixed["samples"].source == "pooled"
        assert "may come from the density" in mixed.resolution

    def test_it_is_shown_and_kept(self):
        ranking = rank(normal_scores(np.random.RandomState(0), [0.0, 1.0], 50))
        assert repr(pickle.loads(pickle.dumps(ranking))) == repr(ranking)
        assert "<table" in ranking._repr_html_()
        assert list(ranking.to_pandas()["forecaster"]) == ["f0", "f1"]
        with pytest.raises(KeyError, match="there is no forecaster 'x', only"):
            ranking["x"]
        with pytest.raises(TypeError):
            ranking.pairs["a", "b"] = None

    def test_one_forecaster(self):
        ranking = rank(normal_scores(np.random.RandomState(0), [0.0], 50))
        assert [row.rank for row in ranking.summary] == ["1"]
        assert ranking.ties == ()
        assert ranking.pairs == {}

    def test_what_cannot_be_ranked(self):
        found = normal_scores(np.random.RandomState(0), [0.0, 1.0], 20)
        with pytest.raises(TypeError, match="forecasters must be a mapping"):
            rank(list(found.values()))
        with pytest.raises(ValueError, match="forecasters must be at least one"):
            rank({})
        with pytest.raises(TypeError, match="truth is needed to evaluate 'x'"):
            rank({**found, "x": np.zeros((20, 5, 1, 1))})
        with pytest.raises(ValueError, match=r"measure must be among \['ade'\], got 'nll'"):
            rank(found, measure="nll")
        with pytest.raises(ValueError, match="f0 and x cannot be compared, they differ in"):
            rank({**found, "x": scored(np.ones(19))})
        with pytest.raises(TypeError, match="but measures belong to evaluate"):
            rank(found, measures="ade")

    def test_ranks_hold_together_if_nothing_differs(self):
        """Five equal forecasters are told apart in at most 5 % of all cases."""
        rng = np.random.RandomState(0)
        wrong = sum(
            len(rank(normal_scores(rng, np.zeros(5), 30), n_replicates=2).ties[0]) < 5
            for _ in range(60)
        )
        assert wrong <= 8  # 1 of 600 for a probability of 0.05


class TestPower:
    @pytest.mark.parametrize("heavy", [False, True])
    def test_the_power_that_is_promised_is_reached(self, heavy):
        rng = np.random.RandomState(0)

        def differences(*shape):
            noise = rng.exponential(size=shape) - 1 if heavy else rng.standard_normal(shape)
            return 0.2 + noise

        pilot = 100 + rng.uniform(size=2000)
        a, b = scored(pilot), scored(pilot + differences(2000))
        found = power(a, b, measure="ade", difference=0.2)
        assert_allclose(found.n_scenes_needed, 198, rtol=0.1)
        trials = differences(2000, int(found.n_scenes_needed))
        assert_allclose((ttest_1samp(trials, 0, axis=1).pvalue < 0.05).mean(), 0.8, atol=0.07)
        fewer = differences(2000, 30)
        few = power(scored(pilot[:30]), scored(pilot[:30] + fewer[0]), measure="ade")
        assert few.n_scenes == 30
        assert few.smallest_difference > 0.2

    def test_the_present_power_and_the_smallest_difference(self):
        rng = np.random.RandomState(0)
        base = 100 + rng.uniform(size=100)
        a, b = scored(base), scored(base + 0.3 + rng.standard_normal(100))
        found = power(a, b, measure="ade")
        assert_allclose(found.difference, abs(compare(a, b)["ade"].difference))
        there = power(a, b, measure="ade", difference=found.smallest_difference)
        assert_allclose(there.power, 0.8, atol=1e-6)
        assert there.n_scenes_needed == pytest.approx(100, abs=3)
        mirrored = power(b, a, measure="ade")
        assert_allclose(mirrored.n_scenes_needed, found.n_scenes_needed, rtol=0.15)
        assert power(a, a, measure="ade").n_scenes_needed == np.inf

    def test_groups_of_equal_scenes_count_once(self):
        rng = np.random.RandomState(0)
        base = 100 + rng.uniform(size=40)
        values = base, base + 0.3 + rng.standard_normal(40)
        once = power(*map(scored, values), measure="ade")
        groups = np.repeat(np.arange(40), 5)
        five = power(*(scored(np.repeat(v, 5), groups=groups) for v in values), measure="ade")
        assert five.n_groups_needed == once.n_groups_needed == once.n_scenes_needed
        assert five.n_scenes_needed == pytest.approx(5 * once.n_scenes_needed, abs=5)
        assert_allclose(five.smallest_difference, once.smallest_difference)

    def test_the_share_of_the_samples(self):
        """Noise of the samples has three times the variance of the scenes."""
        rng = np.random.RandomState(0)
        base = 100 + rng.uniform(size=3000)
        apart = 0.5 + rng.standard_normal(3000)
        noisy = [scored(base + apart + np.sqrt(3) * rng.standard_normal(3000)) for _ in range(2)]
        found = power([scored(base)] * 2, noisy, measure="ade")
        assert_allclose(found.sample_share, 0.75, atol=0.06)
        assert np.isnan(power(scored(base), noisy[0], measure="ade").sample_share)
        # With very many samples, the noise is gone.
        many = power(scored(base), scored(base + apart), measure="ade", difference=0.5)
        few = power([scored(base)] * 2, noisy, measure="ade", difference=0.5)
        assert_allclose(
            many.n_scenes_needed, (1 - few.sample_share) * few.n_scenes_needed, rtol=0.2
        )

    def test_bad_arguments(self):
        a, b = scored([1.0, 2.0, 3.0]), scored([1.0, 2.5, 3.0])
        with pytest.raises(ValueError, match="difference must be"):
            power(a, b, measure="ade", difference=0)
        with pytest.raises(ValueError, match="power must lie between 0 and 1, got 2"):
            power(a, b, measure="ade", power=2)
        with pytest.raises(ValueError, match="as many evaluations, got 2 and 1"):
            power([a, a], b, measure="ade")
        with pytest.raises(ValueError, match=r"measure must be among \['ade'\], got 'nll'"):
            power(a, b, measure="nll")
        with pytest.raises(TypeError, match="a and b must be an Evaluation"):
            power([a, 3], [b, b], measure="ade")

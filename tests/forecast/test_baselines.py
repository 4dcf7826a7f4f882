import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sevenhills.datasets import make_walks
from sevenhills.forecast import ConstantVelocity, NearestPasts


@pytest.fixture(scope="module")
def walks():
    return make_walks(40, random_state=0)


class TestBaselines:
    def test_constant_velocity_goes_straight_on(self):
        observed = np.stack([np.arange(8.0), 2 * np.arange(8.0)], axis=1)[None]
        drawn = ConstantVelocity(std=1e-9).predict(observed, 3, random_state=0)
        ahead = np.stack([np.arange(8.0, 20.0), 2 * np.arange(8.0, 20.0)], axis=1)
        assert_allclose(drawn[0], np.broadcast_to(ahead, (3, 12, 2)), atol=1e-6)

    def test_the_spread_is_learned_along_and_across(self):
        rng = np.random.RandomState(0)
        angle = rng.uniform(0, 7, 3000)
        heading = np.stack([np.cos(angle), np.sin(angle)], axis=1)
        across = np.stack([-heading[:, 1], heading[:, 0]], axis=1)
        observed = np.arange(8.0)[None, :, None] * heading[:, None]
        missed = rng.standard_normal((3000, 2)) * [0.1, 0.5]
        last = observed[:, -1] + heading + missed[:, :1] * heading + missed[:, 1:] * across
        predictor = ConstantVelocity().fit(observed, last[:, None])
        east = np.stack([np.arange(8.0), np.zeros(8)], axis=1)[None]
        drawn = predictor.predict(east, 20_000, random_state=1)[0, :, 0]
        assert_allclose(drawn.mean(axis=0), [8, 0], atol=0.02)
        assert_allclose(drawn.std(axis=0), [0.1, 0.5], rtol=0.05)

    def test_nearest_pasts_are_turned_back(self):
        """Of two known walks, the one with the same past is taken, whatever its heading."""
        turning = np.array([[0, 0], [1, 0], [2, 0.5], [3, 1.5]], dtype=float)
        straight = np.column_stack([np.arange(4.0), np.zeros(4)])
        predictor = NearestPasts().fit(
            np.stack([turning[:3], straight[:3]]), np.stack([turning[3:], straight[3:]])
        )
        quarter = np.array([[0.0, 1.0], [-1.0, 0.0]])
        moved = turning @ quarter + [5, 7]
        drawn = predictor.predict(moved[None, :3], 1)
        assert_allclose(drawn[0, 0], moved[3:], atol=1e-12)

    def test_nearest_pasts_equal_sorting_all(self, walks, monkeypatch):
        predictor = NearestPasts().fit(walks.observed[10:], walks.truth[10:])
        whole = predictor.predict(walks.observed[:10], 5)
        monkeypatch.setattr("sevenhills.forecast.baselines._BLOCK", 100)
        assert_array_equal(predictor.predict(walks.observed[:10], 5), whole)
        few = NearestPasts(3).fit(walks.observed[10:], walks.truth[10:])
        drawn = few.predict(walks.observed[:10], 50, random_state=0)
        assert len(np.unique(drawn[0, :, 0, 0])) == 3

    def test_who_stands_still(self):
        still = np.ones((3, 8, 2))
        assert np.isfinite(ConstantVelocity(0.1).predict(still, 4, random_state=0)).all()
        assert np.isfinite(NearestPasts().fit(still, still).predict(still, 2)).all()

    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (lambda w: ConstantVelocity().predict(w.observed), "fit it or pass a std"),
            (lambda w: NearestPasts().predict(w.observed), "fit it first"),
            (
                lambda w: ConstantVelocity().fit(w.observed, w.truth[:3]),
                r"\(40, n_steps, 2\)",
            ),
            (lambda w: ConstantVelocity().fit(w.observed[:, 0], w.truth), "observed must have"),
            (lambda w: ConstantVelocity().fit(w.observed * np.nan, w.truth), "must be finite"),
            (lambda w: NearestPasts().fit(w.observed, w.truth * np.nan), "must be finite"),
            (
                lambda w: NearestPasts().fit(w.observed, w.truth).predict(w.observed, 41),
                "only 40 paths were fitted",
            ),
            (
                lambda w: NearestPasts().fit(w.observed, w.truth).predict(w.observed[:, 1:], 2),
                "observed has 7 steps, but was fitted to 8",
            ),
        ],
    )
    def test_bad_values(self, walks, call, message):
        with pytest.raises(ValueError, match=message):
            call(walks)

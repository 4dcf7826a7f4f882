"""The life of an estimator: fits that succeed, fail or are interrupted, in any order.

Checks are calls, not bare asserts, so that they are made under ``python -O``, too.
"""

import copy
import inspect
import pickle
import random
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from numpy.testing import assert_, assert_array_equal
from sklearn.base import clone

import sevenhills
from sevenhills import (
    ROME,
    compat,
)

from ..strategies import awkward
from .estimators import REGISTERED, for_each

pytestmark = pytest.mark.usefixtures("silent")

PACKAGE = str(Path(sevenhills.__file__).parent)
#: What no fit takes, and what to expect of it.
BAD_SAMPLES = [
    (np.full((5, 2), np.nan), ValueError),
    (np.empty((0, 2)), ValueError),
    (np.ones(7), ValueError),
    (np.ones((4, 2)) * 1j, ValueError),
    ([["a", "b"], ["c", "d"]], ValueError),
    (np.ma.masked_array(np.ones((3, 2)), mask=np.eye(3, 2)), TypeError),
    (None, (TypeError, ValueError)),
]
#: A parameter that no fit takes, for the estimators that have it.
BAD_PARAMETERS = {
    "min_std": -1.0,
    "density": "gmm",
    "selection": "calinski",
    "k_min": 0,
    "n_eps": -1,
    "n_neighbors": 0,
    "bw_method": "wide",
    "n_splits": 1,
    "bandwidths": [],
    "max_components": 0,
    "reg_covar": -1.0,
    "random_state": "seven",
    "truncation": -1,
}

seeds = st.integers(0, 2**31)
good_samples = awkward(min_samples=3, max_samples=25, max_features=3, max_twists=1).filter(
    lambda X: bool((np.ptp(X, axis=0) > 0).all())
)


def global_state():
    """The states of the generators that nobody may touch."""
    return pickle.dumps((np.random.get_state(), random.getstate()))  # noqa: NPY002


@contextmanager
def interrupted_at(n_calls):
    """Raise KeyboardInterrupt when functions of the package were called so often.

    Yields a list with the number of calls so far. Generators do not count, since Python drops what
    is raised when they are closed.
    """
    count = [0]

    def profile(frame, event, argument):
        code = frame.f_code
        ours = code.co_filename.startswith(PACKAGE) and not code.co_flags & inspect.CO_GENERATOR
        if event == "call" and ours:
            count[0] += 1
            if count[0] == n_calls:
                sys.setprofile(None)
                raise KeyboardInterrupt

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield count
    finally:
        sys.setprofile(before)


def calls_of(function, *arguments):
    """How many functions of the package are called by a function."""
    with interrupted_at(None) as count:
        function(*arguments)
    return count[0]


class Life(RuleBasedStateMachine):
    """One estimator, and what it is known to answer since its last successful fit."""

    def __init__(self, estimator, folder):
        super().__init__()
        self.model = copy.deepcopy(estimator)
        self.path = folder / "model.npz"
        self.parameters = getattr(estimator, "get_params", dict)()
        self.X = None
        self.state = global_state()

    # Fits

    @initialize(X=good_samples)
    def begin(self, X):
        self.fit(X)

    @rule(X=good_samples)
    def fit(self, X):
        self.given = X
        self.X = X.copy()
        assert_(self.model.fit(X) is self.model, "fit returns something else")
        self.remember()

    def remember(self):
        step = 0.01 * np.ptp(self.X, axis=0)
        self.probes = np.concatenate([self.X[:9], self.X[:9] + step, self.X[:3] + 50 * step])
        self.answers = self.model.score_samples(self.probes)
        self.draws = self.draw(0)

    def draw(self, number):
        if not getattr(self.model, "is_normalized", True):
            return np.empty(0)
        return self.model.sample(5, random_state=number)

    @rule(case=st.sampled_from(BAD_SAMPLES))
    def fit_bad_samples(self, case):
        samples, error = case
        with self.nothing_learned(), pytest.raises(error):
            self.model.fit(samples)

    @precondition(lambda self: any(name in self.parameters for name in BAD_PARAMETERS))
    @rule(data=st.data(), X=good_samples)
    def fit_with_a_bad_parameter(self, data, X):
        name = data.draw(st.sampled_from(sorted(BAD_PARAMETERS.keys() & self.parameters.keys())))
        self.model.set_params(**{name: BAD_PARAMETERS[name]})
        with self.nothing_learned(), pytest.raises((ValueError, TypeError)):
            self.model.fit(X)
        self.model.set_params(**{name: self.parameters[name]})

    @rule(X=good_samples, share=st.floats(0, 1))
    def interrupted_fit(self, X, share):
        n_calls = calls_of(copy.deepcopy(self.model).fit, X)
        with (
            self.nothing_learned(),
            pytest.raises(KeyboardInterrupt),
            interrupted_at(1 + int(share * (n_calls - 1))),
        ):
            self.model.fit(X)

    @contextmanager
    def nothing_learned(self):
        """Every attribute stays the very object that it was."""
        before = dict(vars(self.model))
        yield
        after = vars(self.model)
        assert_(after.keys() == before.keys(), "attributes came or went")
        assert_(all(after[name] is before[name] for name in before), "an attribute changed")

    # Questions, which change nothing

    @rule(number=seeds)
    def draws_are_reproducible(self, number):
        assert_array_equal(self.draw(number), self.draw(number))

    @rule(share=st.floats(0, 1))
    def interrupted_query(self, share):
        fresh = pickle.loads(pickle.dumps(self.model))
        n_calls = calls_of(copy.deepcopy(fresh).score_samples, self.probes)
        with pytest.raises(KeyboardInterrupt), interrupted_at(1 + int(share * (n_calls - 1))):
            fresh.score_samples(self.probes)
        self.model = fresh

    @rule()
    def bad_queries(self):
        wrong = np.zeros((2, self.X.shape[1] + 1))
        for queries in (wrong, self.probes * np.nan, self.probes[0]):
            with pytest.raises(ValueError, match=r"."):
                self.model.score_samples(queries)

    @rule()
    def the_samples_change(self):
        self.given[:] = 7.0

    # Copies, which answer the same

    @rule()
    def save_and_load(self):
        sevenhills.save(self.model, self.path)
        self.model = sevenhills.load(self.path)

    @rule()
    def pickle(self):
        self.model = pickle.loads(pickle.dumps(self.model))

    @rule()
    def deep_copy(self):
        self.model = copy.deepcopy(self.model)

    @precondition(lambda self: self.parameters)
    @rule()
    def clone_and_fit(self):
        self.model = clone(self.model).fit(self.X)

    @rule()
    def fit_again(self):
        self.model.fit(self.X)

    @precondition(lambda self: "n_jobs" in self.parameters)
    @rule(n_jobs=st.sampled_from([None, 1, 2]))
    def set_n_jobs(self, n_jobs):
        self.model.set_params(n_jobs=n_jobs)

    @precondition(lambda self: "min_std" in self.parameters)
    @rule(min_std=st.sampled_from([0.1, 3.0]))
    def set_a_parameter_without_a_fit(self, min_std):
        """It is for the next fit; then back, so that the fits of this machine stay comparable."""
        self.model.set_params(min_std=min_std)
        assert_array_equal(self.model.score_samples(self.probes), self.answers)
        self.model.set_params(min_std=self.parameters["min_std"])

    # What always holds

    @invariant()
    def answers_are_those_of_the_last_fit(self):
        if self.X is None:
            return
        assert_array_equal(self.model.score_samples(self.probes), self.answers)
        assert_array_equal(self.draw(0), self.draws)

    @invariant()
    def global_generators_are_untouched(self):
        assert_(global_state() == self.state, "a global generator was used")


LIVES = [*REGISTERED, ROME(density="knn"), compat.ROME()]


def live(estimator, folder, n_examples, n_steps):
    run_state_machine_as_test(
        lambda: Life(estimator, folder),
        settings=settings(max_examples=n_examples, stateful_step_count=n_steps),
    )


@for_each(LIVES)
def test_life(estimator, tmp_path):
    live(estimator, tmp_path, 20 if type(estimator) is ROME else 6, n_steps=12)


@pytest.mark.slow
@for_each(LIVES)
def test_long_lives(estimator, tmp_path):
    live(estimator, tmp_path, 200 if type(estimator) is ROME else 80, n_steps=40)


def test_the_interrupt_is_not_lost():
    """It reaches the caller from wherever it happens, and a fit after it succeeds."""
    X = np.random.RandomState(0).standard_normal((20, 2))
    most = calls_of(ROME().fit, X)
    assert_(most > 30, "too few calls to be interrupted")
    for n_calls in range(1, most + 1):
        model = ROME()
        with pytest.raises(KeyboardInterrupt), interrupted_at(n_calls):
            model.fit(X)
        assert_(not hasattr(model, "density_"), "half a fit")
        assert_(np.isfinite(model.fit(X).score(X)), "no fit after an interrupt")

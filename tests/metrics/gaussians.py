"""Densities that have only the methods which metrics use."""

import numpy as np


class Gaussian:
    """A round Gaussian that knows nothing but what the metrics ask for."""

    def __init__(self, mean=(0.0, 0.0), scale=1.0):
        self.mean, self.scale = np.asarray(mean, dtype=float), scale

    def score_samples(self, X):
        steps = (X - self.mean) / self.scale
        constant = len(self.mean) * (0.5 * np.log(2 * np.pi) + np.log(self.scale))
        return -0.5 * (steps**2).sum(axis=1) - constant

    def sample(self, n_samples, random_state):
        return self.mean + self.scale * random_state.standard_normal((n_samples, len(self.mean)))


class TwoBlobs(Gaussian):
    def sample(self, n_samples, random_state):
        side = np.where(random_state.uniform(size=(n_samples, 1)) < 0.5, -4.0, 4.0)
        return super().sample(n_samples, random_state) + side * np.array([1.0, 0.0])


class Answer:
    """A density that answers with what it was given."""

    def __init__(self, answer, **attributes):
        self.answer = np.asarray(answer, dtype=float)
        vars(self).update(attributes)

    def logpdf(self, X):
        return self.answer


def draws(density, n, seed):
    return density.sample(n, random_state=np.random.RandomState(seed))


def error_over_spread(estimates):
    """The standard error that was claimed, over the one that repetitions show."""
    claimed = np.sqrt(np.mean([e.std_error**2 for e in estimates]))
    return claimed / np.std(estimates, ddof=1)


STANDARD = Gaussian()
X, Y = draws(STANDARD, 60, 0), draws(STANDARD, 50, 1)

"""Estimators that are as plain as can be, for tests of those that are built around others."""

import numpy as np
from scipy.stats import multivariate_normal
from sklearn.base import BaseEstimator


class Gaussian(BaseEstimator):
    """The mean and the covariance of the samples, as simply as can be."""

    def __init__(self, ddof=1):
        self.ddof = ddof

    def fit(self, X, y=None):
        covariance = np.cov(X.T, ddof=self.ddof)
        self.density_ = multivariate_normal(X.mean(axis=0), covariance)
        return self

    def score_samples(self, X):
        return self.density_.logpdf(X)

    def sample(self, n_samples, random_state=None):
        return self.density_.rvs(n_samples, random_state=random_state)


class Nowhere(BaseEstimator):
    """A density that is zero wherever it is asked for."""

    def fit(self, X, y=None):
        self.fitted_ = True
        return self

    def score_samples(self, X):
        return np.full(len(X), -np.inf)

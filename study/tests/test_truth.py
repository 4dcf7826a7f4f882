"""The density that the study took for the truth."""

import numpy as np
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal
from sklearn.datasets import make_blobs

from sevenhills import datasets
from study.runs import published_truth


def test_only_varied_was_published_with_another_truth():
    for name in datasets.names():
        distribution = datasets.load(name)
        assert (published_truth(distribution) is distribution.truth) == (name != "varied")
    varied = datasets.load("varied")
    centers = make_blobs(3, random_state=100, return_centers=True)[2]
    X = varied.split(0)[1]
    for truth, variances in (
        (varied.truth, (1, 6.25, 0.25)),
        (published_truth(varied), (1, 2.5, 0.5)),
    ):
        parts = [
            multivariate_normal(center, variance).pdf(X)
            for center, variance in zip(centers, variances, strict=True)
        ]
        assert_allclose(truth.pdf(X), np.mean(parts, axis=0), rtol=1e-9)

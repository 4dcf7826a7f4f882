"""Features and principal axes."""

import numpy as np
import pytest

from sevenhills import (
    ROME,
)
from sevenhills.report.coordinates import PrincipalAxes, features_to_show
from sevenhills.report.subject import make_subject


def test_of_many_features_those_that_tell_clusters_apart_are_shown():
    X = np.random.RandomState(0).normal(size=(60, 40))
    X[:30, 33] += 100
    subject = make_subject(ROME().fit(X), X, None)
    shown = features_to_show(subject, None)
    assert len(shown) == 24
    assert 33 in shown


def test_principal_axes_turn_samples():
    X = np.random.RandomState(0).normal(size=(200, 3)) @ np.diag([1.0, 5.0, 0.0])
    axes = PrincipalAxes.from_samples(X)
    assert axes.shares.sum() == pytest.approx(1)
    np.testing.assert_allclose(axes.axes @ axes.axes.T, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(X @ axes.matrix + axes.shift, axes.apply(X), atol=1e-12)
    far = np.concatenate([X, [[1e6, -1e6, 0.0]]])
    assert np.abs(PrincipalAxes.from_samples(far).scales - axes.scales).max() < 1

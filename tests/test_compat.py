from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError

from sevenhills.clustering import neighbors_for, order_by_reachability
from sevenhills.compat import ROME

GOLDEN = sorted((Path(__file__).parent / "golden").glob("*.npz"))


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_equals_romepy(path):
    golden = np.load(path)
    rome = ROME(min_std=float(golden["min_std"])).fit(golden["train"])
    assert_array_equal(rome.labels_, golden["labels"])
    found = rome.score_samples(golden["test"])
    assert_allclose(found, golden["log_density"], rtol=0, atol=1e-6)
    train = golden["train"]
    if "ordering" in golden and train.shape[1] < 16:  # above, romepy's distances are not exact
        ordering = order_by_reachability(train, neighbors_for(*train.shape, 5, 20, 400))
        assert_array_equal(ordering.order, golden["ordering"])
        assert_array_equal(ordering.predecessor, golden["predecessor"])
        assert_allclose(ordering.reachability, golden["reachability"], rtol=1e-12)
        assert_allclose(ordering.core_distances, golden["core_distances"], rtol=1e-12)


def test_golden_files_are_there():
    assert len(GOLDEN) == 6


def test_interface():
    X = np.random.RandomState(0).standard_normal((40, 2))
    rome = ROME()
    assert rome.min_std == 0.1
    assert not rome.fitted
    with pytest.raises(NotFittedError):
        rome.score_samples(X)
    with pytest.raises(NotFittedError):
        rome.sample()
    labels = np.arange(40) % 2
    assert rome.fit(X, clusters=labels) is rome
    assert rome.fitted
    assert_array_equal(rome.labels_, labels)
    assert rome.sample().shape == (1, 2)
    assert_array_equal(rome.sample(num_samples=4), rome.sample(num_samples=4, random_state=0))
    with pytest.raises(ValueError, match="NaN"):
        rome.fit(np.full((5, 2), np.nan))
    assert_array_equal(rome.labels_, labels)


def test_repeated_rows():
    X = np.repeat(np.random.RandomState(0).standard_normal((10, 24)), 5, axis=0)
    assert np.isfinite(ROME().fit(X).score_samples(X)).all()

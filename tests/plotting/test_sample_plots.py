"""Pictures of samples and paths."""

import numpy as np
import pandas as pd
import pytest

from sevenhills import datasets, plotting

pytestmark = pytest.mark.usefixtures("_no_place_is_searched_for_a_legend")


def test_trajectories(ax):
    X = datasets.load("trajectories").sample(20, random_state=0)
    plotting.plot_trajectories(X, np.arange(20) % 2, ax)
    assert sum(len(lines.get_segments()) for lines in ax.collections) == 20


@pytest.mark.parametrize("n_features", [1, 2, 4])
def test_samples_over_data_of_any_width(ax, n_features):
    X = np.random.RandomState(0).standard_normal((3000, n_features)).cumsum(axis=1)
    frame = pd.DataFrame(X, columns=[f"c{i}" for i in range(n_features)])
    assert plotting.plot_samples(frame, X[:500], ax) is ax
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["data", "samples"]
    assert ax.get_xlabel() == ("c0" if n_features < 3 else "x")
    if n_features > 2:
        assert [len(each.get_segments()) for each in ax.collections] == [2000, 100]

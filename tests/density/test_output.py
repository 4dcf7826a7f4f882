"""Results as data frames."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from sevenhills import DensityRegressor, GaussianKDE, datasets, plotting
from sevenhills.metrics import energy_test

X = np.column_stack([datasets.load("aniso").sample(80, random_state=0), np.arange(80) % 7])
NAMES = ["a_b", "$x_1$", "c d"]
FRAMES = {
    "pandas": pd.DataFrame(X, columns=NAMES, index=[f"row {i}" for i in range(80)]),
    "polars": pl.DataFrame(X, schema=NAMES),
}


@pytest.mark.parametrize("library", FRAMES)
def test_frames_in_frames_out(library):
    frame = FRAMES[library]
    kde, plain = GaussianKDE().fit(frame), GaussianKDE().fit(X)
    pairs = [
        (kde.modes().locations, plain.modes().locations, NAMES),
        (kde.sample(3, random_state=0), plain.sample(3, random_state=0), NAMES),
        (kde.impute(frame), X, NAMES),
        (kde.marginal(["c d"]).modes().locations, plain.marginal([2]).modes().locations, ["c d"]),
    ]
    rows = kde.conditional({"a_b": frame["a_b"]})
    expected = plain.conditional({0: X[:, 0]})
    pairs += [(rows.mean(), expected.mean(), NAMES[1:]), (rows.mode(), expected.mode(), NAMES[1:])]
    for found, values, names in pairs:
        assert type(found) is type(frame)
        assert list(found.columns) == names
        np.testing.assert_allclose(found.to_numpy(), values, rtol=1e-9, atol=1e-12)
        assert isinstance(values, np.ndarray)


def test_rows_keep_the_index_of_given_columns():
    frame = FRAMES["pandas"]
    found = GaussianKDE().fit(frame).conditional({"a_b": frame["a_b"], "c d": X[:, 2]})
    assert found.mean().index.equals(frame.index)
    assert found.mode().index.equals(frame.index)


def test_features_without_names_keep_their_numbers():
    kde = GaussianKDE().fit(X).set_output(transform="pandas")
    assert list(kde.conditional({0: 0.5}).mean().index) == ["x1", "x2"]
    assert list(kde.conditional({1: [0.5, 1.0]}).mean().columns) == ["x0", "x2"]
    assert list(kde.marginal([2, 0]).sample(1).columns) == ["x2", "x0"]
    assert list(kde.impute(FRAMES["pandas"]).columns) == NAMES


def test_the_display_lists_features_and_clusters():
    density = GaussianKDE().fit(FRAMES["pandas"]).density_
    other = density.affine(np.eye(3), [50.0, 0.0, 0.0])
    assert "Clusters" not in density._repr_html_()
    shown = type(density).merge([density, other], [0.25, 0.75])._repr_html_()
    for text in ("<img", "a_b", "in 2 clusters", "25.0%", "75.0%"):
        assert text in shown


@pytest.mark.parametrize("call", ["energy_test", "regressor", "plot_density", "plot_samples"])
@pytest.mark.parametrize("value", ["k.A.", "2020-01-01"])
def test_errors_of_cells_name_column_and_row(call, value):
    frame = FRAMES["pandas"].iloc[:, :2].astype(object)
    frame.iloc[3, 1] = value if value == "k.A." else pd.Timestamp(value)
    plain = FRAMES["pandas"].iloc[:, :2]
    calls = {
        "energy_test": lambda: energy_test(plain, frame),
        "regressor": lambda: DensityRegressor(GaussianKDE()).fit(plain, frame[r"$x_1$"]),
        "plot_density": lambda: plotting.plot_density(GaussianKDE().fit(plain), frame),
        "plot_samples": lambda: plotting.plot_samples(frame, plain),
    }
    place = (
        "'k.A.' in column .*x_1.*, row 3" if value == "k.A." else "dates or times in column .*x_1"
    )
    with pytest.raises((TypeError, ValueError), match=place):
        calls[call]()

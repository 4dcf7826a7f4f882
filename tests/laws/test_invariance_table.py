"""The table of invariances in docs/robustness.md: every cell is tested."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

import sevenhills
from sevenhills import DensityClassifier, DensityOutlierDetector, compat

PAGE = Path(__file__).parents[2] / "docs" / "robustness.md"
ROTATION = np.linalg.qr(np.random.RandomState(0).standard_normal((3, 3)))[0]

#: The linear map of every column of the table; the first one shuffles rows instead.
CHANGES = {
    "order of rows": None,
    "order of columns": np.eye(3)[[2, 0, 1]],
    "common unit, origin": 1000 * np.eye(3),
    "unit of one column": np.diag([1.0, 1e-3, 1.0]),
    "rotation": ROTATION,
    "any linear map": ROTATION @ np.diag([1.0, 30.0, 0.2]) @ ROTATION[::-1],
}


def hills():
    """Three clusters, and no noise for ROME."""
    rng = np.random.RandomState(1)
    shapes = np.array([[1.0, 0.5, 0.2], [0.0, 1.0, 0.3], [0.0, 0.0, 1.0]])
    centers = np.array([[0.0, 0, 0], [12, 0, 0], [0, 12, 3]])
    return (centers[:, None] + rng.uniform(-1, 1, size=(3, 40, 3)) @ shapes).reshape(-1, 3)


def noisy_hills():
    rng = np.random.RandomState(2)
    return np.concatenate([np.exp(hills() / 6), rng.uniform(-5, 15, size=(9, 3))])


def read_table():
    """Return the header and the rows of the table below its heading."""
    section = PAGE.read_text("utf-8").split("## Units, order and rotation")[1].split("\n## ")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    header, _, *body = [[cell.strip() for cell in row] for row in rows]
    return header[1:], {row[0].strip("`"): row[1:] for row in body}


HEADER, TABLE = read_table()
CELLS = [
    pytest.param(setting, change, cell, id=f"{setting}, {change}")
    for setting, row in TABLE.items()
    for change, cell in zip(HEADER, row, strict=True)
]


def make(setting):
    names = {"compat": compat, **{name: getattr(sevenhills, name) for name in sevenhills.__all__}}
    return eval(setting, names)  # the text of our own page


@cache
def log_densities(setting, samples):
    X = samples()
    return make(setting).fit(X).score_samples(X + 0.1)


def largest_change(setting, change, samples):
    """Return the largest change of log densities, besides that of the unit."""
    X, linear_map = samples(), CHANGES[change]
    if linear_map is None:
        rows = np.random.RandomState(3).permutation(len(X))
        found = make(setting).fit(X[rows]).score_samples(X + 0.1)
    else:
        model = make(setting).fit(X @ linear_map + 7)
        found = model.score_samples((X + 0.1) @ linear_map + 7)
        found += np.linalg.slogdet(linear_map)[1]
    return np.abs(found - log_densities(setting, samples)).max()


def test_the_table_is_that_of_the_page():
    assert list(CHANGES) == HEADER
    assert {"ROME()", "ROME(scale='auto')", "AutoROME()", "GaussianKDE()"} <= set(TABLE)


@pytest.mark.filterwarnings("ignore")  # ROME warns of columns with different spreads
@pytest.mark.parametrize(("setting", "change", "cell"), CELLS)
def test_every_cell(setting, change, cell):
    changes = [largest_change(setting, change, samples) for samples in (hills, noisy_hills)]
    assert cell in ("yes", "no", "without noise")
    if cell == "yes":
        assert max(changes) < 1e-6
    else:
        assert max(changes) > 0.01
    if cell == "without noise":
        assert changes[0] < 1e-6


@pytest.mark.whole
def test_the_unit_of_a_column_does_not_change_outliers_and_classes():
    X, units = hills(), np.array([1.0, 1e-3, 1.0])
    detector, classifier = DensityOutlierDetector(), DensityClassifier()
    first = clone(detector).fit(X).score_samples(X)
    second = clone(detector).fit(X * units).score_samples(X * units)
    assert_allclose(second - first, (second - first)[0], atol=1e-6)
    labels = np.repeat([0, 1], 60)
    first = clone(classifier).fit(X, labels).predict_proba(X)
    assert_allclose(classifier.fit(X * units, labels).predict_proba(X * units), first, atol=1e-6)

"""The report about a fit, without a browser."""

import re

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.neighbors import KernelDensity

from sevenhills import (
    ROME,
    AutoROME,
    DensityOutlierDetector,
    GaussianKDE,
    GaussianMixtureBIC,
    VineDensity,
    datasets,
)
from sevenhills.report import build_report, fit_report, held_out
from sevenhills.report import subject as subject_module
from sevenhills.report.outliers import find_outliers
from sevenhills.report.quality import measure_quality
from sevenhills.report.subject import make_subject

from .pages import EVIL, aniso, data_of, parsed, unpacked

ESTIMATORS = [
    (ROME(), []),
    (ROME(density="knn"), ["along pairs of features is not known", "does not integrate to one"]),
    (ROME(selection=None), ["There is no ordering"]),
    (AutoROME(), []),
    (
        VineDensity(),
        ["its modes are not known", "along single features is not known", "finds no clusters"],
    ),
    (GaussianMixtureBIC(max_components=3), ["GaussianMixtureBIC finds no clusters"]),
]


@pytest.mark.parametrize(("estimator", "missing"), ESTIMATORS, ids=str)
def test_every_estimator_has_a_page_and_says_what_it_lacks(estimator, missing):
    page = build_report(estimator, X=aniso(60))
    checker = parsed(page)
    assert [tag for tag, _ in checker.tags].count("section") == 9
    assert type(estimator).__name__ in page.title
    for tag, attributes in checker.tags:
        for name in ("src", "href"):
            assert attributes.get(name, "#").startswith(("#", "data:")), tag
    said = " ".join(checker.text)
    for each in missing:
        assert each in said
    if not missing:
        assert "is not known" not in said


def degenerate():
    rng = np.random.RandomState(0)
    two = rng.normal(size=(40, 2))
    slow = pytest.mark.slow
    cases = {
        "one feature": two[:, :1],
        "constant feature": np.column_stack([two, np.full(40, 7.0)]),
        "ties": np.repeat(rng.randint(0, 3, size=(15, 2)).astype(float), 4, axis=0),
        "five samples": two[:5],
        "four samples": two[:4],
        "far outlier": np.concatenate([two, [[1e9, 0.0]]]),
    }
    rare = {
        "large numbers": two + 1e9,
        "small numbers": two * 1e-200,
        "a line": two[:, :1] @ [[1.0, 2.0]],
        "more features than samples": rng.normal(size=(12, 30)),
    }
    yield from (pytest.param(X, id=name) for name, X in cases.items())
    yield from (pytest.param(X, id=name, marks=slow) for name, X in rare.items())


@pytest.mark.parametrize("X", list(degenerate()))
def test_degenerate_samples_have_a_page(X):
    page = build_report(ROME(), X=X)
    parsed(page)
    data_of(page)


def test_same_input_same_bytes():
    X = aniso(40)
    model = ROME().fit(X)
    assert build_report(model, X=X).html == build_report(ROME(), X=X.copy()).html


def test_names_are_escaped_everywhere():
    X = pd.DataFrame(aniso(60), columns=[EVIL, 'a & b "c" </script>'])
    page = build_report(ROME(), X=X, title=EVIL)
    checker = parsed(page)
    assert EVIL not in page.html
    assert page.html.count("<script") == 3
    assert EVIL in "".join(checker.text)
    assert data_of(page)["features"]["names"] == list(X.columns)


@pytest.mark.parametrize(
    ("given", "X", "error", "message"),
    [
        (ROME, None, TypeError, "got the class ROME"),
        (ROME(), None, ValueError, "X is missing: this ROME is not fitted"),
        (aniso(20), aniso(20), ValueError, "must be a model where X is given"),
        (ROME().fit(aniso(20)), aniso(19), ValueError, "the 20 samples .* got 19"),
        (GaussianKDE().fit(aniso(20)), np.ones((3, 5)), ValueError, "X has 5 features"),
        (ROME(density="knn").fit(aniso(20)), None, ValueError, "X is missing: a Neighbor"),
        (KernelDensity().fit(aniso(20)), aniso(20), TypeError, "of this package .*KernelDensity"),
    ],
    ids=range(7),
)
def test_bad_input_is_refused(given, X, error, message):
    with pytest.raises(error, match=message):
        build_report(given, X=X)


def test_ten_thousand_points_stay_below_five_megabytes():
    X = aniso(10_000)
    density = GaussianMixtureBIC(max_components=3).fit(X).density_
    assert len(build_report(density, X=X).html.encode()) < 3e6


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the scales of")
def test_ten_thousand_walks_stay_below_five_megabytes():
    X = datasets.load("trajectories").sample(10_000, random_state=0)
    assert len(build_report(ROME(min_std=0.1), X=X).html.encode()) < 5e6


def test_rows_and_notes_of_a_table():
    X = np.concatenate([aniso(60), [[60.0, 60.0]]])
    model = ROME().fit(X)
    rows = [*range(10, 70), f"{EVIL} & co"]
    made = build_report(model, X=X, rows=rows, notes=[f"left out {EVIL}"])
    said = " ".join(parsed(made).text)
    assert f"left out {EVIL}" in said
    assert f"{EVIL} & co" in said
    assert EVIL not in re.sub(r'<script type="application/json".*', "", made.html, flags=re.DOTALL)
    assert data_of(made)["row_names"] == [str(row) for row in rows]
    with pytest.raises(ValueError, match="rows must name the 61 samples"):
        build_report(model, X=X, rows=rows[1:])


def test_one_feature_has_no_pairs():
    made = build_report(ROME().fit(aniso(60)[:, :1]), X=aniso(60)[:, :1])
    assert not {"pair", "axes"} & set(parsed(made).ids)
    assert data_of(made)["features"]["draws"]["rest"]["shape"] == [1, 60]


@pytest.mark.parametrize("n_samples", [120, 400])
def test_outliers_are_those_of_the_detector(n_samples):
    X = np.concatenate([aniso(n_samples), aniso(n_samples)[:10], [[9.0, 9.0], [-9.0, 9.0]]])
    subject = make_subject(ROME().fit(X), X, None)
    found = find_outliers(subject, measure_quality(subject, 0), 0)
    detector = DensityOutlierDetector(ROME()).fit(X)
    expected = np.flatnonzero(detector.predict(X) < 0)
    assert found.count == len(expected)
    assert set(found.rows) == set(expected)
    assert_allclose(found.p_values, detector.p_value(X)[found.rows])
    assert_allclose(found.log_densities, detector.training_scores_[found.rows])
    assert (found.p_values <= found.rate).all()
    assert found.rate == detector.rate_


def test_many_samples_are_halved_and_all_of_them_scored(monkeypatch):
    monkeypatch.setattr(held_out, "_MAX_IN_FOLDS", 100)
    monkeypatch.setattr(held_out, "_MAX_TRAIN", 60)
    X = aniso(400)
    subject = make_subject(ROME().fit(X), X, None)
    quality = measure_quality(subject, 0)
    assert [len(fold.train) for fold in quality.folds] == [60, 60]
    assert np.isfinite(quality.of_model.log_densities).all()
    assert not set(quality.folds[0].train) & set(quality.folds[0].test)
    found = find_outliers(subject, quality, 0)
    assert found.count == 4
    assert (found.p_values <= 0.01).all()
    assert "each half was scored by a fit to 60 of the other" in found.rule


def test_of_many_rows_a_sample_is_fitted_and_the_page_says_so(monkeypatch):
    monkeypatch.setattr(subject_module, "_MAX_FITTED", 100)
    X = pd.DataFrame(aniso(150), columns=["east", "north"])
    page = build_report(ROME(), X=X)
    assert page.title == "ROME of 100 of 150 samples"
    assert "100 rows, drawn at random from 150, of 2 columns" in page.verdict[0]
    assert "a fit to all rows" in page.verdict[-1]
    names = [int(name) for name in data_of(page)["row_names"]]
    points = unpacked(data_of(page)["features"]["points"]["rest"])
    medians = data_of(page)["features"]["points"]["medians"]
    assert_allclose(points.T + medians, X.iloc[names], atol=1e-5)
    fitted = build_report(ROME().fit(X), X=X)  # which has seen all rows
    assert "in 150 rows of 2 columns" in fitted.verdict[0]


def test_samples_alone_are_fitted_by_the_default():
    assert make_subject(aniso(40), None, None).kind == "AutoROME"
    assert make_subject(np.tile(aniso(60), (1, 500)), None, None).kind == "ROME"


def test_modes_of_many_kernels_are_not_searched(monkeypatch):
    monkeypatch.setattr(fit_report, "_MAX_KERNELS", 10)
    said = " ".join(parsed(build_report(ROME().fit(aniso(40)), X=aniso(40))).text)
    assert "Modes are not searched among more than 10 kernels." in said

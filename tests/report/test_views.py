"""The data of plots, along features and principal axes."""

import numpy as np
import pytest

from sevenhills import ROME, AutoROME
from sevenhills.report import build_report
from sevenhills.report.subject import make_subject
from sevenhills.report.views import (
    DEPTH,
    axis_view,
    features_to_show,
    first_pair,
    ordering_data,
    pack,
    pack_heights,
    pack_rows,
    principal_axes,
)

from .pages import aniso, data_of, unpacked


def test_of_many_features_those_that_separate_clusters_are_shown():
    X = np.random.RandomState(0).normal(size=(60, 40))
    X[:30, 33] += 100
    subject = make_subject(ROME().fit(X), X, None)
    shown = features_to_show(subject)
    assert len(shown) == 24
    assert 33 in shown


def test_the_first_two_features_separate_clusters_and_are_not_correlated():
    rng = np.random.RandomState(0)
    X = np.column_stack([np.full(60, 7.0), rng.normal(size=(60, 3))])
    X[:30, 1] += 100
    X[15:45, 3] += 40
    X[:, 2] = 2 * X[:, 1] + 0.01 * X[:, 2]
    labels = np.repeat([0, 1, 2, 3], 15)
    subject = make_subject(ROME().fit(X, labels=labels), X, None)
    first = first_pair(subject, [0, 1, 2, 3])
    assert 3 in first
    assert first != [0, 3]


def test_principal_axes_turn_samples():
    X = np.random.RandomState(0).normal(size=(200, 3)) @ np.diag([1.0, 5.0, 0.0])
    axes, shares, _, matrix = principal_axes(X)
    assert shares.sum() == pytest.approx(1)
    np.testing.assert_allclose(axes @ axes.T, np.eye(3), atol=1e-12)
    far = np.concatenate([X, [[1e6, -1e6, 0.0]]])
    np.testing.assert_allclose(principal_axes(far)[-1], matrix, atol=0.5)


def test_the_density_along_axes_is_that_of_the_turned_samples():
    X = aniso(60)
    model = ROME().fit(X)
    view = axis_view(make_subject(model, X, None), X)
    log_det = np.linalg.slogdet(principal_axes(X)[-1])[1]
    turned = view.density.logpdf(view.project(X))
    np.testing.assert_allclose(turned, model.score_samples(X) - log_det, rtol=1e-9)


def test_arrays_survive_packing():
    rng = np.random.RandomState(0)
    rows = rng.normal(size=(3, 50)) + np.array([[0.0], [1e12], [-1e6]])
    packed = pack_rows(rows)
    back = unpacked(packed["rest"]) + np.array(packed["medians"])[:, None]
    np.testing.assert_allclose(back - rows, 0, atol=1e-3)
    heights = rng.normal(size=(5, 4)) * 3
    steps = (unpacked(pack_heights(heights)) / 65535 - 1) * DEPTH
    np.testing.assert_allclose(
        steps, np.maximum(heights - heights.max(), -DEPTH), atol=DEPTH / 65535
    )
    np.testing.assert_array_equal(unpacked(pack(np.arange(4), "i4")), np.arange(4))
    assert pack_rows(np.empty((2, 0)))["rest"]["shape"] == [2, 0]


def test_cuts_are_the_candidates():
    X = aniso(300)
    model = ROME().fit(X)
    rows = np.array([7, 3, 250])
    ordering = ordering_data(make_subject(model, X, None), rows)
    ranking = model.candidates_.ranking()
    assert len(ordering["cuts"]) == len(ranking)
    for cut, index in zip(ordering["cuts"], ranking, strict=True):
        ends, labels = unpacked(cut["runs"])
        by_place = np.repeat(labels, np.diff(ends, prepend=0))
        expected = model.candidates_.labels(int(index))
        np.testing.assert_array_equal(by_place, expected[model.ordering_.order])
    places = unpacked(ordering["positions"])
    np.testing.assert_array_equal(model.ordering_.order[places], rows)
    heights = model.ordering_.reachability[model.ordering_.order][1:]
    np.testing.assert_allclose(unpacked(ordering["heights"])[1:], heights, rtol=1e-6)


def test_joined_clusters_stand_before_the_candidates():
    X = np.random.RandomState(0).normal(size=(60, 2))
    X[:6] += 12
    model = AutoROME().fit(X)
    cuts = ordering_data(make_subject(model, X, None), np.arange(60))["cuts"]
    ends, labels = unpacked(cuts[0]["runs"])
    by_place = np.repeat(labels, np.diff(ends, prepend=0))
    np.testing.assert_array_equal(by_place, model.labels_[model.ordering_.order])
    assert (model.labels_ != model.candidates_.labels()).any()
    assert [cut["place"] for cut in cuts[:2]] == [0, 1]


def test_curves_and_levels_are_those_of_the_density():
    X = aniso(200)
    model = ROME().fit(X)
    view = data_of(build_report(model))["features"]
    line = view["lines"][1]
    x = unpacked(line["x"]["rest"])[0] + line["x"]["medians"][0]
    marginal = model.marginal(1)
    np.testing.assert_allclose(unpacked(line["y"]), marginal.pdf(x[:, None]), rtol=1e-3, atol=1e-6)
    parts = sum(unpacked(part["y"]) for part in line["parts"])
    np.testing.assert_allclose(parts, unpacked(line["y"]), rtol=1e-4)
    x, y = (unpacked(g["rest"])[0] + g["medians"][0] for g in view["pairs"]["grids"])
    nodes = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    levels = np.array(view["pairs"]["levels"]["0,1"]) + model.score_samples(nodes).max()
    expected = [float(model.hdr_level(mass)) for mass in (0.5, 0.8, 0.95)]
    np.testing.assert_allclose(levels, expected, atol=0.15)


def test_a_narrow_hill_is_not_lost_between_grid_lines():
    rng = np.random.RandomState(0)
    X = np.concatenate([rng.normal(size=(100, 2)), 1e4 + rng.normal(size=(100, 2))])
    view = data_of(build_report(ROME().fit(X)))["features"]["pairs"]
    heights = unpacked(view["heights"]["0,1"])
    assert (heights > 60_000).sum() > 20


def _winds(kind):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(0, 20, 120) % 360, rng.exponential(2.0, 120)])
    return ROME(support={0: ("circular", 360), 1: (0, None, kind)}).fit(X), X


def test_views_of_mapped_densities_stay_inside_the_support():
    model, X = _winds("mirror")
    data = data_of(build_report(model, X=X))["features"]
    (first, last), (low, _) = data["ranges"]
    assert last - first == 360.0
    assert low == 0.0
    assert set(data["ticks"][0]["ticktext"]) == {f"{value:g}" for value in range(0, 360, 30)}
    assert data["ticks"][1] == {}
    line = unpacked(data["lines"][0]["y"])
    assert line[0] == pytest.approx(line[-1])
    for each in data["lines"]:
        assert np.isfinite(unpacked(each["y"])).all()


def test_axes_of_mapped_densities_are_those_of_latent_coordinates():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.lognormal(size=80), rng.normal(size=80)])
    model = ROME(support={0: (0, None, "log")}).fit(X)
    view = axis_view(make_subject(model, X, None), X)
    drawn = view.project(model.sample(2000, random_state=0))
    found = view.density.marginal([0]).cdf(np.sort(drawn[:, 0]))
    assert np.abs(found - np.linspace(0, 1, 2000)).max() < 1.8 / np.sqrt(2000)
    assert axis_view(make_subject(*_winds("log"), None), X).density is None


def test_the_report_names_maps_and_bounds():
    model, X = _winds("mirror")
    page = build_report(model, X=X, feature_names=["heading", "speed"]).html
    assert "Maps of features" in page
    assert "circle" in page
    assert "Maps of features" not in build_report(ROME().fit(X), X=X).html


def test_features_of_few_values_are_not_shown_first():
    rng = np.random.RandomState(0)
    labels = np.repeat([0, 1, 2], 40)
    X = np.column_stack([labels, 3 * labels + rng.normal(size=120), rng.normal(size=120)])
    subject = make_subject(ROME().fit(X, labels=labels), X, None, None)
    assert list(subject.few_values) == [0]
    assert first_pair(subject, [0, 1, 2]) == [1, 2]
    assert first_pair(subject, [0, 1]) == [0, 1]

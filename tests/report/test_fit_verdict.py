"""Sentences of the verdict on a fit, one for every branch."""

from math import inf, nan

import numpy as np
import pytest

from sevenhills import ROME, AutoROME, GaussianMixtureBIC
from sevenhills.estimate import Estimate
from sevenhills.report import build_report
from sevenhills.report.fit_verdict import (
    clusters_within,
    describe_fit,
    describe_found,
    describe_groups,
    describe_left_out,
    describe_means,
    describe_outliers,
    describe_regions,
    describe_split,
    describe_steps,
    group_step,
    rome_steps,
    support_steps,
    tells_apart,
)

from .pages import aniso, parsed


@pytest.mark.parametrize(
    ("n_clusters", "shares", "n_modes", "said"),
    [
        (None, [], None, "A is one density of 9 rows, without clusters."),
        (0, [], None, "A found no clusters in 9 rows."),
        (1, [1.0], 1, "A found one cluster in 9 rows; the density has 1 mode."),
        (2, [0.97, 0.034], None, "A found 2 clusters in 9 rows (97% and 3.4%)."),
        (2, [], None, "A found 2 clusters in 9 rows."),
        (5, [0.2] * 4 + [0.1], 2, "5 clusters in 9 rows (20% to 10%); the density has 2 modes."),
    ],
)
def test_clusters_and_modes(n_clusters, shares, n_modes, said):
    assert describe_found("A", "9 rows", n_clusters, shares, n_modes).endswith(said)


def test_features_of_few_values_are_no_clusters_of_measurements():
    assert "are the values of year and sex, columns of few" in describe_split(["year", "sex"], 6, 1)
    assert "rows of equal values have at most 2 of the 6." in describe_split(["year"], 6, 2)
    assert describe_groups({}) == ""
    assert describe_groups({"a": 2, "b": 3}).startswith("a (2 values) and b (3 values) group rows")


def test_features_that_tell_clusters_apart_are_found():
    years, labels = np.repeat([2007.0, 2008.0, 2009.0], 20), np.repeat([0, 1, 2], 20)
    assert tells_apart(years, labels)
    assert not tells_apart(years, np.tile([0, 1], 30))
    assert not tells_apart(years, np.zeros(60, dtype=int))
    rare = np.where(np.arange(60) < 2, 1.0, 0.0)  # nearly constant in any cluster
    assert not tells_apart(rare, labels)
    assert clusters_within(years[:, None], labels) == 1
    assert clusters_within(years[:, None], np.tile([0, 1], 30)) == 2


def test_means_of_clusters():
    assert describe_means({}) == "No single column tells the clusters apart."
    assert describe_means({"a": [-1, 0, 1, 2, 12345]}).endswith("a (means from -1 to 12,300).")


@pytest.mark.parametrize(
    ("difference", "opening", "said"),
    [
        (Estimate(0.3, 0.1, 50), "A good fit", "better than a KDE by 0.30 ± 0.10 nats per row."),
        (Estimate(-0.1, 0.1, 50), "No better", "apart from a KDE (\N{MINUS SIGN}0.10 ± 0.10)."),
        (Estimate(0.0, 0.0, 50), "No better", "cannot be told apart from a KDE (0 ± 0)."),
        (Estimate(-0.3, 0.1, 50), "Not the best", "worse than a KDE by 0.30 ± 0.10 nats per row."),
        (Estimate(inf, nan, 50), "A good fit", "better than a KDE by infinitely many"),
        (Estimate(-inf, nan, 50), "Not the best", "worse than a KDE by infinitely many"),
        (Estimate(nan, nan, 50), "The fit could not be compared", ""),
    ],
)
def test_the_fit_beside_another(difference, opening, said):
    text = describe_fit("ROME", {"a KDE": difference})
    assert text.startswith(opening)
    assert said in text


def test_the_fit_beside_several():
    differences = {"a": Estimate(1.0, 0.1, 9), "b": Estimate(0, 0.1, 9), "c": Estimate(-1, 0.1, 9)}
    text = describe_fit("ROME", differences, ["year"])
    assert text.startswith("Not the best fit: on 9 held-out rows (without year), ROME is better")
    assert "; it cannot be told apart from b" in text
    assert "; it is worse than c" in text


@pytest.mark.parametrize(
    ("share", "said"), [(0.91, "hold what they"), (0.8, "smaller than"), (0.99, "larger than")]
)
def test_regions(share, said):
    assert said in describe_regions(Estimate(share, 0.01))
    assert describe_regions(None) == ""


def test_outliers_in_words():
    assert describe_outliers(None, None, 9, None) == ""
    assert describe_outliers(1, None, 9, None) == "1 of 9 rows is listed as an outlier."
    assert "None stands out" in describe_outliers(20, 0.01, 2000, (2, 1.0))
    assert "1 row is less likely than every" in describe_outliers(2, 0.01, 200, (1, 0.05))


def test_what_was_left_out():
    assert describe_left_out({}) == ""
    many = describe_left_out({f"c{i}": "words" for i in range(10)})
    assert "c7 and 2 more (words)" in many


def test_steps():
    assert describe_steps([]) == ""
    assert describe_steps(["a", "b"]) == "Try a; b."
    assert [len(rome_steps(each)) for each in (False, True)] == [1, 2]
    assert support_steps([]) == []
    assert "--support 'a b=0:'" in support_steps(["a b"])[0]
    assert "d and others cannot be negative" in support_steps(list("abcdefg"))[0]
    assert group_step(["year", "sex"]) == "a density for each value of year or sex (--by year)"


def with_years(n):
    rng = np.random.RandomState(0)
    years = rng.choice([2007.0, 2008.0, 2009.0], n)
    return np.column_stack([2 * rng.normal(size=(n, 2)), 6 * years])


def test_years_do_not_pass_for_clusters():
    X, names = with_years(150), ["a", "b", "year"]
    page = build_report(ROME(), X=X, feature_names=names)
    found, fit, *_, steps = page.verdict
    assert "ROME found 3 clusters in 150 rows of 3 columns" in found
    assert "are the values of year, a column of few values, and no clusters" in found
    assert "150 held-out rows (without year)" in fit
    assert steps == "Try a density for each value of year (--by year)."
    page = build_report(AutoROME(), X=X, feature_names=names)
    auto = page.verdict[0]
    assert "AutoROME found one cluster in 150 rows of 3 columns; the density has 1 mode." in auto
    assert "year (3 values) groups rows and is no part of the clusters." in auto
    said = [text for text in parsed(page).text if text.strip()]
    assert said[said.index("mode") - 1] == "1"
    assert "Modes of the density, by year" in said


def test_the_page_begins_with_its_verdict():
    X = aniso(200)
    page = build_report(ROME(), X=X, left_out={"name": "words"})
    said = [text for text in parsed(page).text if text.strip()]
    assert said.index(page.verdict[0]) < said.index("samples")
    assert page.verdict[0].startswith("ROME found 3 clusters in 200 rows of 2 columns")
    assert "The clusters differ most in feature" in page.verdict[0]
    assert page.verdict[1].startswith("Not the best fit: on 200 held-out rows, ROME is better than")
    assert "worse than a Gaussian mixture by" in page.verdict[1]  # of which these samples are
    assert "Left out: name (words)." in page.verdict
    assert "Try AutoROME (--estimator auto)" in page.verdict[-1]


def test_without_samples_the_verdict_says_how_to_get_one():
    page = build_report(GaussianMixtureBIC(max_components=3).fit(aniso(60)).density_)
    found, fit, steps = page.verdict
    assert found.startswith("KernelMixture is one density of 2 columns, without clusters")
    assert "samples were not given" in fit
    assert "--data" in steps

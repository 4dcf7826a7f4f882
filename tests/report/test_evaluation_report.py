"""The page of forecasters that were evaluated."""

import re
import sys
from dataclasses import replace

import numpy as np
import pytest

from sevenhills.datasets import make_walks
from sevenhills.forecast import Mixtures, evaluate, rank
from sevenhills.report import forecast_report
from sevenhills.report.forecast_verdicts import (
    calibration,
    chance_error,
    effective_truths,
    verdicts,
)

from .pages import EVIL, data_of, parsed, unpacked


@pytest.fixture(scope="module")
def walks():
    return make_walks(40, random_state=0)


@pytest.fixture(scope="module")
def samples(walks):
    return {name: law.draw(20, 1) for name, law in walks.law.predictors().items()}


@pytest.fixture(scope="module")
def ranking(walks, samples):
    return rank(samples, walks.truth, measures=("nll", "nll_step", "ece", "ade"))


@pytest.fixture(scope="module")
def page(walks, samples, ranking):
    return forecast_report(ranking, samples, walks.truth)


class TestPage:
    def test_one_file_that_loads_nothing(self, page, ranking):
        found = parsed(page)
        assert [tag for tag, _ in found.tags].count("section") == 6
        links = [attrs[k] for _, attrs in found.tags for k in ("src", "href") if k in attrs]
        assert all(each.startswith(("#", "data:,")) for each in links)
        assert not re.search(r"url\((?!#)|@import", page.html.split("<script")[0])
        text = " ".join(found.text)
        for sentence in verdicts(ranking):
            assert sentence in text

    def test_tables_have_a_row_for_every_forecaster(self, page, samples):
        for name in samples:
            assert page.html.count(f"</span>{name}</th>") == 2  # ranking and calibration
        assert '<th scope="row">ade</th>' in page.html
        assert page.html.count("<strong>") == 4  # the best in every measure

    def test_pictures_show_the_forecasts(self, page, walks, samples, ranking):
        data = data_of(page)
        names = list(ranking.evaluations)
        assert data["scores"]["names"] == names
        low, middle, high = data["scores"]["limits"][1]
        assert low < middle < high
        assert middle == ranking.summary[1].difference
        assert [each["name"] for each in data["quality"]["curves"]] == names
        scene = data["scenes"][1]
        assert scene["title"].startswith("lowest nll of oracle: scene ")
        i = int(scene["title"].rpartition(" ")[2])
        assert i == ranking.evaluations["oracle"].scenes["nll"].argmin()
        origin = np.array(scene["truth"]["medians"])
        truth = unpacked(scene["truth"]["rest"]).T + origin
        np.testing.assert_allclose(truth[:-1], walks.truth[i], rtol=1e-6)
        paths = unpacked(scene["samples"][1]["rest"]).T + scene["samples"][1]["medians"]
        paths = paths.reshape(20, 13, 2)
        assert np.isnan(paths[:, -1]).all()
        np.testing.assert_allclose(paths[:, :-1], samples[names[1]][i], rtol=1e-5)

    def test_the_same_page_every_time(self, page, walks, samples, ranking):
        assert forecast_report(ranking, samples, walks.truth) == page

    def test_names_are_escaped(self, walks, samples, ranking):
        evaluation = replace(ranking.evaluations["oracle"], names=np.full(40, EVIL))
        named = rank({EVIL: evaluation})
        page = forecast_report(named, {EVIL: samples["oracle"]}, walks.truth, title="<b> & co")
        assert "<script>alert" not in page.html
        assert "<h1>&lt;b&gt; &amp; co</h1>" in page.html
        assert data_of(page)["scenes"][0]["title"].endswith(f"scene {EVIL}")

    def test_one_forecaster_is_a_list_of_one(self, walks, samples, ranking):
        evaluation = ranking.evaluations["oracle"]
        page = forecast_report(evaluation, samples["oracle"], walks.truth)
        named = rank({"forecast": evaluation})
        assert forecast_report(named, {"forecast": samples["oracle"]}, walks.truth) == page
        assert "p-value" not in page.html
        assert 'data-view="differences"' not in page.html
        assert len(data_of(page)["scenes"]) == 3

    def test_distances_alone(self, walks, samples):
        evaluation = evaluate(samples["oracle"], walks.truth, measures="ade", lower_bound=-20)
        page = forecast_report(evaluation)
        assert "quality" not in data_of(page)
        assert 'id="calibration"' not in page.html
        assert 'id="scenes"' not in page.html
        assert "Log densities of steps below -20" in page.html

    def test_calibration_alone(self, walks, samples):
        evaluation = evaluate(samples["oracle"], walks.truth, measures="ece")
        page = forecast_report(evaluation, samples["oracle"], walks.truth)
        assert data_of(page)["scenes"] == []
        assert 'id="scores"' not in page.html

    def test_agents_padding_and_absent_samples(self):
        rng = np.random.RandomState(0)
        predictions = rng.standard_normal((9, 8, 2, 3, 2))
        truth = rng.standard_normal((9, 2, 3, 2))
        predictions[:, :, 1, 2:], truth[:, 1, 2:] = np.nan, np.nan
        predictions[0, 1:] = np.nan
        evaluation = evaluate(predictions, truth, agents=True, measures=("nll_step", "ade"))
        page = forecast_report(evaluation, predictions, truth, agents=True)
        assert len(data_of(page)["scenes"]) == 3

    def test_mixtures_and_groups(self):
        rng = np.random.RandomState(0)
        truth, means = rng.standard_normal((30, 3, 2)), rng.standard_normal((30, 4, 3, 2))
        mixtures = Mixtures(np.ones((30, 4)), means, np.eye(6)[None, None])
        ranking = rank({"m": mixtures}, truth, measures="nll", groups=np.arange(30) // 3)
        page = forecast_report(ranking, {"m": mixtures}, truth)
        assert len(data_of(page)["scenes"]) == 3
        assert "<b>10</b> <span>groups of scenes</span>" in page.html
        assert "<b>4</b> <span>components</span>" in page.html

    def test_other_than_two_coordinates_are_not_drawn(self):
        rng = np.random.RandomState(0)
        predictions, truth = rng.standard_normal((9, 20, 3, 1)), rng.standard_normal((9, 3, 1))
        evaluation = evaluate(predictions, truth, measures=("nll_step",))
        assert data_of(forecast_report(evaluation, predictions, truth))["scenes"] == []

    def test_predictions_of_all_forecasters_are_needed(self, walks, samples, ranking):
        with pytest.raises(TypeError, match="predictions must be a mapping"):
            forecast_report(ranking, samples["oracle"], walks.truth)
        with pytest.raises(ValueError, match="predictions lack the forecasters"):
            forecast_report(ranking, {"oracle": samples["oracle"]}, walks.truth)

    def test_without_plotly_the_error_names_the_extra(self, ranking, monkeypatch):
        from sevenhills.report import page

        page._packed_plotly.cache_clear()
        monkeypatch.setitem(sys.modules, "plotly.offline", None)
        with pytest.raises(ImportError, match=r"pip install 'sevenhills\[report\]'"):
            forecast_report(ranking)


class TestVerdicts:
    def test_who_is_best_and_who_is_too_narrow(self, ranking):
        said = verdicts(ranking)
        assert said[0].startswith("oracle is best: its nll is -")
        found = {name: calibration(each) for name, each in ranking.evaluations.items()}
        assert found == {
            "oracle": "right",
            "over-confident": "narrow",
            "under-confident": "wide",
            "biased": "narrow",
        }
        text = " ".join(said)
        names = "over-confident and biased|biased and over-confident"
        assert re.search(f"({names}) are over-confident", text)
        assert "under-confident is under-confident" in text

    def test_equal_forecasters(self, walks, ranking):
        again = evaluate(walks.law.draw(20, 2), walks.truth, measures=("nll", "ece"))
        pair = rank({"one": ranking.evaluations["oracle"], "other": again})
        said = verdicts(pair)
        assert "is first, but not for certain" in said[0]
        assert "cannot be told apart by these 40 scenes" in said[1]

    def test_scenes_that_are_the_same_count_once(self, walks, samples):
        """The error that is expected by chance is that of the groups."""
        options = {"measures": "ece", "n_replicates": 400}
        once = evaluate(samples["biased"], walks.truth, **options)
        again = [np.repeat(each, 5, axis=0) for each in (samples["biased"], walks.truth)]
        repeated = evaluate(*again, groups=np.repeat(np.arange(40), 5), **options)
        assert effective_truths(once) == 40
        assert 30 < effective_truths(repeated) < 60
        assert chance_error(repeated) == pytest.approx(chance_error(once), rel=0.15)

    def test_degenerate_samples(self, walks, samples):
        found = rank(samples, walks.truth, measures="nll")
        assert "Degenerate" not in " ".join(verdicts(found))  # 20 samples of 24 values are usual
        still = {name: each.copy() for name, each in samples.items()}
        for each in still.values():
            each[:2] = each[:2, :1]
        said = verdicts(rank(still, walks.truth, measures="nll"))[-1]
        assert said.startswith("Degenerate samples of ")
        assert said.endswith("2 paths with identical samples.")

    def test_one_scene_that_makes_the_mean(self, walks, samples):
        moved = samples["oracle"].copy()
        moved[3] += 20.0
        found = rank({"moved": moved}, walks.truth, measures="ade")
        assert any(each.startswith("One scene of moved makes ") for each in verdicts(found))

"""Plans and their presets."""

from dataclasses import replace

import pytest

from sevenhills import datasets
from study import PRESETS, published
from study.catalogue import ABLATIONS, RECIPES, name_of


class TestPlans:
    def test_presets(self):
        assert PRESETS["quick"].runs == 3
        assert not any("trajectories" in name for name in PRESETS["quick"].distributions)
        assert set(PRESETS["full"].distributions) == set(datasets.names())
        assert PRESETS["full"].runs == 100

    def test_every_published_cell_is_in_the_standard_plan(self):
        cells = {(c.distribution, c.estimator, c.metric) for c in PRESETS["standard"].cells()}
        for each in published():
            assert (each.distribution, name_of(each), each.metric) in cells

    def test_knn_densities_have_no_samples(self):
        cells = PRESETS["full"].cells()
        assert not any(c.metric == "W_hat" and c.estimator.endswith("knn") for c in cells)
        assert len(set(cells)) == len(cells)

    def test_changes_from_a_file(self, tmp_path):
        path = tmp_path / "plan.toml"
        path.write_text('runs = 2\nestimators = ["rome"]\n')
        plan = PRESETS["quick"].changed_by(path)
        assert plan == replace(PRESETS["quick"], runs=2, estimators=("rome",))

    @pytest.mark.parametrize(
        ("text", "match"),
        [
            ('distributions = ["moon"]', "two_moons"),
            ('estimators = ["rme"]', "rome"),
            ('metrics = ["L"]', "L_hat"),
            ("estimators = []", "estimators"),
            ("runs = 0", "runs"),
            ("n_samples = 20000", "n_samples"),
            ("speed = 3", "distributions"),
            ("runs = ", "plan.toml"),
        ],
    )
    def test_bad_changes(self, tmp_path, text, match):
        path = tmp_path / "plan.toml"
        path.write_text(text)
        with pytest.raises(ValueError, match=match):
            PRESETS["quick"].changed_by(path)
        with pytest.raises(ValueError, match=r"no\.toml"):
            PRESETS["quick"].changed_by(tmp_path / "no.toml")

    def test_names_of_ablations(self):
        assert len(ABLATIONS) == 21
        aniso = datasets.load("aniso")
        settings = {tuple(RECIPES[name].settings().values()) for name in ABLATIONS}
        assert len(settings) == 21
        for each in published():
            model = RECIPES[name_of(each)].build(aniso)
            if each.method == "rome":
                assert model.selection == each.selection
                assert model.density == each.estimator
                if each.normalize is not None:
                    assert (model.decorrelate, model.normalize) == (
                        each.decorrelate,
                        each.normalize,
                    )

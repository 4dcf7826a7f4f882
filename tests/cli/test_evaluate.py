"""The command evaluate."""

import json

import numpy as np
import pandas as pd
import pytest

from sevenhills import GaussianKDE, load, save
from sevenhills.metrics import compare_likelihoods

from .runner import ANISO, call, done, refused, write_csv


@pytest.fixture(scope="module")
def models(folder, tmp_path_factory):
    place = tmp_path_factory.mktemp("models")
    for name in ("rome", "kde"):
        done("fit", folder / "first.csv", "-o", place / f"{name}.sevenhills", "--estimator", name)
    return [place / "kde.sevenhills", place / "rome.sevenhills"]


def test_models_are_ranked_as_in_python(folder, models, tmp_path):
    X = pd.read_csv(folder / "moved.csv")[:90]
    X.assign(name="word").to_csv(tmp_path / "new.csv", index=False)
    result = done("evaluate", tmp_path / "new.csv", *models, "--json")
    found = json.loads(result.stdout)
    assert list(found) == [
        "data", "n_rows", "columns", "left_out", "folds", "confidence", "ranking", "ties",
    ]  # fmt: skip
    expected = compare_likelihoods({path.stem: load(path) for path in models}, X)
    for row, twin in zip(found["ranking"], expected.summary, strict=True):
        assert (row["model"], row["rank"]) == (twin.model, twin.rank)
        assert row["mean"] == pytest.approx(twin.mean)
    assert "warning" not in result.stderr
    text = done("evaluate", tmp_path / "new.csv", *models).stdout
    assert "90 rows of" in text
    assert "must be new to the models" in text


def test_rows_that_a_model_has_seen(folder, models):
    stderr = done("evaluate", folder / "first.csv", *models).stderr
    assert "kde, rome were fitted to 150 rows, as many as there are here" in stderr
    assert "150 of 150 samples are centers of kernels" in stderr


def test_models_of_other_columns_are_refused(folder, models, tmp_path):
    X = ANISO.sample(60, random_state=0)
    other = write_csv(tmp_path / "other.csv", np.column_stack([X, X[:, 0] ** 2]), ("x", "u", "v"))
    done("fit", other, "-o", "other.sevenhills")
    error = refused("evaluate", folder / "second.csv", models[0], "other.sevenhills")
    assert "only kde has y, only other has u, v" in error
    save(GaussianKDE().fit(X[:, :1]), "plain.sevenhills")
    error = refused("evaluate", folder / "second.csv", models[0], "plain.sevenhills")
    assert "2 and 1 columns" in error
    assert "no meaning with models" in refused(
        "evaluate", folder / "second.csv", models[0], "--estimators", "kde"
    )


def test_estimators_are_cross_validated(folder, tmp_path):
    arguments = ["--estimators", "rome,kde", "--folds", 3]
    result = done("evaluate", folder / "first.csv", *arguments)
    assert "150 rows" in result.stdout
    assert "other 2 of 3 folds" in result.stdout
    assert "rome is first." in result.stdout
    done("evaluate", folder / "first.csv", *arguments, "-o", tmp_path / "ranking.csv")
    table = pd.read_csv(tmp_path / "ranking.csv")
    assert list(table["model"]) == ["rome", "kde"]
    assert (table["difference"][1:] < 0).all()
    few = call("evaluate", folder / "first.csv", *arguments, "--max-rows", 50, "--json")
    assert json.loads(few.stdout)["n_rows"] == 50
    assert "50 of 150 rows drawn (--max-rows)" in few.stderr
    assert "must be different ones of rome" in refused(
        "evaluate", folder / "first.csv", "--estimators", "rome,rome"
    )


def test_columns_of_few_values_are_named(tmp_path):
    rng = np.random.RandomState(0)
    X = np.column_stack([rng.standard_normal(90), rng.randint(3, size=90)])
    table = write_csv(tmp_path / "years.csv", X, ("height", "year"))
    result = done("evaluate", table, "--estimators", "kde", "--support", "height=-9:9")
    assert "few different values in year" in result.stderr
    assert "nothing to compare it with" in result.stdout


def test_an_estimator_that_cannot_be_fitted_is_named(tmp_path):
    table = write_csv(tmp_path / "two.csv", np.array([[0.0, 1.0], [0.0, 1.0], [2.0, 2.0]]))
    error = refused("evaluate", table, "--estimators", "kde,gmm")
    assert "cannot be fitted" in error
    assert "--estimators names the others" in error

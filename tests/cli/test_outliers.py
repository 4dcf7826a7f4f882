"""The command outliers."""

import json

import numpy as np
import pytest

import sevenhills

from .runner import ANISO, done, refused, write_csv


@pytest.fixture
def odd(tmp_path):
    X = ANISO.sample(150, random_state=5)
    X[[4, 40]] = [[30.0, 30.0], [0.0, 8.0]]
    return write_csv(tmp_path / "odd.csv", X), X


def rows_of(result):
    return [int(line.split(",")[0]) for line in result.stdout.splitlines()[1:]]


def test_outliers(odd):
    path, X = odd
    detector = sevenhills.DensityOutlierDetector(sevenhills.GaussianKDE(), rate=0.02).fit(X)
    result = done("outliers", path, "--rate", "0.02", "--estimator", "kde")
    assert result.stdout.splitlines()[0] == "row,log_density,p_value,x,y"
    assert rows_of(result)[0] == 5
    assert set(rows_of(result)) == set(np.flatnonzero(detector.predict(X) < 0) + 1)
    assert "3 of 150 rows are outliers: p-value at most 0.02 (GaussianKDE" in result.stderr
    found = json.loads(done("outliers", path, "--estimator", "kde", "--json").stdout)
    assert found["n_outliers"] == 1
    assert set(found["rows"][0]) == {"row", "outlier", "log_density", "p_value", "values"}
    assert found["rows"][0]["values"] == {"x": 30.0, "y": 30.0}
    every = done("outliers", path, "--all", "--estimator", "kde")
    assert every.stdout.splitlines()[0] == "row,outlier,log_density,p_value,x,y"
    assert rows_of(every) == list(range(1, 151))


def test_the_default_estimator(tmp_path):
    path = write_csv(tmp_path / "t.csv", ANISO.sample(40, random_state=5))
    result = done("outliers", path)
    assert "estimator: AutoROME, the default up to 50,000 values" in result.stderr
    assert "1 of 40 rows is an outlier: p-value at most 0.025 (AutoROME, 40" in result.stderr


def test_a_table_of_regular_rows(odd, folder):
    path, _ = odd
    options = ["--train", folder / "first.csv", "--estimator", "rome"]
    found = json.loads(done("outliers", path, *options, "--json").stdout)
    assert [row["row"] for row in found["rows"]][:2] == [5, 41]
    assert all(1 / 151 <= row["p_value"] <= 0.01 for row in found["rows"])
    few = done("outliers", path, *options, "--control", "fdr", "--rate", "0.5")
    assert set(rows_of(few)) >= {5, 41}
    assert "false discovery rate 0.5 (ROME, 150 held-out rows)" in few.stderr
    clump = done("outliers", path, *options, "--min-share", "0.1")
    assert set(rows_of(clump)) >= {5, 41}


def test_a_model_and_rows_that_it_has_not_seen(odd, folder, model):
    path, _ = odd
    unseen = write_csv(folder / "unseen.csv", ANISO.sample(200, random_state=8))
    result = done("outliers", path, "--model", model, "--calibration", unseen)
    assert rows_of(result)[:2] == [5, 41]
    assert "p-value at most 0.01 (200 unseen rows)" in result.stderr


def test_refused(odd, folder, model):
    path, _ = odd
    first = folder / "first.csv"
    assert "need each other" in refused("outliers", path, "--model", model)
    assert "need each other" in refused("outliers", path, "--calibration", first)
    both = ["--model", model, "--calibration", first]
    for option in (["--min-share", "0.1"], ["--train", first]):
        assert "no meaning with --model" in refused("outliers", path, *both, *option)
    assert "rate = 0.001 needs at least 1000 samples, got 150" in refused(
        "outliers", path, "--rate", "0.001", "--estimator", "kde"
    )


def test_rows_in_a_file_are_not_repeated_in_json(folder, tmp_path):
    out = tmp_path / "odd.csv"
    first = folder / "first.csv"
    arguments = ["outliers", folder / "moved.csv", "--train", first, "--estimator", "kde", "--json"]
    found = json.loads(done(*arguments).stdout)
    rows = found.pop("rows")
    assert json.loads(done(*arguments, "-o", out).stdout) == found
    assert len(out.read_text().splitlines()) == 1 + len(rows) == 1 + found["n_outliers"]


def test_a_table_without_outliers_has_a_header(folder):
    first = folder / "first.csv"
    options = ["--estimator", "kde", "--control", "fdr"]
    result = done("outliers", first, *options)
    assert result.stdout == "row,log_density,p_value,x,y\n"
    assert "0 of 150 rows are outliers" in result.stderr

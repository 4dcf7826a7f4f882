"""The command outliers."""

import json

import numpy as np

import sevenhills

from .runner import ANISO, done, refused, write_csv


def test_outliers(folder, model, tmp_path):
    X = ANISO.sample(150, random_state=5)
    X[[4, 40]] = [[30.0, 30.0], [0.0, 8.0]]
    path = write_csv(tmp_path / "odd.csv", X)
    detector = sevenhills.DensityOutlierDetector().fit(X)
    result = done("outliers", path)
    lines = result.stdout.splitlines()
    assert lines[0] == "row,log_density,p_value,x,y"
    assert lines[1].startswith("5,")
    expected = set(np.flatnonzero(detector.predict(X) < 0) + 1)
    assert {int(line.split(",")[0]) for line in lines[1:]} == expected
    assert f"{len(expected)} of 150 rows are outliers" in result.stderr
    found = json.loads(done("outliers", path, "--contamination", "0.02", "--json").stdout)
    assert found["n_outliers"] == 3
    assert set(found["rows"][0]) == {"row", "outlier", "log_density", "p_value", "values"}
    assert found["rows"][0]["values"] == {"x": 30.0, "y": 30.0}
    every = done("outliers", path, "--all", "--p-value", "0.01").stdout.splitlines()
    assert every[0] == "row,outlier,log_density,p_value,x,y"
    assert [int(line.split(",")[0]) for line in every[1:]] == list(range(1, 151))
    by_model = json.loads(done("outliers", path, "--model", model, "--json").stdout)
    assert [row["row"] for row in by_model["rows"]][:2] == [5, 41]
    assert all(1 / 10_001 <= row["p_value"] < 0.01 for row in by_model["rows"])
    assert "no meaning with --model" in refused(
        "outliers", path, "--model", model, "--contamination", "0.1"
    )


def test_rows_in_a_file_are_not_repeated_in_json(folder, model, tmp_path):
    out = tmp_path / "odd.csv"
    arguments = ["outliers", folder / "moved.csv", "--model", model, "--json"]
    found = json.loads(done(*arguments).stdout)
    rows = found.pop("rows")
    assert json.loads(done(*arguments, "-o", out).stdout) == found
    assert len(out.read_text().splitlines()) == 1 + len(rows) == 1 + found["n_outliers"]


def test_a_table_without_outliers_has_a_header(folder, model):
    result = done("outliers", folder / "first.csv", "--model", model, "--p-value", "0.00005")
    assert result.stdout == "row,log_density,p_value,x,y\n"
    assert "0 of 150 rows are outliers" in result.stderr

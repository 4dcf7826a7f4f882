"""The option --by: one density for each category."""

import json

import pandas
import pytest

from .runner import ANISO, done, refused, remarks


@pytest.fixture
def table(tmp_path):
    frame = pandas.DataFrame(ANISO.sample(63, random_state=0), columns=["x", "y"])
    frame["kind"] = ["a/b", "A.b"] * 30 + ["rare", None, None]
    frame.to_csv(tmp_path / "t.csv", index=False)
    return tmp_path / "t.csv"


def test_fit(table, tmp_path):
    options = ["fit", table, "-o", tmp_path / "m.sevenhills", "--by", "kind", "--estimator", "gmm"]
    result = done(*options, "--json")
    found = json.loads(result.stdout)["models"]
    assert [(each["category"], each["n_rows"]) for each in found] == [("a/b", 30), ("A.b", 30)]
    names = {"m-a_b.sevenhills", "m-A.b.sevenhills"}
    assert {path.name for path in tmp_path.glob("*.sevenhills")} == names
    assert "left out 2 rows without a value in column kind" in result.stderr
    assert "left out categories of kind with fewer than 5 rows: rare (1)" in result.stderr
    line = refused(*options[:4], "--by", "x")
    assert "no category of x has 5 complete rows" in line


def test_outliers(table):
    result = done("outliers", table, "--by", "kind", "--estimator", "kde")
    assert result.stdout.splitlines()[0] == "row,kind,log_density,p_value,x,y"
    assert "excludes --train" in refused("outliers", table, "--by", "kind", "--train", table)


def test_columns_of_few_values_do_not_pass_for_clusters(tmp_path):
    frame = pandas.DataFrame(ANISO.sample(60, random_state=0), columns=["x", "y"])
    frame.assign(year=[2000, 4000, 6000] * 20).to_csv("t.csv", index=False)
    offer = "column of few values: year (3); --by year fits a density to each value"
    result = done("fit", "t.csv", "-o", "m")
    assert remarks(result) == [offer]
    said = "Features of few values, which group samples and are no part of clusters: year."
    assert said in result.stdout.splitlines()
    result = done("fit", "t.csv", "-o", "m", "--estimator", "rome", "--scale", "none")
    assert ": 3 clusters" in result.stdout
    assert remarks(result)[-1] == (
        "warning: every cluster has one value of year only, which may be all that splits the rows; "
        "--by year fits a density to each value"
    )

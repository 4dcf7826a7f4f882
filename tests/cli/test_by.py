"""The option --by: one density for each category."""

import json

import pandas
import pytest

from .runner import ANISO, done, refused


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

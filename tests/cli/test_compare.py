"""The command compare."""

import json
import sys
from itertools import combinations

import numpy as np
import pandas as pd
import pytest

import sevenhills
from sevenhills.cli.compare import _drawn_rows

from .runner import ANISO, call, done, refused, write_csv


def test_compare_tells_same_from_different(folder):
    quick = ["--permutations", 19, "--alpha", 0.2]
    same = done("compare", folder / "first.csv", folder / "second.csv", *quick)
    assert "no difference found" in same.stdout
    shuffles = [int(line.split()[-1]) for line in same.stdout.splitlines()[2:5]]
    assert shuffles[0] == 19
    assert min(shuffles[1:]) < 19  # equal tables are soon known as such
    other = call("compare", folder / "first.csv", folder / "moved.csv", *quick, "--json")
    assert other.exit_code == 1
    found = json.loads(other.stdout)
    assert list(found) == [
        "a", "b", "columns", "units", "n_permutations", "tests", "p_value", "alpha", "different",
    ]  # fmt: skip
    assert found["different"] is True
    assert [each["name"] for each in found["tests"]] == ["energy", "wasserstein", "divergence"]
    assert found["p_value"] == pytest.approx(3 / 20)


def test_compare_in_data_units_of_a_part_of_the_rows(folder):
    arguments = ["--tests", "energy", "--units", "data", "--max-rows", "100", "--json"]
    result = call("compare", folder / "first.csv", folder / "moved.csv", *arguments)
    found = json.loads(result.stdout)
    assert found["a"] == {
        "data": str(folder / "first.csv"), "n_rows": 150, "n_compared": 100,
    }  # fmt: skip
    assert "100 of 150 rows drawn" in result.stderr
    X, Y = (np.loadtxt(folder / f"{n}.csv", delimiter=",", skiprows=1) for n in ("first", "moved"))
    whole = call("compare", folder / "first.csv", folder / "moved.csv", *arguments[:4], "--json")
    expected = sevenhills.metrics.energy_distance(X, Y)
    assert json.loads(whole.stdout)["tests"][0]["statistic"] == pytest.approx(expected)


def test_compare_takes_what_both_have(folder, tmp_path):
    X = ANISO.sample(40, random_state=0)
    a = write_csv(tmp_path / "a.csv", np.column_stack([X, X[:, 0]]), ("x", "y", "extra"))
    b = write_csv(tmp_path / "b.csv", X[:, ::-1], ("y", "x"))
    result = done("compare", a, b, "--tests", "energy", "--json")
    assert "only one table has them: extra" in result.stderr
    (test,) = json.loads(result.stdout)["tests"]
    assert test == {
        "name": "energy", "statistic": pytest.approx(0, abs=1e-12), "p_value": 1.0,
        "n_permutations": 999,
    }  # fmt: skip
    np.save(tmp_path / "c.npy", X)
    assert "not all tables have names" in refused("compare", a, tmp_path / "c.npy")
    write_csv(tmp_path / "d.csv", X, ("u", "v"))
    assert "no column of numbers in common" in refused("compare", a, tmp_path / "d.csv")
    assert "standard input" in refused("compare", "-", "-")
    assert "different ones of energy" in refused("compare", a, b, "--tests", "energie")
    assert "use --permutations 3000" in refused("compare", a, b, "--alpha", "0.001")


def test_what_is_not_compared_is_listed_in_order(tmp_path):
    X = np.random.RandomState(0).standard_normal((20, 6))
    a = write_csv(tmp_path / "a.csv", X, ("x", "f", "b", "d", "e", "c"))
    b = write_csv(tmp_path / "b.csv", X[:, :2], ("x", "a"))
    result = done("compare", a, b, "--tests", "energy")
    assert "only one table has them: a, b, c, d, e and 1 more" in result.stderr


def test_drawn_rows_keep_their_order():
    rows = _drawn_rows("t.csv", pd.DataFrame({"x": np.arange(40.0)}), 25, seed=0)[:, 0]
    assert len(rows) == 25
    assert (np.diff(rows) > 0).all()


def test_a_constant_of_one_table_may_be_another_in_the_other(tmp_path):
    X = ANISO.sample(40, random_state=0)
    a = write_csv(tmp_path / "a.csv", np.column_stack([X, np.zeros(40)]), ("x", "y", "site"))
    b = write_csv(tmp_path / "b.csv", np.column_stack([X, np.ones(40)]), ("x", "y", "site"))
    assert call("compare", a, b, "--tests", "energy").exit_code == 1
    result = done("compare", a, a, "--tests", "energy")
    assert "not compared, because they have one value only: site" in result.stderr
    assert "nothing to compare" in refused("compare", a, a, "--columns", "site")


def test_compare_without_pot(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "ot", None)
    quick = ["--permutations", 19, "--alpha", 0.2]
    result = done("compare", folder / "first.csv", folder / "second.csv", *quick)
    assert "pip install 'sevenhills[ot]'" in result.stderr
    assert "Wasserstein distance  " not in result.stdout
    assert "sevenhills[ot]" in refused(
        "compare", folder / "first.csv", folder / "second.csv", "--tests", "wasserstein"
    )


def test_more_than_two_tables_are_compared_in_pairs(folder):
    """Every pair has the p-value that it has by itself; Holm's rule is that of a loop."""
    tables = [folder / f"{name}.csv" for name in ("first", "second", "moved")]
    quick = ["--units", "data", "--permutations", 199, "--tests", "energy", "--json"]
    result = call("compare", *tables, *quick)
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert list(found) == [
        "tables", "columns", "units", "n_permutations", "pairs", "alpha", "different",
    ]  # fmt: skip
    assert [each["n_compared"] for each in found["tables"]] == [150, 150, 150]
    pairs = found["pairs"]
    places = [(str(a), str(b)) for a, b in combinations(tables, 2)]
    assert [(pair["a"], pair["b"]) for pair in pairs] == places
    for pair in pairs:
        alone = json.loads(call("compare", pair["a"], pair["b"], *quick).stdout)
        assert alone["tests"] == pair["tests"]
        assert alone["p_value"] == pair["p_value"]
    ranked, adjusted, largest = sorted(pair["p_value"] for pair in pairs), [], 0.0
    for i, p_value in enumerate(ranked):
        largest = max(largest, min(1.0, (len(ranked) - i) * p_value))
        adjusted.append(largest)
    assert sorted(pair["adjusted_p_value"] for pair in pairs) == pytest.approx(adjusted)
    assert [pair["different"] for pair in pairs] == [False, True, True]


def test_a_table_of_pairs(folder):
    tables = [folder / f"{name}.csv" for name in ("first", "second", "moved")]
    result = call("compare", *tables)
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[-1].startswith("2 of 3 pairs differ, at alpha = 0.05 after Holm's correction")
    assert [line.endswith("no difference found") for line in lines[3:6]] == [True, False, False]
    same = done("compare", tables[0], tables[1], tables[0])
    assert same.stdout.splitlines()[-1].startswith("0 of 3 pairs differ")


def test_what_many_tables_need(folder, tmp_path):
    one = folder / "first.csv"
    assert "at least two tables" in refused("compare", one)
    three = [one, folder / "second.csv", folder / "moved.csv"]
    assert "use --permutations 60" in refused("compare", *three, "--permutations", 50)
    other = write_csv(tmp_path / "other.csv", ANISO.sample(20, random_state=0), ("x", "z"))
    result = done("compare", one, folder / "second.csv", other, "--alpha", 1e-3)
    assert "not all tables have them: y, z" in result.stderr
    assert "1 column: x" in result.stdout

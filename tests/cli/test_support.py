"""The option --support of all commands that fit."""

import json

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import sevenhills

from .runner import call, done, refused, write_csv

NAMES = ("wait", "share", "heading")
SUPPORT = ["--support", "wait=0:", "--support", "share=0:1:log", "--support", "2=circular:360"]


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    columns = rng.exponential(size=150), rng.beta(2, 2, 150), rng.normal(0, 20, 150) % 360
    write_csv(tmp_path / "t.csv", np.stack(columns, axis=1), NAMES)
    return tmp_path / "t.csv"


def values_of(table):
    return np.loadtxt(table, delimiter=",", skiprows=1)


def test_fit(table, tmp_path):
    out, X = tmp_path / "m.sevenhills", values_of(table)
    fit = ["fit", table, "-o", out, *SUPPORT, "--estimator", "rome"]
    text = done(*fit).stdout
    assert "share from 0 to 1 (log); heading on a circle of 360" in text
    saved = sevenhills.load(out)
    support = {0: (0, None), 1: (0, 1, "log"), 2: ("circular", 360)}
    same = sevenhills.ROME(support=support, scale="auto").fit(X)
    assert_array_equal(saved.density_.logpdf(X), same.density_.logpdf(X))
    found = json.loads(done(*fit, "--json").stdout)["support"]
    assert found["share"] == {"kind": "log", "low": 0.0, "high": 1.0, "n_at_bounds": 0.0}
    assert found["heading"]["kind"] == "circular"
    scores = json.loads(done("score", out, table, "--json").stdout)["log_densities"]
    assert_array_equal(np.array(scores), same.density_.logpdf(X))


def test_auto_is_named(table, tmp_path):
    result = done("fit", table, "-o", tmp_path / "m", "--support", "auto")
    assert "--support auto took: wait from 0" in result.stderr
    assert "Support: wait from 0" in result.stdout


def test_outliers(table):
    rows = done("outliers", table, *SUPPORT, "--all", "--estimator", "rome").stdout
    X = values_of(table)
    support = {0: (0, None), 1: (0, 1, "log"), 2: ("circular", 360)}
    rome = sevenhills.ROME(support=support, scale="auto")
    detector = sevenhills.DensityOutlierDetector(rome).fit(X)
    table = np.loadtxt(rows.splitlines(), delimiter=",", skiprows=1)
    np.testing.assert_allclose(table[:, 2], detector.training_scores_, rtol=1e-9)


def test_report(table, tmp_path):
    options = ["--columns", "wait", "--support", "wait=0::log", "-o", tmp_path / "r.html"]
    done("report", table, *options)
    assert (tmp_path / "r.html").exists()
    options[3] = "wait=1:"
    assert "wait has the value" in refused("report", table, *options)


def test_compare(table, tmp_path):
    rng = np.random.default_rng(1)
    columns = rng.exponential(size=150), rng.beta(2, 2, 150), rng.normal(90, 20, 150) % 360
    write_csv(tmp_path / "u.csv", np.stack(columns, axis=1), NAMES)
    options = ["--tests", "divergence", "--permutations", "19", "--alpha", "0.06", *SUPPORT]
    assert json.loads(call("compare", table, tmp_path / "u.csv", *options, "--json").stdout)[
        "different"
    ]
    same = json.loads(call("compare", table, table, *options, "--json").stdout)
    assert same["tests"][0]["statistic"] == 0
    (tmp_path / "u.csv").write_text(
        "wait,share,heading\n1,0.5,3\n2,0.5,4\n1,2,5\n", encoding="utf-8"
    )
    line = refused("compare", table, tmp_path / "u.csv", *options)
    assert "share has the value 2 in row 3" in line


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["wait=1:"], "wait has the value"),
        (["age=0:"], "--support names the column 'age', but there are wait, share, heading"),
        (["wait"], "--support names the column '', but"),
        (["wait=zero:"], "--support of wait must be LOW:HIGH"),
        (["wait=0"], "--support of wait must be LOW:HIGH"),
        (["wait=0::logit"], "the support of wait must be"),
        (["heading=circular:6.28"], "more than its period of 6.28"),
        (["wait=0:", "0=0:"], "--support names a column twice"),
    ],
)
def test_errors(table, tmp_path, options, message):
    given = [part for each in options for part in ("--support", each)]
    assert message in refused("fit", table, "-o", tmp_path / "m", *given)


def test_rows_are_numbered_as_in_the_file(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,2\n,3\n2,3\n-4,4\n5,6\n", encoding="utf-8")
    line = refused("fit", tmp_path / "t.csv", "-o", tmp_path / "m", "--support", "a=0:")
    assert "a has the value -4 in row 4" in line


def test_a_support_needs_data_and_kernels(table, tmp_path):
    done("fit", table, "-o", tmp_path / "m")
    line = refused("fit", table, "-o", tmp_path / "n", "--estimator", "vine", *SUPPORT)
    assert line == "error: --support has no meaning with --estimator vine"
    assert "is a model" in refused("report", tmp_path / "m", *SUPPORT)
    assert "no meaning with --model" in refused(
        "outliers", table, "--model", tmp_path / "m", *SUPPORT
    )

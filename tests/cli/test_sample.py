"""The command sample."""

import io
import json

import numpy as np
from numpy.testing import assert_array_equal

import sevenhills
from sevenhills.cli.table_files import read_table

from .runner import done, refused


def test_samples_are_those_of_the_model(model, tmp_path):
    expected = sevenhills.load(model).density_.sample(7, random_state=3)
    text = done("sample", model, "-n", 7, "--seed", 3).stdout
    assert text.startswith("x,y\n")
    assert_array_equal(np.loadtxt(io.StringIO(text), delimiter=",", skiprows=1), expected)
    found = json.loads(done("sample", model, "-n", 7, "--seed", 3, "--json").stdout)
    assert found == {"columns": ["x", "y"], "n_rows": 7, "rows": expected.tolist()}
    out = tmp_path / "draws.parquet"
    summary = json.loads(done("sample", model, "-n", 7, "--seed", 3, "-o", out, "--json").stdout)
    assert summary == {"columns": ["x", "y"], "n_rows": 7}
    assert read_table(str(out)).names == ["x", "y"]
    assert done("sample", model, "-n", 0).stdout == "x,y\n"
    assert "must end with .csv" in refused("sample", model, "-o", tmp_path / "draws.xlsx")

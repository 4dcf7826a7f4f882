"""The command demo."""

import sys

import pytest
from numpy.testing import assert_array_equal

from sevenhills.cli.options import Choices
from sevenhills.cli.samples import samples_of
from sevenhills.cli.table_files import read_table

from .runner import ANISO, done


@pytest.mark.whole
def test_demo_writes_tables_and_pictures(tmp_path, monkeypatch):
    found = done("demo", tmp_path / "tour")
    assert "wrote 3,000 rows" in found.stderr
    assert "3 clusters" in found.stdout
    assert "5 clusters" in found.stdout
    for name in ("aniso", "trajectories"):
        assert (tmp_path / "tour" / f"{name}.png").stat().st_size > 20_000
    train, test = ANISO.split(run=0)
    for name, rows in (("aniso.csv", train), ("aniso_new.csv", test)):
        found = samples_of(read_table(str(tmp_path / "tour" / name)), Choices())
        assert_array_equal(found.X, rows)
        assert found.names == ["x", "y"]
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "no pictures: the pictures need matplotlib" in done("demo", tmp_path).stderr

"""The commands demo and warm."""

import sys

import pytest
from numpy.testing import assert_array_equal

from sevenhills.cli.options import Choices
from sevenhills.cli.samples import samples_of
from sevenhills.cli.table_files import read_table
from sevenhills.forecast.inputs import open_forecasts

from .runner import ANISO, done


@pytest.fixture
def tour(tmp_path, monkeypatch):
    """The folder of a demo, and what it printed; pages are written elsewhere in the tests."""
    monkeypatch.setattr(
        "sevenhills.cli.pages.report", lambda *given, **_: print("reported", *given)
    )
    monkeypatch.setattr("sevenhills.cli.demo._N_SCENES", 12)
    return tmp_path / "tour", done("demo", tmp_path / "tour")


def test_demo_prints_findings_and_writes_what_commands_read(tour):
    folder, found = tour
    assert "fitted in " in found.stdout
    assert "ROME: 3 clusters" in found.stdout
    assert f"reported {folder / 'wine.csv'}" in found.stdout
    assert "nll" in found.stdout.split("by 4 forecasters\n")[1]
    assert (folder / "aniso.png").stat().st_size > 20_000
    assert b"plotly" in (folder / "forecasts.html").read_bytes()
    train, test = ANISO.split(run=0)
    for name, rows in (("aniso.csv", train), ("aniso_new.csv", test)):
        assert_array_equal(samples_of(read_table(str(folder / name)), Choices()).X, rows)
    wines = read_table(str(folder / "wine.csv"))
    assert wines.frame.shape == (178, 14)
    assert {"alcohol", "cultivar"} <= set(wines.names)
    paths = folder / "forecasts" / "oracle.npy"
    assert open_forecasts(paths, folder / "truth.npy", agents=False).n_samples == 20


def test_demo_without_matplotlib_has_no_picture(tmp_path, monkeypatch):
    for name in ("_show_table", "_show_forecasts"):
        monkeypatch.setattr(f"sevenhills.cli.demo.{name}", lambda *_: None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert "no picture: plotting needs matplotlib" in done("demo", tmp_path).stderr


@pytest.mark.parametrize(("seconds", "said"), [(6.14, "compiled in 6.1 s"), (0.0, "already")])
def test_warm_prints_the_seconds(monkeypatch, seconds, said):
    monkeypatch.setattr("sevenhills.warming.warm", lambda: seconds)
    assert said in done("warm").stdout

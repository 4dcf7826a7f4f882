"""The command report."""

import json
import os
import sys
import types
from pathlib import Path

import pytest

from .runner import ANISO, done, refused


@pytest.fixture
def reports(monkeypatch):
    """Stand in for the package that writes reports, and return what it is given."""
    given = []

    def build_report(model, *, X=None, title=None, rows=(), notes=(), left_out=None):
        assert len(rows) == (0 if X is None else len(X))
        given.append((type(model).__name__, None if X is None else X.shape, title))
        save = lambda path: Path(path).write_text("page")  # noqa: E731
        return types.SimpleNamespace(save=save, verdict=("A good fit.",))

    stand_in = types.ModuleType("sevenhills.report")
    stand_in.build_report = build_report
    monkeypatch.setitem(sys.modules, "sevenhills.report", stand_in)
    return given


def test_report(reports, folder, model, tmp_path):
    out = tmp_path / "page.html"
    said = done("report", folder / "first.csv", "-o", out).stdout
    assert said == f"wrote {out}\nA good fit.\n"
    done("report", model, "-o", out, "--title", "Two words")
    found = json.loads(
        done("report", model, "--data", folder / "first.csv", "-o", out, "--json").stdout
    )
    assert found == {"report": str(out), "n_rows": 150, "verdict": ["A good fit."]}
    assert reports == [
        ("AutoROME", (150, 2), None), ("ROME", None, "Two words"), ("ROME", (150, 2), None),
    ]  # fmt: skip
    assert "must end with .html" in refused("report", model, "-o", tmp_path / "page")
    assert "belongs to a model" in refused(
        "report", folder / "first.csv", "--data", folder / "first.csv", "-o", out
    )


def test_a_report_names_rows_as_the_table_does(tmp_path):
    lines = ["x,y,name", "1,,a", *(f"{a},{b},b" for a, b in ANISO.sample(40, random_state=0))]
    (tmp_path / "t.csv").write_text("\n".join([*lines, "90,90,c", ""]), encoding="utf-8")
    done("report", tmp_path / "t.csv", "-o", tmp_path / "t.html")
    page = (tmp_path / "t.html").read_text(encoding="utf-8")
    assert ">42</button>" in page  # the last row of the table, though the first was left out
    assert "left out column name" in page
    assert "Left out: name (words); 1 row (missing values)." in page


def test_what_cannot_be_written_is_named(folder, tmp_path, monkeypatch):
    for output in (["fit", "-o", tmp_path / "m"], ["report", "-o", tmp_path / "r.html"]):
        command, *rest = output
        monkeypatch.setattr(os, "access", lambda *_: False)
        assert "cannot be written" in refused(command, folder / "first.csv", *rest)
    monkeypatch.undo()
    said = refused("report", folder / "first.csv", "-o", tmp_path)
    assert "is a folder" in said


def test_a_report_needs_the_data_of_its_model(folder, model, tmp_path):
    said = refused("report", model, "--data", folder / "second.csv", "-o", tmp_path / "t.html")
    assert "does not hold the rows that" in said
    assert not (tmp_path / "t.html").exists()

"""Outputs are written as a whole or not at all."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from .runner import COMMAND, done, refused


def test_outputs_are_replaced_whole(model, tmp_path, monkeypatch):
    out = tmp_path / "draws.csv"
    out.write_text("old")

    def fail(*_):
        raise OSError("the disk is full")

    monkeypatch.setattr("os.fsync", fail)
    assert "the disk is full" in refused("sample", model, "-o", out)
    assert out.read_text() == "old"
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.skipif(sys.platform == "win32", reason="there is no /dev/null")
def test_what_is_no_file_is_not_replaced(model):
    null = Path("/dev/null")
    done("sample", model, "-o", null, "--format", "csv")
    assert null.is_char_device()


@pytest.mark.skipif(sys.platform == "win32", reason="there is no /dev/stdout")
def test_a_shell_reads_and_appends(folder, model, tmp_path):
    out = tmp_path / "all.csv"
    out.write_text("old\n")
    output = ["-o", "/dev/stdout", "--format", "csv"]
    command = shlex.join([*COMMAND, "score", str(model), "-", *output])
    script = f"{{ echo head; {command}; echo tail; }} < {folder / 'second.csv'} >> {out}"
    done = subprocess.run(["sh", "-c", script], check=True, stderr=subprocess.PIPE)
    lines = out.read_text().splitlines()
    assert (lines[:2], len(lines), lines[-1]) == (["old", "head"], 154, "tail")
    assert b"error" not in done.stderr.lower()


def test_outputs_are_checked_before_anything_is_computed(folder, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise AssertionError("something was computed")

    for name in ("sevenhills.cli.table_files.read_table", "sevenhills.forecast.rank"):
        monkeypatch.setattr(name, fail)
    gone = tmp_path / "gone" / "x"
    data = folder / "first.csv"
    for arguments in (
        ["fit", data, "-o", gone],
        ["report", data, "-o", f"{gone}.html"],
        ["outliers", data, "-o", f"{gone}.csv"],
        ["forecast", data, "--truth", data, "-o", f"{gone}.html"],
        ["forecast", data, "--truth", data, "--parquet", f"{gone}.parquet"],
    ):
        assert "gone does not exist" in refused(*arguments)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    out = tmp_path / "x.parquet"
    assert "sevenhills[parquet]" in refused("outliers", data, "-o", out)
    assert "sevenhills[parquet]" in refused("forecast", data, "--truth", data, "--parquet", out)

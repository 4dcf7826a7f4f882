"""Standard error, and exit codes."""

import contextlib
import os
import re
import subprocess
import sys
import warnings

import pytest

from sevenhills.cli.screen import working
from sevenhills.progress import part, report

from .runner import call, start


def test_progress_is_not_shown_without_a_terminal(capsys):
    with working("counting"), part("sheep"):
        report(0.5)
    assert capsys.readouterr() == ("", "")


@pytest.mark.skipif(sys.platform == "win32", reason="pty is for POSIX")
def test_a_terminal_shows_the_share_done_and_the_time_left():
    script = (
        "import time\n"
        "from sevenhills.cli.screen import working\n"
        "from sevenhills.progress import part, tracked\n"
        "with working('counting'), part('sheep'):\n"
        "    for _ in tracked(range(4)):\n"
        "        time.sleep(0.25)\n"
    )
    shown = on_a_terminal(sys.executable, "-c", script)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert "counting: sheep" in plain
    assert re.search(r"\b(25|50|75)%", plain)
    assert re.search(r"left: 0:00:0\d", plain)


def on_a_terminal(*command):
    """Return what a command writes to a terminal as standard error."""
    import pty

    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, env=environment) as run:
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # of a terminal that was closed
            while found := os.read(ours, 65536):
                shown += found
    os.close(ours)
    assert run.returncode == 0, shown
    return shown.decode()


def test_a_broken_pipe_ends_quietly(model):
    process = start("sample", model, "-n", "20000")
    assert process.stdout.readline().strip() == b"x,y"
    process.stdout.close()
    assert process.stderr.read() == b""
    process.communicate()
    assert process.returncode == 141


def test_errors_of_a_process(tmp_path):
    process = start("fit", tmp_path / "none.csv", "-o", tmp_path / "m")
    out, errors = process.communicate()
    assert process.returncode == 2
    assert out == b""
    assert errors.decode().splitlines() == [
        f"error: {tmp_path / 'none.csv'}: No such file or directory"
    ]


def failing(monkeypatch, error):
    def fail(*_):
        raise error

    monkeypatch.setattr("sevenhills.cli.table_files.read_table", fail)
    return call("fit", "x.csv", "-o", "m")


def test_interrupted(monkeypatch):
    result = failing(monkeypatch, KeyboardInterrupt())
    assert result.exit_code == 130
    assert result.stderr == "interrupted\n"


def test_a_bug_is_told_from_bad_input(monkeypatch):
    result = failing(monkeypatch, KeyError("lost"))
    assert result.exit_code == 3
    assert result.stderr == (
        "internal error: KeyError: 'lost'; 'sevenhills --debug ...' shows where\n"
    )


def test_debug_shows_the_traceback():
    result = call("--debug", "fit", "none.csv", "-o", "m")
    assert result.exit_code == 2
    assert "Traceback" in result.stderr
    assert "Traceback" not in call("fit", "none.csv", "-o", "m").stderr


def test_warnings_are_one_line(monkeypatch, model, folder):
    def warned(*_):
        warnings.warn("this is\nodd", UserWarning, stacklevel=1)
        warnings.warn("old", DeprecationWarning, stacklevel=1)
        raise ValueError("two\nlines")

    monkeypatch.setattr("sevenhills.cli.table_files.read_table", warned)
    result = call("fit", "x.csv", "-o", "m")
    assert result.stderr == "warning: this is odd\nerror: two lines\n"

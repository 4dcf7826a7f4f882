"""Standard error, and exit codes."""

import warnings

from sevenhills.cli.screen import working

from .runner import call, start


def test_progress_is_shown_on_terminals_only(monkeypatch, capsys):
    with working("counting") as tell:
        tell("sheep", 0.5)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    with working("counting") as tell:
        tell("sheep", 0.5)


def test_a_broken_pipe_ends_quietly(model):
    process = start("sample", model, "-n", "200000")
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

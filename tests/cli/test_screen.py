"""Standard error."""


def test_progress_is_shown_on_terminals_only(monkeypatch, capsys):
    from sevenhills.cli.screen import working

    with working("counting") as tell:
        tell("sheep", 0.5)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    with working("counting") as tell:
        tell("sheep", 0.5)

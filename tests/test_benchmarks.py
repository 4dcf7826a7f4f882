"""Benchmarks end with a code that says whether their bars were met."""

from pathlib import Path

import pytest

measuring = pytest.importorskip("benchmarks.measuring", reason="benchmarks are not installed")
FOLDER = Path(measuring.__file__).parent
#: What is no benchmark, but a piece of others.
PIECES = {"measuring", "ours", "pedestrians", "peer"}


def bars():
    return measuring.Bars(at_least={"ratio, x = 2": 10}, at_most={"error": 1e-8})


def end(of, main, arguments, monkeypatch):
    """Run a benchmark as from the command line and return its exit code."""
    monkeypatch.setattr("sys.argv", ["benchmark", *arguments])
    with pytest.raises(SystemExit) as stop:
        of.run(main)
    return stop.value.code


@pytest.mark.parametrize(
    ("values", "arguments", "missed"),
    [
        ({"ratio, x = 2": 10, "error": 1e-8}, [], []),
        ({"ratio, x = 2": 9.99}, [], ["ratio, x = 2 (aniso) is 9.99, must be at least 10"]),
        ({"error": 2e-8}, [], ["error (aniso) is 2e-08, must be at most 1e-08"]),
        ({"error": float("nan")}, [], ["error (aniso) is nan"]),
        ({"ratio, x = 2": 50}, ["--bar", "ratio, x = 2=1e9"], ["must be at least 1e+09"]),
        ({"error": 1}, ["--bar", "error=2"], []),
    ],
)
def test_a_missed_bar_is_named_and_ends_with_1(values, arguments, missed, monkeypatch, capsys):
    of = bars()

    def main():
        for name, value in values.items():
            assert of.check(name, value, "aniso") == of[name]

    assert end(of, main, arguments, monkeypatch) == bool(missed)
    said = capsys.readouterr().err
    assert said.count("bar missed") == len(missed)
    assert all(text in said for text in missed)


def test_with_fail_fast_the_first_one_ends_it(monkeypatch):
    of = bars()

    def main():
        of.check("error", 1)
        raise AssertionError("it went on")

    assert end(of, main, ["--fail-fast"], monkeypatch) == 1


@pytest.mark.parametrize("option", ["errors=1", "error=small", "error"])
def test_a_bar_that_does_not_exist_is_refused(option):
    with pytest.raises(SystemExit, match=r"--bar .*error"):
        bars().read(["benchmark", "--bar", option])


def test_every_benchmark_ends_with_a_verdict():
    for path in [*FOLDER.glob("*.py"), FOLDER / "contest" / "table.py"]:
        if path.stem not in PIECES:
            assert "BARS = Bars(" in path.read_text(), path
            assert "BARS.run(main" in path.read_text(), path

"""Help, usage errors and standard streams."""

import re
import subprocess
import sys

import pytest

import sevenhills
from sevenhills.cli.app import COMMANDS

from .runner import call, done, refused

NAMES = [command.__name__ for command in COMMANDS]


@pytest.mark.parametrize("command", [[], *[[name] for name in NAMES]])
def test_help_has_examples_and_keeps_their_lines(command):
    text = done(*command, "--help").stdout
    examples = text.split("For example:\n")[1].split("\n\n")[0].splitlines()
    assert len(examples) >= 2
    for example in examples:
        assert re.match(r" {4}(sevenhills|cat) ", example)


def test_help_loads_nothing_heavy():
    code = (
        "import sys\n"
        "sys.argv = ['sevenhills', 'fit', '--help']\n"
        "from sevenhills.cli import main\n"
        "try: main()\n"
        "except SystemExit as end: assert end.code == 0\n"
        "heavy = {'numpy', 'rich', 'scipy', 'sklearn', 'numba', 'pandas'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_shells_complete_commands(monkeypatch):
    # Which shell there is depends on what started the tests.
    monkeypatch.setattr("shellingham.detect_shell", lambda *_: ("bash", "/bin/bash"))
    assert "complete" in done("--show-completion").stdout
    assert done("--version").stdout.strip() == sevenhills.__version__


def test_usage_errors_have_code_two(folder, model):
    assert refused("fit").lower().startswith("error: missing argument 'data'; see '")
    assert "Did you mean 'fit'?" in refused("fits")
    assert "'rom' is not one of 'rome'" in refused("fit", "x.csv", "-o", "m", "--estimator", "rom")
    assert "'--number'" in refused("sample", model, "-n", "-3")
    assert "Commands:" in call().output

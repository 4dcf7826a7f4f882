"""Commands run in this process, or in one of their own."""

import subprocess
import sys

import numpy as np
from typer.testing import CliRunner

from sevenhills import datasets
from sevenhills.cli.app import app

ANISO = datasets.load("aniso")


def call(*arguments, given=None):
    """Run a command in this process."""
    return CliRunner().invoke(app, [str(each) for each in arguments], input=given)


def done(*arguments, given=None):
    """Run a command that must succeed."""
    result = call(*arguments, given=given)
    assert result.exit_code == 0, result.output
    return result


def refused(*arguments, given=None):
    """Run a command that must be refused, and return the one line that says why."""
    result = call(*arguments, given=given)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    assert result.stdout == ""
    lines = result.stderr.strip().splitlines()
    assert lines[-1].startswith("error: ")
    return lines[-1]


def remarks(result):
    """Return the lines on standard error, without the time of compilation, which caches spare."""
    return [line for line in result.stderr.splitlines() if not line.startswith("compiled in ")]


#: The command in a process of its own.
COMMAND = [sys.executable, "-c", "from sevenhills.cli import main; main()"]


def start(*arguments, **options):
    """Run a command in a process of its own."""
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options
    )


def write_csv(path, X, names=("x", "y")):
    np.savetxt(path, X, delimiter=",", header=",".join(names), comments="")
    return path

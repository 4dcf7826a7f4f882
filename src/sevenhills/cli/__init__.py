"""The command line: ``sevenhills``.

Commands import numpy and all that follows from it when they run, so that help comes at once.

===============  =============================================================
``app``          the list of commands
``failures``     exit codes, and errors as one line
``options``      options that several commands share
``screen``       what is said on standard error
``tables``       columns of numbers and words, as they were read
``numbers``      cells that are numbers, missing values or words
``text_files``   CSV in its many dialects, and JSON lines
``array_files``  npy, npz and parquet
``reading``      from a path, or standard input, to a table
``samples``      from a table to samples: what is left out, and what is said of it
``models``       recipes by their mode, model files, and the columns of a model
``writing``      results: csv, npy, parquet, JSON lines; never half a file
===============  =============================================================

Every other module is a command.
"""

import sys
from io import TextIOWrapper

from ..extras import import_extra
from .failures import FAILED, INTERRUPTED


def main(arguments: list[str] | None = None) -> None:
    """Run the command ``sevenhills``."""
    if isinstance(sys.stdout, TextIOWrapper):
        # Names of files need not be text.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        import_extra("typer", "cli", "the command line needs typer")
        from .app import app

        app(arguments, prog_name="sevenhills")
    except ImportError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(FAILED)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)

"""The command line: ``sevenhills``.

Commands import numpy, pandas and the estimators when they run, so that help appears at once.

===============  ===========================================================================
``app``          the list of commands
``options``      options that several commands share
``screen``       remarks, progress and errors on standard error; exit codes
``columns``      cells as numbers, missing values or words
``dates``        dates, times of day and weekdays as numbers
``table_files``  tables in any format, from a path or standard input; the dialects of csv
``samples``      samples from a table; columns and rows that are left out, and remarks on them
``model_files``  estimators by name, model files, and rows in the columns of a model
``writing``      results as csv, npy, parquet, JSON lines or JSON
===============  ===========================================================================

Commands are in the other modules: ``fit``, ``query``, ``outliers``, ``compare`` and ``pages``.
"""

import sys
from io import TextIOWrapper

from ..extras import import_extra
from .screen import FAILED, INTERRUPTED


def main(arguments: list[str] | None = None) -> None:
    """Run the command ``sevenhills``."""
    if isinstance(sys.stdout, TextIOWrapper):
        # Names of files need not be valid UTF-8.
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

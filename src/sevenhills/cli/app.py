"""The list of commands."""

from inspect import cleandoc
from typing import Annotated

import typer

from .compare import compare
from .demo import demo
from .describe import describe
from .failures import guarded, set_debug
from .fit import fit
from .forecast import forecast
from .outliers import outliers
from .report import report
from .reproduce import reproduce
from .sample import sample
from .score import score

#: In the order in which ``sevenhills --help`` lists them. A command is a function whose module
#: imports nothing heavy at its top.
COMMANDS = (fit, describe, score, sample, outliers, compare, report, forecast, demo, reproduce)


def _version(wanted: bool) -> None:
    if wanted:
        from .. import __version__

        typer.echo(__version__)
        raise typer.Exit


def sevenhills(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Robust density estimation of multi-modal data.

    For example:
      sevenhills demo
      sevenhills fit data.csv -o model.sevenhills
      sevenhills describe model.sevenhills
      sevenhills score model.sevenhills new.csv -o scores.csv
      sevenhills compare before.csv after.csv

    Exit codes:
      0    done
      1    done, and there is a finding: compare found two different distributions
      2    bad input or bad usage
      3    an error of sevenhills itself
      130  interrupted
      141  what read the output has closed it
    """
    set_debug(debug)


def with_lines_kept(text: str | None) -> str:
    """Mark paragraphs that begin with a line like ``For example:``, lest typer fill their lines."""
    paragraphs = cleandoc(text or "").split("\n\n")
    return "\n\n".join(
        f"\b\n{each}" if each.split("\n")[0].endswith(":") else each for each in paragraphs
    )


# Plain help, because that of rich takes twice as long to appear.
app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None)
app.callback(help=with_lines_kept(sevenhills.__doc__))(sevenhills)
for command in COMMANDS:
    app.command(help=with_lines_kept(command.__doc__))(guarded(command))

"""The list of commands."""

import sys
from inspect import cleandoc
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from .compare import compare
from .demo import demo, warm
from .evaluate import evaluate
from .fit import fit
from .forecast import forecast
from .options import with_groups
from .outliers import outliers
from .pages import report
from .query import describe, sample, score
from .screen import guarded, remark, set_debug

#: In the order in which ``sevenhills --help`` lists them. A command is a function whose module
#: imports nothing heavy at its top.
COMMANDS = (
    *(fit, describe, score, sample, outliers, compare, evaluate),
    *(report, forecast, demo, warm),
)
#: Typer's error for a malformed command line, which has no public name.
_UsageError: Any = typer.BadParameter.__base__


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
      1    done, and there is a finding: compare found different distributions
      2    bad input or bad usage
      3    internal error
      130  interrupted
      141  broken pipe
    """
    set_debug(debug)


def with_lines_kept(text: str | None) -> str:
    """Keep the lines of paragraphs that begin with a line like ``For example:``."""
    paragraphs = cleandoc(text or "").split("\n\n")
    return "\n\n".join(
        f"\b\n{each}" if each.split("\n")[0].endswith(":") else each for each in paragraphs
    )


def _usage_message(error: Any) -> str:
    """Return a usage error as one line, or the help text that typer raises as an error."""
    message = error.format_message()
    if "\n" in message or error.ctx is None:
        return message
    # Pydantic's prefix carries no information.
    message = message.replace("Value error, ", "").rstrip(".")
    message = message[0].lower() + message[1:]
    message += " " if message.endswith("?") else "; "
    return f"error: {message}see '{error.ctx.command_path} --help'"


class Commands(TyperGroup):
    """Commands whose usage errors are one line, too."""

    def main(self, *args: Any, **options: Any) -> Any:
        """Run a command, and end the process with its exit code."""
        run: Any = super().main
        is_alone = options.pop("standalone_mode", True)
        try:
            code = run(*args, standalone_mode=False, **options)
        except _UsageError as error:
            if not is_alone:
                raise
            remark(_usage_message(error))
            code = error.exit_code
        return sys.exit(code) if is_alone else code


# The help of rich takes twice as long to appear.
app = typer.Typer(
    cls=Commands, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None
)
app.callback(help=with_lines_kept(sevenhills.__doc__))(sevenhills)
for command in COMMANDS:
    app.command(help=with_lines_kept(command.__doc__))(guarded(with_groups(command)))

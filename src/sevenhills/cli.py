"""The command line."""

import sys

from .extras import import_extra


def main() -> None:
    """Run the command ``sevenhills``."""
    try:
        typer = import_extra("typer", "cli", "the command line needs typer")
        from .experiments.command import reproduce
        from .report.command import forecast
    except ImportError as error:
        sys.exit(f"error: {error}")

    app = typer.Typer(
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        help="Robust density estimation of multi-modal data.",
    )
    app.command()(forecast)
    app.command()(reproduce)
    app.callback()(_sevenhills)
    app()


def _sevenhills() -> None:
    """Robust density estimation of multi-modal data."""


if __name__ == "__main__":
    main()

"""Rerun the study: ``python -m sevenhills.experiments --quick``."""

import sys

from ..extras import import_extra

if __name__ == "__main__":
    try:
        typer = import_extra("typer", "experiments", "rerunning the study needs typer")
        from .command import reproduce
    except ImportError as error:
        sys.exit(f"error: {error}")
    typer.run(reproduce)

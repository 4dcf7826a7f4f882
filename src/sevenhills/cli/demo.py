"""The command ``demo``."""

from pathlib import Path
from typing import Annotated

import typer

from .screen import remark


def demo(
    folder: Annotated[Path, typer.Argument(help="Where to write tables and pictures.")] = Path(
        "demo"
    ),
) -> None:
    """Fit two embedded data sets and draw them.

    Writes the pictures, and two tables to try the other commands on: aniso.csv and, of the same
    distribution, aniso_new.csv.

    For example:
      sevenhills demo
      sevenhills fit demo/aniso.csv -o aniso.sevenhills
      sevenhills compare demo/aniso.csv demo/aniso_new.csv
    """
    from .. import datasets
    from ..extras import import_extra
    from .writing import write_table

    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in zip(
        ("aniso.csv", "aniso_new.csv"), datasets.load("aniso").split(run=0), strict=True
    ):
        write_table({"x": rows[:, 0], "y": rows[:, 1]}, str(folder / name), "csv")
    try:
        import_extra("matplotlib", "plot", "the pictures need matplotlib")
    except ImportError as error:
        remark(f"no pictures: {error}")
        return
    from ..demo import main

    main([str(folder)])

"""The command ``sample``."""

from typing import Annotated

import typer

from . import options
from .screen import counted, working


def sample(
    model: options.ModelFile,
    n: Annotated[int, typer.Option("-n", "--number", min=0, help="Number of rows to draw.")] = 1000,
    seed: options.Seed = None,
    output: options.Output = "-",
    format: options.Format = None,
    json: options.Json = False,
) -> None:
    """Draw new rows from a fitted density.

    For example:
      sevenhills sample model.sevenhills -n 5
      sevenhills sample model.sevenhills -n 100000 --seed 0 -o draws.parquet
      sevenhills sample model.sevenhills -n 100 --json
    """
    from .model_files import read_model
    from .writing import check_output, write_json, write_table

    format_found = check_output(output, format)
    known = read_model(model)
    with working(f"drawing {counted(n, 'row')}"):
        rows = known.density.sample(n, seed)
    names = known.shown_names
    to_file = output != "-"
    if to_file or not json:
        write_table({name: rows[:, i] for i, name in enumerate(names)}, output, format_found)
    if json:
        found = {"columns": names, "n_rows": n}
        write_json(found if to_file else {**found, "rows": rows})

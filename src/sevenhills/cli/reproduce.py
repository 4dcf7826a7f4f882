"""The command ``reproduce``."""

from pathlib import Path
from typing import Annotated

import typer


def reproduce(
    quick: Annotated[bool, typer.Option("--quick", help="3 runs, 2-D sets: minutes.")] = False,
    standard: Annotated[
        bool, typer.Option("--standard", help="10 runs, all sets: the default.")
    ] = False,
    full: Annotated[bool, typer.Option("--full", help="100 runs, as published: hours.")] = False,
    plan: Annotated[
        Path | None, typer.Option(help="A TOML file with changes to the preset.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Where results are stored and written.")] = Path(
        "reproduction"
    ),
    page: Annotated[
        Path | None, typer.Option(help="The page to write; reproduction.md in that folder if none.")
    ] = None,
    jobs: Annotated[int, typer.Option(help="Number of processes, -1 for all cores.")] = -1,
    retry: Annotated[bool, typer.Option("--retry", help="Try failed figures again.")] = False,
    figures: Annotated[bool, typer.Option(help="Draw the figures, too.")] = True,
) -> None:
    """Rerun the ROME study.

    Every table and figure is written beside the published ones. Every figure is stored as soon
    as it is known; stopped at any moment, the same command goes on where it was. Needs
    the extra `experiments`.

    For example:
      sevenhills reproduce --quick --out reproduction
      sevenhills reproduce --standard --jobs 4
    """
    from ..experiments.command import reproduce as rerun

    chosen = {"quick": quick, "standard": standard, "full": full}
    presets = [name for name, wanted in chosen.items() if wanted]
    rerun(presets, plan, out, page, n_jobs=jobs, retry=retry, figures=figures)

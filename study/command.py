"""The command ``python -m study``: rerun the study and write its tables, figures and page."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from sevenhills.cli.app import with_lines_kept
from sevenhills.cli.screen import guarded

from .figures import draw_figures
from .plan import PRESETS, Plan
from .report import Agreement, write_page, write_tables
from .runs import run
from .store import Row, Store, columns_of
from .tables import paper_tables


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

    Writes all tables and figures beside the published ones. Every result is stored as soon as it
    is measured: after an interruption, the same command continues from the stored results.

    For example:
      python -m study --quick --out reproduction
      python -m study --standard --jobs 4
    """
    chosen = {"quick": quick, "standard": standard, "full": full}
    presets = [name for name, wanted in chosen.items() if wanted]
    screen = Console(stderr=True)
    try:
        planned = _plan(presets, plan)
        rows = _run(planned, out, jobs, retry, screen)
        screen.print("writing tables")
        write_tables(out, rows)
        pictures = _draw(out, planned, rows, screen) if figures else []
        page = page or out / "reproduction.md"
        write_page(page, planned, rows, pictures, os.path.relpath(out / "figures", page.parent))
    except KeyboardInterrupt:
        screen.print(f"results are stored in {out}; the same command continues from them")
        raise
    print((out / "tables.md").read_text(encoding="utf-8"))
    print(Agreement.from_tables(paper_tables(rows)).describe())
    print(f"Written: {page}, and tables and figures in {out}")


def _plan(presets: Sequence[str], changes: Path | None) -> Plan:
    if len(presets) > 1:
        raise ValueError(f"choose one of --{', --'.join(presets)}")
    plan = PRESETS[presets[0] if presets else "standard"]
    return plan.changed_by(changes) if changes else replace(plan)


def _run(plan: Plan, out: Path, jobs: int, retry: bool, screen: Console) -> list[Row]:
    stored = {row.cell for row in Store(out).read()}
    wanted = plan.cells()
    n_stored = sum(cell in stored for cell in wanted)
    screen.print(f"{len(wanted)} figures, {n_stored} of them stored in {out}")
    with _bar(screen, len(wanted)) as tell:
        return run(plan, out, n_jobs=jobs, retry=retry, progress=tell)


@contextmanager
def _bar(screen: Console, total: int) -> Iterator[Any]:
    """Show a progress bar with the running cells and the remaining time."""
    columns = (
        BarColumn(bar_width=30),
        TextColumn("{task.completed:.0f}/{task.total:.0f}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=screen, speed_estimate_period=600) as progress:
        task = progress.add_task("starting", total=total)

        def tell(n_done: int, running: Sequence[str]) -> None:
            progress.update(task, completed=n_done, description="; ".join(running))

        yield tell


def _draw(out: Path, plan: Plan, rows: Sequence[Row], screen: Console) -> Any:
    with screen.status("drawing figures") as status:
        return draw_figures(
            out / "figures",
            columns_of(rows),
            distributions=plan.distributions,
            progress=status.update,
        )


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
app.command(help=with_lines_kept(reproduce.__doc__))(guarded(reproduce))

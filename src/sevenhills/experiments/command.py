"""What ``sevenhills reproduce`` does: rerun the study and write its tables, figures and page."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from .agreement import Agreement
from .figures import draw_figures
from .plan import PRESETS, Plan
from .report import write_page, write_tables
from .runner import run
from .store import Row, Store, columns_of
from .tables import paper_tables


def reproduce(
    presets: Sequence[str],
    changes: Path | None,
    out: Path,
    page: Path | None,
    *,
    n_jobs: int,
    retry: bool,
    figures: bool,
) -> None:
    """Rerun the study, store every figure at once, and write tables, figures and the page.

    Parameters
    ----------
    presets : sequence of str
        The names of presets that were asked for; "standard" if there are none, and one at most.
    changes : Path or None
        A TOML file with changes to the preset.
    out : Path
        Where results are stored and written.
    page : Path or None
        The page to write; ``reproduction.md`` in that folder by default.
    n_jobs : int
        Number of processes, -1 for all cores.
    retry : bool
        Whether to try failed figures again.
    figures : bool
        Whether to draw the figures, too.
    """
    screen = Console(stderr=True)
    try:
        plan = _plan(presets, changes)
        rows = _run(plan, out, n_jobs, retry, screen)
        screen.print("writing tables")
        write_tables(out, rows)
        pictures = _draw(out, plan, rows, screen) if figures else []
        page = page or out / "reproduction.md"
        write_page(page, plan, rows, pictures, os.path.relpath(out / "figures", page.parent))
    except KeyboardInterrupt:
        screen.print(f"what is done is stored in {out}, the same command goes on from it")
        raise
    print((out / "tables.md").read_text(encoding="utf-8"))
    print(Agreement.of(paper_tables(rows)).describe())
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
    """Show how far the work is, what runs, and how long it may still take."""
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

"""Standard error: remarks, and progress if it is a terminal."""

import os
import sys
import textwrap
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from ..progress import Progress, no_progress

#: Longest remark, and longest name in it. Longer ones lose their middle, because a remark
#: begins with the name of the file and ends with the remedy.
_MAX_REMARK, _MAX_NAME = 600, 60


def remark(*texts: str) -> None:
    """Print lines that are not results; on a terminal long lines are wrapped."""
    for line in "\n".join(texts).split("\n") if texts else ():
        line = shortened(line, _MAX_REMARK)
        print(_filled(line) if sys.stderr.isatty() else line, file=sys.stderr)


def shortened(text: str, limit: int = _MAX_NAME) -> str:
    """Return a text, without its middle if it is too long.

    Examples
    --------
    >>> from sevenhills.cli.screen import shortened
    >>> shortened("height"), shortened("abcdefghijklmnopqrst", limit=11)
    ('height', 'abcdef...st')
    """
    if len(text) <= limit:
        return text
    end = (limit - 3) // 3
    return f"{text[: limit - 3 - end]}...{text[len(text) - end :]}"


def _filled(line: str) -> str:
    try:
        width = max(40, os.get_terminal_size(sys.stderr.fileno()).columns - 1)
    except (OSError, ValueError):  # not a terminal
        return line
    return textwrap.fill(line, width, subsequent_indent="  ", break_on_hyphens=False)


def listed(names: Iterable[str], limit: int = 5) -> str:
    """Return names separated by commas, only the first if there are many."""
    names = list(names)
    shown = ", ".join(map(shortened, names[:limit]))
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"


def counted(number: int, thing: str) -> str:
    """Return a number with its noun.

    Examples
    --------
    >>> from sevenhills.cli.screen import counted
    >>> counted(1, "row"), counted(2500, "row")
    ('1 row', '2,500 rows')
    """
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


@contextmanager
def working(task: str) -> Iterator[Progress]:
    """Show a task, its elapsed time and its progress if standard error is a terminal."""
    if not sys.stderr.isatty():
        yield no_progress
        return
    from rich.console import Console
    from rich.progress import Progress as Bar
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        shown = bar.add_task(task, total=None)

        def update(stage: str, part: float) -> None:
            bar.update(shown, description=f"{task}: {stage} {part:.0%}")

        yield update

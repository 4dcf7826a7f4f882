"""What is said on standard error: remarks, and progress if somebody watches."""

import os
import sys
import textwrap
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from ..progress import Progress, no_progress

#: Characters of a remark and of a name in it. The middle of longer ones is left out, because a
#: remark begins with the name of the file and ends with the remedy.
_MOST_CHARACTERS, _MOST_OF_NAME = 600, 60


def remark(*texts: str) -> None:
    """Say something that is not a result; a terminal gets long lines broken at words."""
    for line in "\n".join(texts).split("\n") if texts else ():
        line = shortened(line, _MOST_CHARACTERS)
        print(_filled(line) if sys.stderr.isatty() else line, file=sys.stderr)


def shortened(text: str, most: int = _MOST_OF_NAME) -> str:
    """Return a text without its middle if it is too long.

    Examples
    --------
    >>> from sevenhills.cli.screen import shortened
    >>> shortened("height"), shortened("abcdefghijklmnopqrst", most=11)
    ('height', 'abcdef...st')
    """
    if len(text) <= most:
        return text
    end = (most - 3) // 3
    return f"{text[: most - 3 - end]}...{text[len(text) - end :]}"


def _filled(line: str) -> str:
    try:
        width = max(40, os.get_terminal_size(sys.stderr.fileno()).columns - 1)
    except (OSError, ValueError):  # no terminal after all
        return line
    return textwrap.fill(line, width, subsequent_indent="  ", break_on_hyphens=False)


def listed(names: Iterable[str], most: int = 5) -> str:
    """Return names in a sentence, the first of them if there are many."""
    names = list(names)
    shown = ", ".join(map(shortened, names[:most]))
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


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
def working(what: str) -> Iterator[Progress]:
    """Show that work goes on, since when and how far it is, if standard error is a terminal."""
    if not sys.stderr.isatty():
        yield no_progress
        return
    from rich.console import Console
    from rich.progress import Progress as Bar
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)

        def tell(stage: str, part: float) -> None:
            bar.update(task, description=f"{what}: {stage} {part:.0%}")

        yield tell

"""Standard error: remarks, progress if it is a terminal, and errors as one line."""

import errno
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from functools import wraps
from typing import Any

from ..progress import Clock, show_progress

#: The command succeeded, and has a finding, like two different distributions.
FINDING = 1
#: Bad input or bad usage; typer's own usage errors have the same code.
FAILED = 2
#: Any other error.
BUG = 3
INTERRUPTED = 130
#: The code that shells report for a program that is ended by a closed pipe.
BROKEN_PIPE = 141

_debug: ContextVar[bool] = ContextVar("debug", default=False)
#: Errors that bad input causes. All others are bugs.
_EXPECTED = (ValueError, TypeError, OSError, ImportError, MemoryError, OverflowError)
#: Longest remark, and longest name in it. Longer ones lose their middle, because a remark
#: begins with the name of the file and ends with the remedy.
_MAX_REMARK, _MAX_NAME = 600, 60


def remark(*texts: str) -> None:
    """Print lines that are not results."""
    for line in "\n".join(texts).split("\n") if texts else ():
        print(shortened(line, _MAX_REMARK), file=sys.stderr)


def shortened(text: str, limit: int = _MAX_NAME) -> str:
    """Return a text, without its middle if it is too long."""
    if len(text) <= limit:
        return text
    end = (limit - 3) // 3
    return f"{text[: limit - 3 - end]}...{text[len(text) - end :]}"


def listed(names: Iterable[str], limit: int = 5) -> str:
    """Return names separated by commas, only the first if there are many."""
    names = list(names)
    shown = ", ".join(map(shortened, names[:limit]))
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"


@contextmanager
def working(task: str) -> Iterator[None]:
    """Show the progress of a task, and how long compilation took if anything was compiled."""
    clock = Clock()
    with _progress_bar(task) if sys.stderr.isatty() else nullcontext():
        yield
    if clock.has_compiled:
        remark(clock.describe(f"{task} took"))


@contextmanager
def _progress_bar(task: str) -> Iterator[None]:
    """Show a task, the share that is done and the time left on standard error."""
    from rich import progress
    from rich.console import Console

    columns = (
        progress.BarColumn(20),
        progress.TaskProgressColumn(),
        progress.TextColumn("{task.description}", markup=False),
        progress.TimeElapsedColumn(),
        progress.TextColumn("left:"),
        progress.TimeRemainingColumn(),
    )
    with progress.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        shown = bar.add_task(task, total=None)
        last = 1.0

        def update(stage: str, fraction: float) -> None:
            nonlocal last
            if fraction < last:  # the beginning of a computation
                bar.reset(shown, total=1.0)
            bar.update(shown, completed=fraction, description=f"{task}: {stage}")
            last = fraction

        with show_progress(update):
            yield


def set_debug(debug: bool) -> None:
    """Choose whether errors are shown with their traceback."""
    _debug.set(debug)


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command whose errors are one line and an exit code."""
    import typer

    @wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        try:
            with _warnings_as_notes():
                command(*args, **kwargs)
            sys.stdout.flush()
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except KeyboardInterrupt:
            remark("interrupted")
            raise typer.Exit(INTERRUPTED) from None
        except Exception as error:
            raise typer.Exit(_code_of(error)) from None

    return run


def _code_of(error: Exception) -> int:
    """Report an error, and return the exit code."""
    if _is_broken_pipe(error):
        _discard_output()
        return BROKEN_PIPE
    if _debug.get():
        traceback.print_exc()
    elif isinstance(error, _EXPECTED):
        remark(f"error: {one_line(error)}")
    else:
        remark(
            f"internal error: {type(error).__name__}: {one_line(error)}; "
            "'sevenhills --debug ...' shows where"
        )
    return FAILED if isinstance(error, _EXPECTED) else BUG


def one_line(error: BaseException) -> str:
    """Return the message of an error as one line."""
    if isinstance(error, OSError) and error.strerror:
        # Errors of files carry their name.
        name = "standard output" if error.filename is None else os.fsdecode(error.filename)
        return f"{name}: {error.strerror}"
    return " ".join(str(error).split()) or type(error).__name__


def _is_broken_pipe(error: Exception) -> bool:
    # Windows reports a pipe that nobody reads as an invalid argument.
    closed = (errno.EPIPE, errno.EINVAL) if sys.platform == "win32" else (errno.EPIPE,)
    return isinstance(error, OSError) and error.errno in closed and error.filename is None


def _discard_output() -> None:
    """Keep Python from flushing to the closed pipe when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def _warnings_as_notes() -> Iterator[None]:
    """Print user warnings as one line each, and suppress all others."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        remark(f"warning: {' '.join(str(message).split())}")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("default", UserWarning)
        # Columns are matched by name before they become arrays.
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        warnings.showwarning = show
        yield

"""Exit codes, and errors as one line."""

import errno
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any

from .screen import remark

#: The command did what it was asked to, and what it found is not what one would hope for.
FINDING = 1
#: Bad input or bad usage; typer's own errors of usage have the same code.
FAILED = 2
#: Nobody thought of this.
BUG = 3
INTERRUPTED = 130
#: What a shell reports of a program that a closed pipe ends.
BROKEN_PIPE = 141

_debug: ContextVar[bool] = ContextVar("debug", default=False)
#: What the input is to blame for. All else is a bug.
_EXPECTED = (ValueError, TypeError, OSError, ImportError, MemoryError, OverflowError)


def set_debug(debug: bool) -> None:
    """Choose whether errors come with their traceback."""
    _debug.set(debug)


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command whose errors are one line, and whose exit code says what happened."""
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
    """Say what went wrong, and return the exit code."""
    if _is_broken_pipe(error):
        _discard_output()
        return BROKEN_PIPE
    if _debug.get():
        traceback.print_exc()
    elif isinstance(error, _EXPECTED):
        remark(f"error: {one_line(error)}")
    else:
        remark(
            f"error of sevenhills itself: {type(error).__name__}: {one_line(error)}; "
            "'sevenhills --debug ...' shows where"
        )
    return FAILED if isinstance(error, _EXPECTED) else BUG


def one_line(error: BaseException) -> str:
    """Return what an error says as one line."""
    if isinstance(error, OSError) and error.strerror:
        # Errors of all other files name them.
        name = "standard output" if error.filename is None else os.fsdecode(error.filename)
        return f"{name}: {error.strerror}"
    return " ".join(str(error).split()) or type(error).__name__


def _is_broken_pipe(error: Exception) -> bool:
    # Windows reports a pipe that nobody reads as an invalid argument.
    closed = (errno.EPIPE, errno.EINVAL) if sys.platform == "win32" else (errno.EPIPE,)
    return isinstance(error, OSError) and error.errno in closed and error.filename is None


def _discard_output() -> None:
    """Keep Python from writing to the closed pipe once more when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def _warnings_as_notes() -> Iterator[None]:
    """Say warnings that concern the user as one line, and no others."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        remark(f"warning: {' '.join(str(message).split())}")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("default", UserWarning)
        # Columns are matched by name before they become arrays.
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        warnings.showwarning = show
        yield

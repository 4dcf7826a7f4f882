"""Progress of long computations: the share that is done, and the time that is left.

A computation divides itself into parts (:func:`part`) and reports the share of a part that is done
(:func:`report`). Computations inside a part report shares of that part, so that the share of the
whole grows from 0 to 1. Nothing is reported unless :func:`show_progress` is in effect; threads and
processes of a computation report nothing themselves.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import NamedTuple, TypeVar

T = TypeVar("T")

#: A callback that is called with the name of a stage and the fraction of all stages that is done.
Progress = Callable[[str, float], None]

#: Seconds between two lines about one stage.
_PAUSE = 2.0
#: Shorter compilations, in seconds, are not mentioned.
_SHORTEST_COMPILATION = 0.05
#: The time left is estimated from this many seconds and this fraction on.
_ENOUGH_TIME, _ENOUGH_DONE = 1.0, 0.02


class _Scope(NamedTuple):
    """The range of the whole that the current part covers, and the names of nested parts."""

    show: Progress
    stages: tuple[str, ...] = ()
    start: float = 0.0
    end: float = 1.0

    def report(self, fraction: float) -> None:
        done = self.start + min(max(fraction, 0.0), 1.0) * (self.end - self.start)
        self.show(", ".join(filter(None, self.stages)), done)


_scope: ContextVar[_Scope | None] = ContextVar("progress", default=None)
#: A part of a computation whose progress is not shown, which is that of every small fit.
_NOTHING = nullcontext()


@contextmanager
def show_progress(show: Progress | None = None, *, enabled: bool = True) -> Iterator[None]:
    """Show the progress of all long computations inside of a ``with`` statement.

    Fits, evaluations, cross-validations and permutation tests report their progress.

    Parameters
    ----------
    show : callable, optional
        A function that is called with the name of a stage and the fraction that is done, which
        grows from 0 to 1 in every computation. By default, lines with the fraction and the time
        left are printed, and at the end the time of compilation, if anything was compiled.
    enabled : bool, default=True
        Whether to show anything.

    Examples
    --------
    >>> from sevenhills import ROME, datasets, show_progress
    >>> X = datasets.load("aniso").sample(300, random_state=0)
    >>> fractions = []
    >>> with show_progress(lambda stage, fraction: fractions.append(fraction)):
    ...     rome = ROME().fit(X)
    >>> fractions == sorted(fractions), fractions[-1]
    (True, 1.0)
    """
    if not enabled:
        yield
        return
    if show is not None:
        with _scoped(_Scope(show)):
            yield
        return
    clock = Clock()
    with _scoped(_Scope(_print_progress())):
        yield
    if clock.has_compiled:
        print(clock.describe("computed in"), flush=True)


class Clock:
    """The seconds since its creation, those of the compiler apart."""

    def __init__(self) -> None:
        # Kernels import numba, which the help of the command line does without.
        from .kernels.compile import compile_seconds

        self._compile_seconds = compile_seconds
        self._start, self._compiled = time.perf_counter(), compile_seconds()

    @property
    def compiled(self) -> float:
        """The seconds of the compiler."""
        return self._compile_seconds() - self._compiled

    @property
    def has_compiled(self) -> bool:
        """Whether the compiler took long enough to be mentioned."""
        return self.compiled >= _SHORTEST_COMPILATION

    def describe(self, done: str) -> str:
        """Return a text like "compiled in 6.1 s, fitted in 0.04 s" for "fitted in"."""
        rest = time.perf_counter() - self._start - self.compiled
        compiled = f"compiled in {self.compiled:.1f} s, " if self.has_compiled else ""
        return f"{compiled}{done} {rest:.2f} s"


def part(stage: str, start: float = 0.0, end: float = 1.0) -> AbstractContextManager[None]:
    """Take what is done inside as a part of the current computation, from a fraction to another.

    A part without a name leaves the reports to the parts inside of it.
    """
    scope = _scope.get()
    return _NOTHING if scope is None else _reported_part(scope, stage, start, end)


@contextmanager
def _reported_part(scope: _Scope, stage: str, start: float, end: float) -> Iterator[None]:
    width = scope.end - scope.start
    inner = scope._replace(
        stages=(*scope.stages, stage),
        start=scope.start + start * width,
        end=scope.start + end * width,
    )
    with _scoped(inner):
        if stage:
            inner.report(0.0)
        yield
        if stage:
            inner.report(1.0)


def step(stage: str, i: int, n: int) -> AbstractContextManager[None]:
    """Take what is done inside as the ``i``-th, from 0, of ``n`` equal parts."""
    return part(stage, i / n, (i + 1) / n)


def tracked(items: Sequence[T]) -> Iterator[T]:
    """Yield items, and report the fraction of them that is done."""
    for i, item in enumerate(items, start=1):
        yield item
        report(i / len(items))


@contextmanager
def muted() -> Iterator[None]:
    """Ignore the progress of what is done inside."""
    with _scoped(None):
        yield


@contextmanager
def _scoped(scope: _Scope | None) -> Iterator[None]:
    token = _scope.set(scope)
    try:
        yield
    finally:
        _scope.reset(token)


def report(fraction: float) -> None:
    """Report the fraction of the current part that is done."""
    scope = _scope.get()
    if scope is not None:
        scope.report(fraction)


def _print_progress() -> Progress:
    """Return a callback that prints the beginning of every stage, and its progress at times."""
    start = shown = time.monotonic()
    last_stage, last_fraction = "", 0.0

    def show(stage: str, fraction: float) -> None:
        nonlocal start, shown, last_stage, last_fraction
        now = time.monotonic()
        if fraction < last_fraction:  # of another computation
            start = now
        if stage != last_stage or now - shown >= _PAUSE:
            line = f"{now - start:8.1f} s  {fraction:4.0%}  {stage}"
            print(line + _time_left(now - start, fraction), flush=True)
            shown = now
        last_stage, last_fraction = stage, fraction

    return show


def _time_left(elapsed: float, fraction: float) -> str:
    """Return the time that is left if the rest is as fast, empty if too little is done."""
    if elapsed < _ENOUGH_TIME or not _ENOUGH_DONE <= fraction < 1:
        return ""
    return f", about {elapsed * (1 - fraction) / fraction:.0f} s left"

"""All cases by name, and the guard around each of them."""

import contextlib
import io
import os
import random
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
from threadpoolctl import ThreadpoolController

from .checks import Failed, check
from .exceptions import EXCEPTIONS
from .subjects import Subject


@dataclass(frozen=True)
class Case:
    """One thing that a careful user expects.

    ``demand`` raises if a subject does not meet it; ``needs`` are things that subjects may lack.
    """

    name: str
    group: str
    needs: tuple[str, ...]
    demand: Callable[[Subject], None]


CASES: dict[str, Case] = {}


def group(title):
    """Return the decorator that registers the cases of a group."""

    def case(name, *, needs=()):
        def register(demand):
            if name in CASES:
                raise ValueError(f"there are two cases {name!r}")
            CASES[name] = Case(name, title, tuple(needs), demand)
            return demand

        return register

    return case


def family(case, template, variants, *, needs=()):
    """Register one case for each of the named variants, handed over as the second argument."""

    def register(demand):
        for name, variant in variants.items():
            case(template.format(name), needs=needs)(partial(_demand_of, demand, variant))
        return demand

    return register


def _demand_of(demand, variant, subject):
    demand(subject, variant)


def why_not(case: Case, subject: Subject) -> str | None:
    """Return why a subject does not offer what a case is about; None if it does."""
    for thing in case.needs:
        if thing in subject.lacks:
            return subject.lacks[thing]
    return EXCEPTIONS.get((case.name, subject.name))


def one_thread():
    """Return a context in which BLAS has one thread: on small matrices, two wait for each other."""
    return _thread_pools().limit(limits=1)


@cache
def _thread_pools() -> ThreadpoolController:
    return ThreadpoolController()


def run(case: Case, subject: Subject) -> None:
    """Raise if a subject does not meet a case, or does anything else beside it.

    Samples outside of a support may be refused, whatever the case is about.
    """
    with one_thread(), nothing_else():
        try:
            case.demand(subject)
        except (ValueError, Failed) as error:
            if subject.refuses is None or not re.search(subject.refuses, str(error)):
                raise


@contextlib.contextmanager
def nothing_else() -> Iterator[None]:
    """Demand that no warning is given, nothing printed, and no global generator used."""
    numpy_state, python_state = np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        with warnings.catch_warnings(record=True) as warned, _output() as printed:
            warnings.simplefilter("always")
            # ROME says so of features of all scales, rightly.
            warnings.filterwarnings("ignore", "the scales of")
            yield
        check(_is_at(numpy_state), "used numpy's global generator")
        check(random.getstate() == python_state, "used Python's global generator")
    finally:
        np.random.set_state(numpy_state)  # noqa: NPY002
        random.setstate(python_state)
    if warned:
        raise Failed(f"warned: {warned[0].category.__name__}: {warned[0].message}")
    check(not printed(), f"printed: {printed()[:200]!r}")


def _is_at(numpy_state):
    found = np.random.get_state()  # noqa: NPY002
    return np.array_equal(found[1], numpy_state[1]) and found[2:] == numpy_state[2:]


@contextlib.contextmanager
def _output() -> Iterator[Callable[[], str]]:
    """Collect what Python and compiled code write to the standard streams."""
    python = io.StringIO()
    with tempfile.TemporaryFile() as compiled:

        def text() -> str:
            return python.getvalue() + written

        written = ""
        with (
            _descriptors_into(compiled.fileno()),
            contextlib.redirect_stdout(python),
            contextlib.redirect_stderr(python),
        ):
            yield text
        compiled.seek(0)
        written = compiled.read().decode(errors="replace")


@contextlib.contextmanager
def _descriptors_into(target: int) -> Iterator[None]:
    sys.stdout.flush()
    sys.stderr.flush()
    saved = {stream: os.dup(stream) for stream in (1, 2)}
    try:
        for stream in saved:
            os.dup2(target, stream)
        yield
    finally:
        for stream, copy in saved.items():
            os.dup2(copy, stream)
            os.close(copy)

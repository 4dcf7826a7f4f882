"""What careful users expect of a density estimator, put to every estimator there is.

============== =======================================================
``subjects``   who is put to it, and what each cannot offer
``exceptions`` what a single subject does otherwise, and why
``registry``   cases by name, and the guard around each
``checks``     what a case demands
``data``       the samples, and models fitted to them
============== =======================================================

All other modules are groups of cases.
"""

from . import (
    array_kinds,
    bad_arrays,
    degenerate,
    metamorphic,
    parameters,
    queries,
    sampling,
    sizes,
    state,
    weights,
)
from .exceptions import EXCEPTIONS
from .registry import CASES, Case, run, why_not
from .subjects import OURS, PEERS, Subject

__all__ = [
    "CASES",
    "EXCEPTIONS",
    "OURS",
    "PEERS",
    "Case",
    "Subject",
    "array_kinds",
    "bad_arrays",
    "degenerate",
    "metamorphic",
    "parameters",
    "queries",
    "run",
    "sampling",
    "sizes",
    "state",
    "weights",
    "why_not",
]

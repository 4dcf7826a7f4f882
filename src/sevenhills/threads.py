"""Threads over blocks of work; compiled kernels and numpy release the GIL."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
from joblib import effective_n_jobs

_Out = TypeVar("_Out", bound=np.ndarray | tuple[np.ndarray, ...])


def map_blocks(work: Callable[[range], None], n_blocks: int, n_jobs: int | None) -> None:
    """Call ``work`` on ranges that cover ``range(n_blocks)``, one range per thread.

    With one job or a single block, ``work`` is called once, in the caller's thread.
    """
    n_jobs = min(effective_n_jobs(n_jobs), n_blocks) if n_blocks > 1 else 1
    if n_jobs <= 1:
        work(range(n_blocks))
        return
    shares = [range(n_blocks * i // n_jobs, n_blocks * (i + 1) // n_jobs) for i in range(n_jobs)]
    with ThreadPoolExecutor(n_jobs) as pool:
        list(pool.map(work, shares))


def map_rows(
    function: Callable[[np.ndarray], Any], X: np.ndarray, size: int, n_jobs: int | None, out: _Out
) -> _Out:
    """Write the results of a function for blocks of ``size`` rows into ``out``, in threads.

    The function returns one array with an entry per row, or a tuple of arrays if ``out`` is a
    tuple. The result is ``out``.
    """

    def evaluate(blocks: range) -> None:
        for block in blocks:
            rows = slice(block * size, (block + 1) * size)
            found = function(X[rows])
            if isinstance(out, tuple):
                for values, part in zip(out, found, strict=True):
                    values[rows] = part
            else:
                out[rows] = found

    map_blocks(evaluate, -(-len(X) // size), n_jobs)
    return out

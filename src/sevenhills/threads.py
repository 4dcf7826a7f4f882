"""Threads over blocks of work; compiled kernels release the GIL."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from joblib import effective_n_jobs


def map_blocks(work: Callable[[range], None], n_blocks: int, n_jobs: int | None) -> None:
    """Call ``work`` on ranges that cover ``range(n_blocks)``, each in a thread of its own.

    With one job, or too little work to share, it is one call in the caller's thread.
    """
    n_jobs = min(effective_n_jobs(n_jobs), n_blocks) if n_blocks > 1 else 1
    if n_jobs <= 1:
        work(range(n_blocks))
        return
    shares = [range(n_blocks * i // n_jobs, n_blocks * (i + 1) // n_jobs) for i in range(n_jobs)]
    with ThreadPoolExecutor(n_jobs) as pool:
        list(pool.map(work, shares))

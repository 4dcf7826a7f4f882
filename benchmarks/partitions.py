"""What fits and scores of rows in partitions cost on one worker process and on two.

Start it with ``make bench-dask``; it takes about a quarter of an hour on two cores. Rows are drawn
where they are needed, a partition at a time, and never are in one place. Every size runs on a
cluster of its own whose workers may take 2 GB each: seconds are those on the clock, beside the CPU
time of all workers, and memory is the most that any of the workers ever held, of which it holds
about 250 MB before it has seen a row.
"""

import sys
import time

import dask
import dask.array as da
from benchmarks.measuring import Bars, memory_mb
from distributed import Client, LocalCluster

from sevenhills import DistributedROME, datasets

MEMORY = "2GB"
BARS = Bars(at_most={"MB of a worker": 2000})
ROWS = 200_000
#: Workers, rows, kernels.
RUNS = (
    (1, 1_000_000, "all"),
    (2, 1_000_000, "all"),
    (2, 3_000_000, "all"),
    (1, 10_000_000, "all"),
    (2, 10_000_000, "all"),
    (2, 10_000_000, 10_000),
)


def draw(seed, n_rows):
    """Draw a partition."""
    return datasets.load("aniso").sample(n_rows, random_state=seed)


def rows(n_rows, seed=0):
    """Return rows that are not drawn yet."""
    parts = [
        da.from_delayed(dask.delayed(draw)(seed + i, ROWS), (ROWS, 2), float)
        for i in range(n_rows // ROWS)
    ]
    return da.concatenate(parts)


def on_all(client, function, *args):
    """Call a function in every worker."""
    return list(client.run(function, *args).values())


def timed(client, work):
    """Return what work returns, its time on the clock and the CPU time of all workers."""
    before = sum(on_all(client, time.process_time))
    start = time.perf_counter()
    answer = work()
    clock = time.perf_counter() - start
    return answer, clock, sum(on_all(client, time.process_time)) - before


def measure(n_workers, n_rows, kernels):
    """Print one line of the table."""
    with (
        LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            memory_limit=MEMORY,
            dashboard_address=":0",
        ) as cluster,
        Client(cluster) as client,
    ):
        warm = rows(2 * ROWS, seed=10_000)
        DistributedROME(kernels=kernels).fit(warm).score(warm)
        X = rows(n_rows)
        model, *fitting = timed(client, lambda: DistributedROME(kernels=kernels).fit(X))
        score, *scoring = timed(client, lambda: model.score(X))
        peak = max(on_all(client, memory_mb, True))
    BARS.check("MB of a worker", peak, f"{n_workers} workers, {n_rows} rows, {kernels} kernels")
    print(
        f"| {n_workers} | {n_rows:,} | {kernels} | {fitting[0]:.1f} ({fitting[1]:.1f}) "
        f"| {scoring[0]:.1f} ({scoring[1]:.1f}) | {peak:.0f} | {memory_mb(True):.0f} "
        f"| {score:.4f} |",
        flush=True,
    )


def main():
    """Print the table; numbers on the command line choose its rows."""
    chosen = [int(each) for each in sys.argv[1:]] or range(len(RUNS))
    print(
        "| workers | rows | kernels | fit: s (CPU s) | score: s (CPU s) | MB, worker "
        "| MB, client | mean log density |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for i in chosen:
        measure(*RUNS[i])


if __name__ == "__main__":
    BARS.run(main)

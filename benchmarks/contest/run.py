"""Fit methods to splits of data sets and append their held-out scores to a CSV file.

For example: ``python -m benchmarks.contest.run --role test --methods ROME,GMM-CV --out a.csv``.
Results that are in the file already are not computed again.
"""

import argparse
import csv
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from .data import SETS, DataSet
from .rivals import METHODS, Method

COLUMNS = ["set", "role", "method", "split", "n_train", "n_features", "mean_loglik"]
COLUMNS += ["std_error", "n_clipped", "fit_seconds", "score_seconds", "error"]
KEY = ("set", "method", "split")
#: Lower limit on the log density of a row, so that a single row does not determine a mean.
FLOOR = -1e4

Row = dict[str, str | int | float]


def clipped(logs: np.ndarray) -> tuple[np.ndarray, int]:
    """Return log densities limited from below, and the number of limited ones."""
    bad = ~np.isfinite(logs) | (logs < FLOOR)
    return np.where(bad, FLOOR, logs), int(bad.sum())


def measure(method: Method, train: np.ndarray, test: np.ndarray, seed: int) -> Row:
    """Fit and score one method; an error is recorded as a result."""
    start = time.perf_counter()
    try:
        fitted = method(train, seed)
        between = time.perf_counter()
        logs, n_clipped = clipped(np.asarray(fitted.logpdf(test), dtype=np.float64))
        end = time.perf_counter()
    except Exception as error:
        return {
            "mean_loglik": "nan",
            "fit_seconds": round(time.perf_counter() - start, 3),
            "error": f"{type(error).__name__}: {' '.join(str(error).split())[:200]}",
        }
    return {
        "mean_loglik": float(logs.mean()),
        "std_error": float(logs.std(ddof=1) / np.sqrt(len(logs))),
        "n_clipped": n_clipped,
        "fit_seconds": round(between - start, 3),
        "score_seconds": round(end - between, 3),
    }


def read_rows(path: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV file, an empty list if it does not exist."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def append_row(path: Path, row: Row) -> None:
    """Append a row immediately, so that an interrupted run keeps its results."""
    fresh = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="")
        if fresh:
            writer.writeheader()
        writer.writerow(row)


def missing(
    sets: list[DataSet], methods: list[str], n_splits: int, path: Path
) -> Iterator[tuple[DataSet, str, int]]:
    """Yield the runs that are not in the file yet, the first split of all sets first."""
    done = {tuple(row[name] for name in KEY) for row in read_rows(path)}
    for s in range(n_splits):
        for data in sets:
            for name in methods:
                if (data.name, name, str(s)) not in done:
                    yield data, name, s


def run(sets: list[DataSet], methods: list[str], n_splits: int, path: Path) -> None:
    """Make the missing runs, and print a line for each."""
    for data, name, s in missing(sets, methods, n_splits, path):
        train, test = data.split(s)
        row: Row = {"set": data.name, "role": data.role, "method": name, "split": s}
        row |= {"n_train": len(train), "n_features": train.shape[1]}
        row |= measure(METHODS[name], train, test, seed=s)
        append_row(path, row)
        seconds, error = row["fit_seconds"], row.get("error", "")
        score = float(row["mean_loglik"])
        print(f"{data.name:14} {name:16} {s} {score:10.4f} {seconds:8} s {error}", flush=True)


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--role", choices=["development", "test"], required=True)
    parser.add_argument("--methods", default=",".join(METHODS), help="all by default")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--sets", help="only these of the role")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.methods = options.methods.split(",")
    chosen = [data for data in SETS.values() if data.role == options.role]
    if options.sets:
        wanted = options.sets.split(",")
        chosen = [data for data in chosen if data.name in wanted]
        if unknown := set(wanted) - {data.name for data in chosen}:
            parser.error(f"no {options.role} set is called {', '.join(sorted(unknown))}")
    if unknown := set(options.methods) - set(METHODS):
        parser.error(f"no method is called {', '.join(sorted(unknown))}")
    options.sets = chosen
    return options


def main() -> None:
    """Run the command line."""
    options = parse()
    run(options.sets, options.methods, options.splits, options.out)


if __name__ == "__main__":
    main()

"""Print the results of ``run.py`` as Markdown: scores, regrets, and sets where a method is beaten.

For instance ``python -m benchmarks.contest.table a.csv b.csv --role test``.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from benchmarks.measuring import Bars

#: A method counts as beaten if it is this many nats behind the best one of a set.
BARS = Bars(at_most={"worst regret": 0.2, "mean regret": 0.05})


def read(paths: list[Path], role: str | None) -> pd.DataFrame:
    """Return the results of all files, in the order of first occurrence of sets and methods."""
    results = pd.concat([pd.read_csv(path) for path in paths], ignore_index=True)
    # Results of later files replace those of earlier files.
    results = results.drop_duplicates(["set", "method", "split"], keep="last")
    return results if role is None else results[results["role"] == role]


def by_split(results: pd.DataFrame) -> pd.DataFrame:
    """Return mean log-likelihoods; rows are sets and splits, columns are methods."""
    # A failure differs from a missing run, and must not drop out of a mean.
    scored = results.fillna({"mean_loglik": -np.inf})
    table = scored.pivot(index=["set", "split"], columns="method", values="mean_loglik")
    order = list(dict.fromkeys(results["set"]))
    return table.reindex(columns=list(dict.fromkeys(results["method"]))).loc[order]


def common_splits(table: pd.DataFrame) -> pd.DataFrame:
    """Keep the splits of every set on which all methods of the set have run."""
    kept = [part[part.dropna(axis=1, how="all").notna().all(axis=1)] for _, part in by_set(table)]
    return pd.concat(kept)


def by_set(table: pd.DataFrame) -> Any:
    """Return the sets in the order of their occurrence."""
    return table.groupby(level="set", sort=False)


def regrets(scores: pd.DataFrame) -> pd.DataFrame:
    """Return the regret of every method: the best score of the set minus its own, in nats."""
    return scores.rsub(scores.max(axis=1), axis=0)


def summary(regret: pd.DataFrame) -> pd.DataFrame:
    """Return the worst and the mean regret of every method, and its number of sets."""
    rows = {"worst": regret.max(), "mean": regret.mean(), "sets": regret.notna().sum()}
    return pd.DataFrame(rows)


def behind(table: pd.DataFrame, method: str) -> list[tuple[str, str, float, float]]:
    """Return sets, their best method, its margin over ``method`` and the margin's error.

    The error is of the differences split by split; splits of real sets share rows, so that there
    it is too small.
    """
    lines = []
    for name, part in by_set(table):
        best = part.mean().idxmax()
        if best != method and part[method].notna().any():
            margin = (part[best] - part[method]).dropna()
            error = margin.std(ddof=1) / np.sqrt(len(margin)) if len(margin) > 1 else np.nan
            lines.append((name, best, float(margin.mean()), float(error)))
    return lines


def markdown(table: pd.DataFrame, title: str) -> str:
    """Return a table as Markdown."""
    lines = [f"| {title} | {' | '.join(table.columns)} |", "|---" * (table.shape[1] + 1) + "|"]
    for name, *values in table.itertuples():
        lines.append(f"| {name} | {' | '.join(map(cell, values))} |")
    return "\n".join(lines)


def cell(value: float) -> str:
    """Return a number as text, a missing number as a dash."""
    if isinstance(value, int):
        return str(value)
    return "-" if np.isnan(value) else f"{value:.3f}"


def failures(results: pd.DataFrame) -> list[str]:
    """Return lines about runs with errors or with limited log densities."""
    failed = results[results["mean_loglik"].isna() | (results["n_clipped"] > 0)]
    lines = [f"Runs that failed or had rows clipped: {len(failed)} of {len(results)}.", ""]
    for (name, who), part in failed.groupby(["set", "method"], sort=False):
        clipped = int(part["n_clipped"].fillna(0).sum())
        errors = " ".join(part["error"].dropna().astype(str).unique())
        lines.append(f"- {name}, {who}: {len(part)} runs, {clipped} rows clipped. {errors}".strip())
    return lines


def report(results: pd.DataFrame, method: str) -> str:
    """Return all tables as one text."""
    table = common_splits(by_split(results))
    scores = by_set(table).mean()
    regret = regrets(scores)
    parts = [
        markdown(scores, "mean held-out log-likelihood"),
        markdown(regret, "regret, nats"),
        markdown(summary(regret), "regret over sets"),
    ]
    if method in table:
        BARS.check("worst regret", regret[method].max(), method)
        BARS.check("mean regret", regret[method].mean(), method)
        lines = [f"| {method} is not best on | best | margin | std error |", "|---" * 4 + "|"]
        for name, best, margin, error in behind(table, method):
            lines.append(f"| {name} | {best} | {margin:.3f} | {error:.3f} |")
        parts.append("\n".join(lines))
    return "\n\n".join([*parts, "\n".join(failures(results))])


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", nargs="+", type=Path)
    parser.add_argument("--role", choices=["development", "test"])
    parser.add_argument("--method", default="AutoROME", help="whose defeats to list")
    options = parser.parse_args()
    print(report(read(options.results, options.role), options.method))


if __name__ == "__main__":
    BARS.run(main)

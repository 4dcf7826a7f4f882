"""AutoROME: what it costs beyond the clustering, and how it does on the rows of the study.

Start it with ``make bench-auto``. Costs come from processes of their own; the rows of the study
are read from the stored results of ``make reproduce``.
"""

from pathlib import Path

import numpy as np
import pandas as pd
from benchmarks.measuring import Bars, report, run_part

from sevenhills import AutoROME, datasets
from sevenhills.clustering import Points, find_likely_clusters

#: Distribution, number of samples, and the seconds that may be spent beyond the clustering.
COSTS = {
    ("gaussian", 3000): 0.15,
    ("elliptical", 3000): 0.15,
    ("rotated_elliptical", 3000): 0.15,
    ("aniso", 3000): 0.15,
    ("varied", 3000): 0.15,
    ("two_moons", 3000): 2.0,
    ("trajectories", 3000): 2.0,
    ("two_moons", 30_000): 20.0,
}
#: The mean distance to the log-likelihood of the truth that is allowed.
GAPS = {
    "aniso": 0.005,
    "elliptical": 0.005,
    "gaussian": 0.005,
    "rotated_elliptical": 0.005,
    "trajectories": 0.35,
    "two_moons": 0.03,
    "unimodal_trajectories": 0.35,
    "varied": 0.005,
}
BARS = Bars(
    at_most={
        **{f"seconds of {name}, {n_samples}": bar for (name, n_samples), bar in COSTS.items()},
        **{f"gap of {name}": bar for name, bar in GAPS.items()},
    }
)
RIVALS = ("rome", "parzen", "vine")
#: The Gaussians of which the truth consists.
GAUSSIANS = {"aniso": 3, "varied": 3, "gaussian": 1, "elliptical": 1, "rotated_elliptical": 1}


def cost(name, n_samples):
    """Time a fit."""
    X = datasets.load(name).sample(int(n_samples), random_state=0)
    AutoROME().fit(X[:1000])
    repeats = 3 if int(n_samples) <= 3000 else 1
    report(lambda: AutoROME().fit(X), repeats)


def clustering(name, n_samples):
    """Time the clustering that a fit begins with."""
    X = datasets.load(name).sample(int(n_samples), random_state=0)
    find_likely_clusters(Points.from_samples(X[:1000]))

    def work():
        find_likely_clusters(Points.from_samples(X))

    report(work, 3 if int(n_samples) <= 3000 else 1)


def print_costs():
    """Print the seconds beyond the clustering."""
    print("| samples | clustering, CPU s | beyond it, CPU s | bar | peak MB |")
    print("|---|---|---|---|---|")
    for name, n_samples in COSTS:
        whole, part = (
            run_part("auto", "cost", name, n_samples),
            run_part("auto", "clustering", name, n_samples),
        )
        beyond = whole["seconds"] - part["seconds"]
        bar = BARS.check(f"seconds of {name}, {n_samples}", beyond)
        print(
            f"| {name}, {n_samples} | {part['seconds']:.3f} | {beyond:.3f} | {bar} "
            f"| {whole['peak_mb']:.0f} |",
            flush=True,
        )


def print_rows(path):
    """Print how AutoROME does beside the estimators of the study, run by run."""
    rows = pd.read_parquet(path)
    table = rows.pivot_table(
        index=["distribution", "run"], columns=["metric", "estimator"], values="value"
    )
    print(
        "| row | L - oracle's L | bar | L better | D_JS_true better | D_JS_true | W, mean "
        "| least abs. mean W of rivals | D_JS | floor |"
    )
    print("|---" * 10 + "|")
    for name, part in table.groupby(level="distribution"):
        likely, true, apart = part["L_hat"], part["D_JS_true"], part["W_hat"]
        gap = (likely["oracle"] - likely["auto"]).mean()
        bar = BARS.check(f"gap of {name}", gap)
        wins = sum((likely["auto"] > likely[each]).sum() for each in RIVALS)
        nearer = sum((true["auto"] < true[each]).sum() for each in RIVALS)
        least = min(abs(apart[each].mean()) for each in RIVALS)
        print(
            f"| {name} | {-gap:.4f} | {bar} | {wins} of {len(part) * 3} "
            f"| {nearer} of {len(part) * 3} | {true['auto'].mean():.4f} "
            f"| {apart['auto'].mean():.2f} | {least:.2f} | {part['D_JS']['auto'].mean():.4f} "
            f"| {floor(name)} |"
        )


def floor(name, n_samples=3000):
    """Return the divergence of two fits of a model with the truth's number of parameters."""
    if name not in GAUSSIANS:
        return "-"
    n_parameters = 6 * GAUSSIANS[name] - 1
    return f"{n_parameters / (4 * n_samples * np.log(2)):.4f}"


def main():
    """Print all tables."""
    print_costs()
    stored = Path(__file__).parent.parent / "docs" / "reproduction" / "results.parquet"
    print()
    print_rows(stored)


if __name__ == "__main__":
    BARS.run(main, {"cost": cost, "clustering": clustering, "rows": print_rows})

"""CPU time of parts of the study: scores of clusterings, and manifold Parzen windows.

Start it with ``make bench-study``. Every measurement runs in its own process.
"""

from benchmarks.measuring import Bars, report, run_part

from sevenhills import ROME, ManifoldParzen, datasets

BARS = Bars(at_most={"DBCV / silhouette": 20})
SETS = ("aniso", "varied", "two_moons", "gaussian", "trajectories")


def choose(name, selection):
    """Time the scoring of all candidates of one data set."""
    from sevenhills.clustering import choose, cut, order_by_reachability, score

    X = datasets.load(name).split(0)[0]
    ordering = order_by_reachability(X)
    ROME(selection=selection).fit(X)

    def run():
        cuts = cut(ordering)
        choose(cuts, score(X, cuts, selection, n_neighbors=ordering.n_neighbors))

    report(run, 5)


def windows(name, n_queries):
    """Time the scoring of manifold Parzen windows."""
    distribution = datasets.load(name)
    model = ManifoldParzen(min_std=distribution.min_std).fit(distribution.split(0)[0])
    queries = distribution.sample(int(n_queries), random_state=0)
    model.score_samples(queries[:1])
    report(lambda: model.score_samples(queries), 3)


def main():
    print("| cuts and scores, 3000 samples | silhouette, CPU s | DBCV, CPU s | ratio | bar |")
    print("|---|---|---|---|---|")
    for name in SETS:
        plain, dbcv = (
            run_part("study", "choose", name, by)["seconds"] for by in ("silhouette", "dbcv")
        )
        bar = BARS.check("DBCV / silhouette", dbcv / plain, name)
        print(f"| {name} | {plain:.4f} | {dbcv:.4f} | {dbcv / plain:.1f} | {bar:g} |", flush=True)
    print("\n| windows, 3000 kernels | queries | CPU s | peak MB above the fitted model |")
    print("|---|---|---|---|")
    for name in ("aniso", "trajectories"):
        for n_queries in (3000, 30_000):
            found = run_part("study", "windows", name, n_queries)
            print(
                f"| {name} | {n_queries} | {found['seconds']:.3f} | {found['peak_mb']:.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    BARS.run(main, {"choose": choose, "windows": windows})

"""What sums of many kernels cost at many points, on one core, beside other libraries.

Start it with ``make bench-engines``. Every figure is CPU time, the best of several; the engine is
prepared anew in each of them. Errors are the largest ones in log density at some of the points,
beside direct sums. Peers get a part of the points, and their time is scaled.
"""

import copy
from functools import partial
from itertools import pairwise

import numpy as np
from benchmarks.measuring import Bars, best_of, report, run_part
from scipy.stats import gaussian_kde
from sklearn.neighbors import KernelDensity

from sevenhills import ROME, GaussianKDE, KernelMixture, ManifoldParzen, datasets
from sevenhills.density.engines import Engine, GaussTransform, MatrixProducts, _near_engine
from sevenhills.density.sums import LOG_2PI, log_sums_of, sums_at

#: The promised error, how many times faster than other libraries ours is, and seconds or ratios
#: that ours must stay below.
BARS = Bars(
    at_least={"KernelDensity / ours": 1000, "gaussian_kde / ours": 5},
    at_most={
        "error": 1e-8,
        "own covariances, s": 3.0,
        "own covariances, exponent": 1.3,
        "own covariances in 24-D, ns": 30.0,
        "300 groups / 3": 3.0,
        "ours / products": 1.3,
        "ours / cheaper engine": 1.5,  # the choice takes a few milliseconds
        "4-D, clusters, s": 3,
        "6-D, clusters, s": 6,
        "cost per row, next size / this": 4 / 3,
    },
)
N_CHECKED = 300


def places(X, fresh):
    """Points from the data, ten times wider, a thousand standard deviations away, and mixed."""
    middle = X.mean(axis=0)
    angle = np.random.RandomState(0).uniform(0, 2 * np.pi, len(fresh))
    around = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    wider, away = middle + 10 * (fresh - middle), middle + 1000 * X.std(axis=0) * around
    mixed = fresh.copy()
    mixed[::10], mixed[1::10] = wider[::10], away[1::10]
    return {
        "data": fresh,
        "a tenth of each far one": mixed,
        "10 times wider": wider,
        "1000 stds away": away,
    }


def anew(density):
    """The same density, nothing prepared."""
    return copy.copy(density)


def scoring_time(density, X, repeats):
    """CPU time with and without the preparation, and the log densities."""
    prepared = anew(density)
    found = prepared.logpdf(X)
    alone = best_of(lambda: prepared.logpdf(X), repeats)
    return best_of(lambda: anew(density).logpdf(X), repeats), alone, found


def largest_error(density, X, found):
    rows = np.random.RandomState(1).choice(len(X), N_CHECKED, replace=False)
    direct = sums_at(log_sums_of(density.kernels), X[rows]) - 0.5 * density.n_features * LOG_2PI
    error = np.abs(found[rows] - direct).max()
    BARS.check("error", error, f"{len(X)} points in {density.n_features}-D")
    return error


def print_low(n_samples, repeats, estimators):
    """Print the cost in two dimensions, at as many points as kernels."""
    print(f"\n| {n_samples:.0e} at {n_samples:.0e} in 2-D | points | CPU s | prepared | error |")
    print("|---|---|---|---|---|")
    for name in ("aniso", "two_moons", "varied"):
        X, fresh = (datasets.load(name).sample(n_samples, random_state=s) for s in (0, 1))
        for estimator in estimators:
            density = estimator().fit(X).density_
            for kind, points in places(X, fresh).items():
                seconds, alone, found = scoring_time(density, points, repeats)
                error = largest_error(density, points, found)
                print(
                    f"| {name}, {estimator.__name__} | {kind} | {seconds:.2f} | {alone:.2f} | "
                    f"{error:.0e} |",
                    flush=True,
                )


def print_scikit_learn(n_samples, n_points=200):
    """Print scikit-learn's time for the same kernels, whitened so that they are round."""
    X, fresh = (datasets.load("aniso").sample(n_samples, random_state=s) for s in (0, 1))
    density = GaussianKDE().fit(X).density_
    ours, _, _ = scoring_time(density, fresh, 3)
    peer = KernelDensity(bandwidth=1.0).fit(X @ density.transforms[0])
    points = fresh[:n_points] @ density.transforms[0]
    theirs = best_of(lambda: peer.score_samples(points), 2) * n_samples / n_points
    BARS.check("KernelDensity / ours", theirs / ours)
    print(
        f"\nscikit-learn's KernelDensity, {n_samples:.0e} at {n_samples:.0e} in 2-D: "
        f"{theirs:.0f} s, {theirs / ours:.0f} times ours"
    )


def print_middle(n_samples, n_features, n_points):
    """Print the cost in a few dimensions, for normal samples, at a part of the points."""
    rng = np.random.RandomState(0)
    X, fresh = rng.standard_normal((2, n_samples, n_features))
    density = GaussianKDE().fit(X).density_
    density.logpdf(fresh[:n_points])
    seconds = best_of(
        lambda: Engine.from_kernels(density.kernels, partial(log_sums_of, density.kernels)), 3
    )
    seconds += best_of(lambda: density.logpdf(fresh[:n_points]), 3) * n_samples / n_points
    print(f"\n{n_samples:.0e} at {n_samples:.0e} in {n_features}-D: {seconds:.1f} s", flush=True)


def print_high(n_samples=30_000, n_points=300):
    """Print ours beside scipy in 24 dimensions."""
    X, fresh = (datasets.load("trajectories").sample(n_samples, random_state=s) for s in (0, 1))
    density = GaussianKDE().fit(X).density_
    ours, _, found = scoring_time(density, fresh, 2)
    peer, part = gaussian_kde(X.T), fresh[:n_points].T
    print("\n| 3e4 at 3e4 in 24-D | CPU s | times ours |")
    print("|---|---|---|")
    print(f"| ours, error {largest_error(density, fresh, found):.0e} | {ours:.2f} | |")
    for name, work in (("pdf", peer.pdf), ("logpdf", peer.logpdf)):
        theirs = best_of(lambda w=work: w(part), 2) * n_samples / n_points
        BARS.check("gaussian_kde / ours", theirs / ours, name)
        print(f"| scipy's gaussian_kde, {name} | {theirs:.1f} | {theirs / ours:.1f} |", flush=True)


def clusters(n_samples, n_features, n_clusters, seed):
    """Round normal clusters of one size at random places, and their labels."""
    centers = np.random.RandomState(5).uniform(-8, 8, (n_clusters, n_features))
    rng = np.random.RandomState(seed)
    labels = rng.randint(n_clusters, size=n_samples)
    return centers[labels] + rng.standard_normal((n_samples, n_features)), labels


def print_wide(n_samples=3000):
    """Print ours in many dimensions beside the products engine, and a plain product with exp."""
    print("\n| 3000 at 3000 | ours, CPU s | products engine | matrix product and exp |")
    print("|---|---|---|---|")
    for n_features in (60, 200, 1000):
        rng = np.random.RandomState(0)
        X, fresh = rng.standard_normal((2, n_samples, n_features))
        density = GaussianKDE().fit(X).density_
        ours, _, found = scoring_time(density, fresh, 3)
        largest_error(density, fresh, found)
        direct = log_sums_of(density.kernels)

        def products(kernels=density.kernels, exact=direct, points=fresh):
            engine = MatrixProducts.from_kernels(kernels, exact)
            return sums_at(engine.within(1e-8), points, n_points=4096)

        theirs = best_of(products, 3)
        limit = best_of(lambda a=X, b=fresh: np.exp(-np.abs(b @ a.T)), 3)
        BARS.check("ours / products", ours / theirs, f"{n_features} features")
        print(f"| {n_features} features | {ours:.3f} | {theirs:.3f} | {limit:.3f} |", flush=True)


def print_clustered(n_samples=100_000, n_points=20_000):
    """Print the cost of clusters in four to six dimensions, at a part of the points."""
    for n_features in (4, 5, 6):
        X, fresh = (clusters(n_samples, n_features, 5, seed)[0] for seed in (0, 1))
        density = GaussianKDE().fit(X).density_
        seconds, _, found = scoring_time(density, fresh[:n_points], 2)
        seconds *= n_samples / n_points
        largest_error(density, fresh[:n_points], found)
        if n_features != 5:
            BARS.check(f"{n_features}-D, clusters, s", seconds)
        print(f"\n1e5 at 1e5 in {n_features}-D, five clusters: {seconds:.1f} s", flush=True)


def print_space():
    """Print ours beside both engines for several clusters in space that are scored once."""
    print("\n| 3-D, scored once | ours, CPU s | Gauss transform | near sums |")
    print("|---|---|---|---|")
    for n_samples, n_clusters in ((10_000, 3), (10_000, 10), (100_000, 3), (100_000, 10)):
        (X, labels), (fresh, _) = (clusters(n_samples, 3, n_clusters, seed) for seed in (0, 1))
        for density in (
            GaussianKDE().fit(X).density_,
            ROME(selection=None).fit(X, labels=labels).density_,
        ):
            kernels = density.kernels

            def transform(kernels=kernels, points=fresh):
                made = GaussTransform.from_kernels(kernels)
                Engine(made.within, made.n_points).sums_at(points, 1e-8, None)

            ours, _, found = scoring_time(density, fresh, 1)
            largest_error(density, fresh, found)
            series = best_of(transform, 1)
            near = best_of(lambda k=kernels, p=fresh: _near_engine(k).sums_at(p, 1e-8, None), 1)
            name = f"{n_samples}, {n_clusters} clusters, {len(kernels.log_dets)} covariances"
            BARS.check("ours / cheaper engine", ours / min(series, near), name)
            print(f"| {name} | {ours:.3f} | {series:.3f} | {near:.3f} |", flush=True)


def print_steps():
    """Print the cost per row over sizes in steps of two, around the switch between engines."""
    print("\n| features | microseconds per row, from 1000 samples on in steps of two |")
    print("|---|---|")
    for n_features in (1, 2, 3, 4, 6, 8, 12, 24):
        costs = []
        for n_samples in 1000 * 2 ** np.arange(6):
            X, fresh = np.random.RandomState(0).standard_normal((2, n_samples, n_features))
            weights = np.full(n_samples, 1 / n_samples)
            transform = np.eye(n_features) / n_samples ** (-1 / (n_features + 4))
            density = KernelMixture(weights, X, [0, n_samples], [transform])
            density.logpdf(fresh[:10])
            costs.append(1e6 * scoring_time(density, fresh, 3)[0] / n_samples)
        # Direct sums grow with the number of kernels; more than that is a step.
        worst = max(after / before / 2 for before, after in pairwise(costs))
        BARS.check("cost per row, next size / this", worst, f"{n_features} features, beyond 2")
        print(f"| {n_features} | {', '.join(f'{cost:.2f}' for cost in costs)} |", flush=True)


def print_small():
    """Print what few points cost, for which nothing but direct sums is prepared."""
    X, fresh = (datasets.load("aniso").sample(3000, random_state=s) for s in (0, 1))
    density = GaussianKDE().fit(X).density_
    _, many, _ = scoring_time(density, fresh, 20)
    _, one, _ = scoring_time(density, fresh[:1], 200)
    print(f"\n3000 at 3000 in 2-D: {1e3 * many:.1f} ms; one point: {1e6 * one:.0f} us")


def print_own(n_few=16_000, n_many=100_000):
    """Print what kernels with covariances of their own cost, at as many points, prepared anew.

    The number of neighbors, and thus of kernels in reach of a point, grows with the square root of
    the number of samples by default; the last column but one has 50 neighbors. There the floor of
    the widths, a hundredth of the data's standard deviation, still makes this number grow.
    """
    sizes = f"{n_few:.0e} | {n_many:.0e}"
    print(f"\n| own covariances | {sizes} | exponent | with 50 neighbors | error |")
    print("|---|---|---|---|---|---|")
    for name, n_features in (("aniso", 1), ("aniso", 2), ("varied", 2), ("two_moons", 3)):
        costs = {}
        for n_neighbors in ("auto", 50):
            for n in (n_few, n_many):
                X, fresh = (_lifted(name, n, n_features, s) for s in (0, 1))
                density = ManifoldParzen(n_neighbors=n_neighbors).fit(X).density_
                costs[n_neighbors, n], _, found = scoring_time(density, fresh, 2)
            if n_neighbors == "auto":
                error = largest_error(density, fresh, found)
        of = f"{name} in {n_features}-D"
        growth = np.log(n_many / n_few)
        powers = [np.log(costs[k, n_many] / costs[k, n_few]) / growth for k in ("auto", 50)]
        BARS.check("own covariances, s", costs["auto", n_many], of)
        BARS.check("own covariances, exponent", powers[0], of)
        BARS.check("own covariances, exponent", powers[1], f"{of}, 50 neighbors")
        print(
            f"| {of} | {costs['auto', n_few]:.3f} | {costs['auto', n_many]:.2f} | "
            f"{powers[0]:.2f} | {powers[1]:.2f} | {error:.0e} |",
            flush=True,
        )


def _lifted(name, n_samples, n_features, seed):
    """Two-dimensional samples with fewer features, or with more, which are noise."""
    X = datasets.load(name).sample(n_samples, random_state=seed)
    noise = 0.1 * X.std() * np.random.RandomState(seed).standard_normal((n_samples, n_features))
    return np.ascontiguousarray(np.column_stack([X, noise])[:, :n_features])


def print_own_high(n_samples=8000):
    """Print the cost of a pair in 24 dimensions."""
    paths = [datasets.load("trajectories").sample(n_samples, random_state=s) for s in (0, 1)]
    normal = np.random.RandomState(0).standard_normal((2, n_samples, 24))
    for name, (X, fresh) in (("trajectories", paths), ("normal", normal)):
        density = ManifoldParzen().fit(X).density_
        _, seconds, _ = scoring_time(density, fresh, 2)
        cost = 1e9 * seconds / n_samples**2
        BARS.check("own covariances in 24-D, ns", cost, name)
        print(f"\nown covariances in 24-D, {name}: {cost:.1f} ns per pair", flush=True)


def many_groups(n_features, n_kernels, n_groups):
    """Kernels in groups of their own covariances: clusters, divided into compact parts."""
    rng = np.random.RandomState(0)
    centers = 30 * rng.standard_normal((3, n_features))
    X = 3 * rng.standard_normal((n_kernels, n_features)) + centers[np.arange(n_kernels) % 3]
    parts = [np.arange(n_kernels)]
    while len(parts) < n_groups:
        rows = parts.pop(0)
        rows = rows[np.argsort(X[rows, X[rows].std(axis=0).argmax()])]
        cuts = 3 if len(rows) == n_kernels else 2
        parts += np.array_split(rows, cuts)
    roots = rng.standard_normal((len(parts), n_features, n_features))
    spread = 0.09 * np.eye(n_features) + 0.02 * np.matmul(roots, roots.transpose(0, 2, 1))
    transforms = np.linalg.inv(np.linalg.cholesky(spread)).transpose(0, 2, 1)
    offsets = np.append(0, np.cumsum([len(rows) for rows in parts]))
    weights = np.full(n_kernels, 1 / n_kernels)
    return KernelMixture(weights, X[np.concatenate(parts)], offsets, transforms)


def print_groups():
    """Print the cost of many groups beside that of few, each in a process of its own."""
    print("\n| 3e4 kernels | points | groups | CPU s | times 3 groups | MB |")
    print("|---|---|---|---|---|---|")
    for n_features, n_points, counts in ((2, 30_000, (3, 30, 300)), (24, 3000, (3, 50, 500))):
        costs = {n: run_part("engines", "groups", n_features, n_points, n) for n in counts}
        for n, cost in costs.items():
            ratio = cost["seconds"] / costs[3]["seconds"]
            BARS.check("300 groups / 3", ratio, f"{n} groups in {n_features}-D")
            print(
                f"| {n_features}-D | {n_points} | {n} | {cost['seconds']:.3f} | {ratio:.1f} | "
                f"{cost['peak_mb']:.0f} |",
                flush=True,
            )


def report_groups(n_features, n_points, n_groups):
    """Report the CPU time of groups, prepared anew, and the memory above that of the mixture."""
    density = many_groups(int(n_features), 30_000, int(n_groups))
    X = density.sample(int(n_points), random_state=1)
    report(lambda: anew(density).logpdf(X), 4)


def main():
    for row in (datasets.load("aniso"), datasets.load("trajectories")):  # compile what is timed
        few = row.sample(8000, random_state=0)
        GaussianKDE().fit(few).density_.logpdf(few)
    print_low(100_000, 5, (GaussianKDE, ROME))
    print_scikit_learn(100_000)
    print_high()
    for n_features, n_points in ((1, 100_000), (3, 100_000), (5, 2000), (8, 2000)):
        print_middle(100_000, n_features, n_points)
    print_small()
    print_own()
    print_own_high()
    print_groups()
    print_wide()
    print_clustered()
    print_space()
    print_steps()
    print_low(1_000_000, 2, (GaussianKDE, ROME))


if __name__ == "__main__":
    parts = {
        "groups": report_groups,
        "own": print_own,
        "own-high": print_own_high,
        "many": print_groups,
    }
    BARS.run(main, parts)

"""What questions to a density cost: ratios in one run, on one core.

Start it with ``make bench-questions``. Marginals and conditionals stand beside a copy of the
kernels, made and checked anew; gradients beside the log density at the same points; modes alone.
Every figure is the best CPU time of several.
"""

import tracemalloc

import numpy as np
from benchmarks.measuring import Bars, best_of

from sevenhills import ROME, GaussianKDE, KernelMixture, ManifoldParzen, datasets

N_SAMPLES = 3000
#: Ratios, and the seconds that modes take.
BARS = Bars(
    at_most={
        "marginal / copy, shared covariances": 2,
        "marginal / copy, own covariances": 60,
        "conditional / copy, shared covariances": 12,
        "conditional / copy, own covariances": 70,
        "gradient / logpdf": 3,
        "Hessian / logpdf": 40,
        "seconds of modes": 5,
    }
)
ESTIMATORS = (ROME, GaussianKDE, ManifoldParzen)


def samples(name, n_samples=N_SAMPLES):
    """Samples of a distribution of the study, or of five Gaussians in ten dimensions."""
    if name != "mixture10":
        return datasets.load(name).sample(n_samples, random_state=0)
    rng = np.random.RandomState(0)
    places = 6 * rng.standard_normal((5, 10))
    shapes = rng.standard_normal((5, 10, 10)) / 3 + np.eye(10)
    label = rng.randint(5, size=n_samples)
    steps = rng.standard_normal((n_samples, 10))
    return places[label] + np.einsum("ij,ijk->ik", steps, shapes[label])


def copied(density):
    """The same kernels, checked and copied."""
    return KernelMixture(
        density.weights, density.means, density.offsets, density.transforms, density.log_dets
    )


def peak_of(work):
    """The bytes that a piece of work has in hand at most."""
    tracemalloc.start()
    work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def print_parts():
    """Print marginals and conditionals beside a copy."""
    print("| kernels | copy, ms | marginal / copy | conditional / copy | the same, memory |")
    print("|---|---|---|---|---|")
    for name in ("aniso", "mixture10", "trajectories"):
        X = samples(name)
        half = list(range(0, X.shape[1], 2))
        for estimator in ESTIMATORS:
            density = estimator().fit(X).density_
            known = {i: float(X[0, i]) for i in half}
            questions = (
                lambda d=density: copied(d),
                lambda d=density, h=half: d.marginal(h),
                lambda d=density, k=known: d.conditional(k),
            )
            repeats = 100 if density.n_groups < 100 else 10
            copy, marginal, condition = (best_of(each, repeats) for each in questions)
            memory = [peak_of(each) for each in questions]
            subject = f"{estimator.__name__}, {name}"
            kind = "shared covariances" if density.n_groups < 100 else "own covariances"
            BARS.check(f"marginal / copy, {kind}", marginal / copy, subject)
            BARS.check(f"conditional / copy, {kind}", condition / copy, subject)
            print(
                f"| {estimator.__name__}, {N_SAMPLES} x {X.shape[1]} | {1e3 * copy:.3f} | "
                f"{marginal / copy:.1f} | {condition / copy:.1f} | "
                f"{memory[1] / memory[0]:.1f}, {memory[2] / memory[0]:.1f} |"
            )


def print_gradients():
    """Print gradients beside log densities."""
    print("\n| 3000 points at 3000 kernels | logpdf, ms | gradient / logpdf | Hessian / logpdf |")
    print("|---|---|---|---|")
    for name in ("aniso", "mixture10", "trajectories"):
        X = samples(name)
        for estimator in ESTIMATORS:
            density = estimator().fit(X).density_
            queries = density.sample(N_SAMPLES, random_state=1)
            times = []
            for ask in (density.logpdf, density.grad_logpdf, density.hess_logpdf):
                ask(queries[:300])
                times.append(best_of(lambda ask=ask, X=queries: ask(X), 3))
            subject = f"{estimator.__name__}, {name}"
            BARS.check("gradient / logpdf", times[1] / times[0], subject)
            BARS.check("Hessian / logpdf", times[2] / times[0], subject)
            print(
                f"| {estimator.__name__}, {X.shape[1]}-D | {1e3 * times[0]:.1f} | "
                f"{times[1] / times[0]:.1f} | {times[2] / times[0]:.1f} |"
            )


def print_modes():
    """Print the seconds that modes take, and how many there are."""
    print("\n| modes of | kernels | modes | CPU s |")
    print("|---|---|---|---|")
    for name, n_samples in (
        ("aniso", 3000),
        ("varied", 3000),
        ("mixture10", 3000),
        ("two_moons", 3000),
        ("trajectories", 3000),
        ("aniso", 30_000),
    ):
        density = ROME().fit(samples(name, n_samples)).density_
        found = density.modes()
        seconds = best_of(density.modes, 3)
        BARS.check("seconds of modes", seconds, f"{name}, {n_samples}")
        print(f"| {name} | {n_samples} x {density.n_features} | {len(found)} | {seconds:.3f} |")


def main():
    print_parts()
    print_gradients()
    print_modes()


if __name__ == "__main__":
    BARS.run(main)

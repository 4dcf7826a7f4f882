"""CPU time of evaluate, compared with scipy, scoringrules and romepy, and with two processes.

Run it with ``make bench-forecast`` on a machine with two idle cores.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from benchmarks.measuring import Bars, best_of, memory_mb
from scipy.linalg import block_diag
from scipy.special import logsumexp
from scipy.stats import gaussian_kde, multivariate_normal

from sevenhills import ROME, compat
from sevenhills.datasets import make_walks
from sevenhills.forecast import Mixtures, evaluate
from sevenhills.forecast.distances import scored_paths
from sevenhills.forecast.fair_scores import FAIR_SCORES
from sevenhills.forecast.path_densities import AgentForecasts

HERE = Path(__file__).parent
BARS = Bars(
    at_least={
        "scipy / steps": 50,
        "scipy / mixtures": 10,
        "romepy / paths": 150,
        "scoringrules / fair scores": 1,
        "scoringrules / evaluate, energy score": 1,
    },
    at_most={
        "seconds of all measures": 1.5,
        "CPU s of the first forecast": 1.5,
        "steps beside scipy": 1e-8,
        "mixtures beside scipy": 1e-12,
        "seconds of mixtures": 2,
        "fair scores beside scoringrules": 1e-10,
        "seconds on the clock": 60,
        "CPU seconds of a process": 60,
        "MB of all processes": 1000,
    },
)


def draw(n_scenes, n_samples):
    walks = make_walks(n_scenes, random_state=0)
    return walks.law.draw(n_samples, random_state=1), walks.truth


def scipy_loop(predictions, truth):
    """Return the log density of every step, NaN where scipy raises an error."""
    out = np.full(truth.shape[:2], np.nan)
    for s, t in np.ndindex(*out.shape):
        try:
            out[s, t] = gaussian_kde(predictions[s, :, t].T).logpdf(truth[s, t])[0]
        except np.linalg.LinAlgError:
            continue
    return out


def steps(predictions, truth, **options):
    return evaluate(
        predictions,
        truth,
        estimator="kde",
        measures="nll_step",
        n_replicates=0,
        **options,
    )


def print_steps(n_scenes, repeats):
    """Compare densities of steps with scipy: values, errors and CPU time."""
    predictions, truth = draw(n_scenes, 20)
    predictions[:5] = predictions[:5, :1]  # identical samples
    predictions[5:10, :, 3] = predictions[5:10, :1, 3]  # a step without spread
    steps(predictions, truth)
    seconds = best_of(lambda: steps(predictions, truth), repeats)
    start = time.process_time()
    expected = scipy_loop(predictions, truth)
    theirs = time.process_time() - start
    found = steps(predictions, truth, errors="skip").scenes["nll_step"]
    apart = np.abs(found + expected.mean(axis=1))[10:].max()
    counts = dict(steps(predictions, truth).degenerate)
    print(f"| steps of {n_scenes} x 20 x 12 | scipy, CPU s | ours, CPU s | ratio | bar | apart |")
    print("|---|---|---|---|---|---|")
    bar = BARS.check("scipy / steps", theirs / seconds)
    BARS.check("steps beside scipy", apart)
    print(
        f"| {n_scenes - 10} regular scenes compared | {theirs:.3g} | {seconds:.3g} | "
        f"{theirs / seconds:.0f} | {bar:g} | {apart:.1e} |"
    )
    print(
        f"\n65 steps have identical samples; scipy raises in {np.isnan(expected).sum()} of them, "
        f"for the others its log densities go down to {np.nanmin(expected[:10]):.3g}; "
        f"ours counts {counts}"
    )


def scipy_mixture(mixtures, truth):
    """Return the log densities of truths, a component at a time."""
    out = np.empty(len(truth))
    for s, y in enumerate(truth.reshape(len(truth), -1)):
        terms = []
        for mean, blocks in zip(mixtures.means[s], mixtures.covariances[s], strict=True):
            covariance = block_diag(*blocks.reshape(-1, *blocks.shape[-2:]))
            terms.append(multivariate_normal.logpdf(y, mean.ravel(), covariance))
        out[s] = logsumexp(terms, b=mixtures.weights[s])
    return out


def print_mixtures(n_scenes, n_peer, repeats):
    """Compare exact likelihoods of mixtures of 6 components in 24 dimensions with scipy."""
    rng = np.random.RandomState(0)
    weights = rng.dirichlet(np.ones(6), n_scenes)
    means, truth = (rng.standard_normal((n_scenes, *n, 12, 2)).cumsum(-2) for n in ((6,), ()))
    factors = rng.standard_normal((n_scenes, 6, 24, 24)) / 5
    scales, rho = rng.uniform(0.3, 1, means.shape), rng.uniform(-0.9, 0.9, means.shape[:3])
    kinds = {
        "whole paths": Mixtures(
            weights, means, factors @ factors.swapaxes(2, 3) + 0.3 * np.eye(24)
        ),
        "steps": Mixtures.from_scales(weights, means, scales, rho),
    }
    print(f"\n| nll of {n_scenes} x 6 components x 24 | scipy, CPU s | ours, CPU s | ratio | bar |")
    print("|---|---|---|---|---|")
    for name, mixtures in kinds.items():
        found = evaluate(mixtures, truth, measures="nll")
        seconds = best_of(lambda each=mixtures: evaluate(each, truth, measures="nll"), repeats)
        start = time.process_time()
        expected = scipy_mixture(mixtures, truth[:n_peer])
        theirs = (time.process_time() - start) * n_scenes / n_peer
        apart = np.abs(found.scenes["nll"][:n_peer] / -expected - 1).max()
        BARS.check("mixtures beside scipy", apart, name)
        BARS.check("seconds of mixtures", seconds, name)
        bar = BARS.check("scipy / mixtures", theirs / seconds, name)
        print(f"| {name} | {theirs:.3g} | {seconds:.3g} | {theirs / seconds:.0f} | {bar:g} |")


def print_fair_scores(n_scenes, repeats):
    """Compare energy scores and CRPS with the fair estimators of scoringrules, by numba."""
    if find_spec("scoringrules") is None:
        print("\nscoringrules is not installed")
        return
    import scoringrules

    options = {"estimator": "fair", "backend": "numba"}
    print(f"\n| fair scores of {n_scenes} x K x 12 x 2 | K | scoringrules, CPU s | ours | ratio |")
    print("|---|---|---|---|---|")
    for n_samples in (20, 100):
        predictions, truth = draw(n_scenes, n_samples)
        rows, y = predictions.reshape(*predictions.shape[:2], -1), truth.reshape(n_scenes, -1)
        by_value = np.ascontiguousarray(rows.swapaxes(1, 2))
        agents = AgentForecasts.from_scenes(
            predictions[:, :, None], truth[:, None, None], np.ones((n_scenes, 1))
        )
        theirs = {
            "energy_score": lambda y=y, rows=rows: (
                scoringrules.es_ensemble(y, rows, **options) / np.sqrt(12)
            ),
            "crps": lambda y=y, rows=by_value: scoringrules.crps_ensemble(y, rows, **options).mean(
                axis=1
            ),
        }
        for name, score in theirs.items():

            def ours(name=name, agents=agents):
                return FAIR_SCORES[name](next(scored_paths(agents)))

            apart = np.abs(score() / ours() - 1).max()
            seconds, peer = best_of(ours, repeats), best_of(score, repeats)
            BARS.check("fair scores beside scoringrules", apart, name)
            BARS.check("scoringrules / fair scores", peer / seconds, f"{name}, K = {n_samples}")
            print(f"| {name} | {n_samples} | {peer:.3g} | {seconds:.3g} | {peer / seconds:.1f} |")
            if name == "energy_score":
                seconds = best_of(lambda P=predictions, y=truth: energy_scores(P, y), repeats)
                ratio = peer / seconds
                BARS.check("scoringrules / evaluate, energy score", ratio, f"K = {n_samples}")
                print(f"| the same by evaluate | {n_samples} | | {seconds:.3g} | {ratio:.1f} |")


def energy_scores(predictions, truth):
    """Evaluate the energy score, with checks of the scenes and an interval of the mean."""
    return evaluate(predictions, truth, measures="energy_score")


def print_all_measures(n_scenes, repeats):
    """Evaluate all measures, with the densities of whole paths of two estimators."""
    predictions, truth = draw(n_scenes, 20)
    print(f"\n| all measures of {n_scenes} x 20 x 12 x 2, paths by | CPU s | bar |")
    print("|---|---|---|")
    for estimator in ("pooled", "rome"):

        def run(n=n_scenes, estimator=estimator):
            return evaluate(predictions[:n], truth[:n], estimator=estimator, measures="all")

        run(40)
        seconds = best_of(run, repeats)
        bar = BARS.check("seconds of all measures", seconds, estimator)
        print(f"| {estimator} | {seconds:.3g} | {bar:g} |")


def print_first():
    """Evaluate a forecast before any kernel is compiled, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchmarks.forecast", "first"]
        environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
        done = subprocess.run(
            command, check=True, capture_output=True, text=True, cwd=HERE.parent, env=environment
        )
    first, second = json.loads(done.stdout.splitlines()[-1])
    bar = BARS.check("CPU s of the first forecast", first)
    print("\n| first forecast of 40 scenes, before any kernel is compiled | the second | bar |")
    print("|---|---|---|")
    print(f"| {first:.3g} CPU s | {second:.3g} | {bar:g} |")


def first():
    """Print the CPU seconds of the first and the second forecast."""
    predictions, truth = draw(40, 20)
    print(json.dumps([best_of(lambda: evaluate(predictions, truth), 1) for _ in range(2)]))


def print_paths(python, n_scenes, n_peer, repeats):
    """Compare densities of paths with romepy, which runs between two rounds of ours."""
    predictions, truth = draw(n_scenes, 100)

    def paths(estimator):
        return evaluate(predictions, truth, estimator=estimator, measures="nll", n_replicates=0)

    methods = {
        "compat.ROME()": compat.ROME(),
        "ROME()": ROME(),
        '"rome", with shrinkage': "rome",
    }
    evaluate(predictions[:2], truth[:2])
    rounds = {name: [best_of(lambda m=m: paths(m), repeats)] for name, m in methods.items()}
    theirs, values = run_peer(python, predictions[:n_peer], truth[:n_peer])
    for name, method in methods.items():
        rounds[name].append(best_of(lambda m=method: paths(m), repeats))
    apart = np.abs(paths(compat.ROME()).scenes["nll"][:n_peer] + values)
    print(
        f"\n| paths of 100 x 12 x 2, {n_scenes} scenes, each | romepy, CPU s | ours | ratio | bar |"
    )
    print("|---|---|---|---|---|")
    for name, times in rounds.items():
        ours = min(times) / n_scenes
        bar = BARS.check("romepy / paths", theirs / ours, name)
        print(f"| {name} | {theirs:.4g} | {ours:.4g} | {theirs / ours:.0f} | {bar:g} |")
    # With more than 15 features, scikit-learn's distances have errors of 1e-14, which part ties and
    # so order some scenes differently than its own k-d tree does.
    equal = apart < 1e-6
    print(
        f"\nlog densities of romepy and compat.ROME agree to {apart[equal].max():.1e} in "
        f"{equal.sum()} of {n_peer} scenes; in the others they are {apart[~equal].tolist()} apart"
    )


def run_peer(python, predictions, truth):
    """Return the CPU seconds of romepy for a scene, and its log densities."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "scenes.npz"
        np.savez(source, train=predictions, test=truth, min_std=0.1)
        command = [python, str(HERE / "peer.py"), "scenes", source]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    found = json.loads(done.stdout.splitlines()[-1])
    return found["seconds"], np.array(found["log_densities"])


class MemoryWatch(threading.Thread):
    """Peak memory of this process and its children, in MB; shared pages count once."""

    def __init__(self):
        super().__init__(daemon=True)
        self.peak, self._done = 0.0, threading.Event()

    def run(self):
        while not self._done.wait(0.5):
            self.peak = max(self.peak, sum(map(proportional_mb, family(os.getpid()))))

    def stop(self):
        self._done.set()
        self.join()
        return self.peak


def family(root):
    """Return a process and its descendants."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            fields = status(entry.name)
            parents[int(entry.name)] = int(fields[1]) if fields else 0
    found = [root]
    for each in found:
        found += [child for child, parent in parents.items() if parent == each]
    return found


def status(process):
    """Return the fields of /proc/PID/stat after the name, none if the process has ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def cpu_seconds(process):
    fields = status(process)
    if not fields:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def proportional_mb(process):
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) / 1024 for line in lines if line.startswith("Pss:"))


def print_many(n_scenes, n_jobs):
    """Evaluate many scenes from a file that is read by blocks."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "predictions.npy"
        walks = make_walks(n_scenes, random_state=0)
        whole = np.lib.format.open_memmap(source, "w+", np.float64, (n_scenes, 100, 12, 2))
        rng = np.random.RandomState(1)
        for start in range(0, n_scenes, 500):
            whole[start : start + 500] = walks.law[start : start + 500].draw(100, rng)
        whole.flush()
        del whole
        small = make_walks(64, random_state=2)
        evaluate(small.law.draw(100, 3), small.truth, n_jobs=n_jobs)  # starts and compiles
        watch = MemoryWatch()
        watch.start()
        start, before = time.perf_counter(), sum(map(cpu_seconds, family(os.getpid())))
        found = evaluate(source, walks.truth, n_jobs=n_jobs)
        seconds = time.perf_counter() - start
        cpu = sum(map(cpu_seconds, family(os.getpid()))) - before
        peak = watch.stop()
    print(f"\n| {n_scenes} scenes of 100 x 12 x 2, all measures, n_jobs={n_jobs} | | bar |")
    print("|---|---|---|")
    for name, note, value in (
        ("seconds on the clock", "", seconds),
        ("CPU seconds of a process", f" (those of all, divided by {n_jobs})", cpu / n_jobs),
        ("MB of all processes", " at the peak", peak),
    ):
        print(f"| {name}{note} | {value:.1f} | {BARS.check(name, value):g} |")
    print(f"| this process, MB at the peak | {memory_mb(peak=True):.0f} | |")
    print(f"\n{found}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", help="python of an environment with romepy")
    parser.add_argument("--scenes", type=int, default=1000)
    parser.add_argument("--peer-scenes", type=int, default=20)
    parser.add_argument("--many", type=int, default=10_000, help="scenes for two processes")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    print_steps(options.scenes, options.repeats)
    print_mixtures(10 * options.scenes, options.scenes, options.repeats)
    print_fair_scores(options.scenes, options.repeats)
    print_all_measures(options.scenes, options.repeats)
    print_first()
    if options.peer:
        print_paths(options.peer, options.scenes, options.peer_scenes, options.repeats)
    if options.many:
        print_many(options.many, options.jobs)


if __name__ == "__main__":
    BARS.run(main, {"first": first})

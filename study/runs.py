"""Run a plan in parallel, and store every figure as soon as it is measured."""

import os
import platform
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, cached_property
from importlib.metadata import PackageNotFoundError, version
from itertools import groupby
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from sevenhills import datasets
from sevenhills.datasets import Distribution
from sevenhills.datasets.distributions import BLOB_CENTERS, VARIED_STDS, gaussians
from sevenhills.density import Density
from sevenhills.estimators import ROME
from sevenhills.metrics import (
    jensen_shannon,
    mean_log_likelihood,
    wasserstein,
    wasserstein_indicator,
)

from .catalogue import RECIPES
from .plan import Cell, Plan
from .store import Row, Store, count_rows

#: Offset of the seeds of drawn samples, so that they differ from the seeds of runs.
_FIRST_SEED = 1_000_000
_LIBRARIES = ("sevenhills", "numpy", "scipy", "scikit-learn", "numba", "POT", "pyvinecopulib")


def published_truth(distribution: Distribution) -> Density:
    """Return the density with which the study compared its fits.

    It is the truth, except for "varied": the study drew its Gaussians with standard deviations of
    1, 2.5 and .5, but compared fits with Gaussians that have these numbers as variances.
    """
    if distribution.name != "varied":
        return distribution.truth
    return gaussians(BLOB_CENTERS, np.eye(2) / np.sqrt(VARIED_STDS)[:, None, None])


class Trial:
    """The two data sets of one run, with values that several estimators share.

    Parameters
    ----------
    distribution : str
    run : int
    n_samples : int
    """

    def __init__(self, distribution: str, run: int, n_samples: int) -> None:
        self.distribution = datasets.load(distribution)
        self.run = run
        self.halves = self.distribution.split(run, n_samples)
        self._labels: dict[tuple[str | None, int], np.ndarray] = {}

    @cached_property
    def usual_cost(self) -> float:
        """The Wasserstein distance between the two data sets."""
        return wasserstein(*self.halves)

    @cached_property
    def true_log_density(self) -> np.ndarray:
        """The true log densities at both data sets."""
        return self._at_all(self.distribution.truth.logpdf)

    @cached_property
    def published_log_density(self) -> np.ndarray:
        """The log densities of the published truth at both data sets."""
        return self._at_all(published_truth(self.distribution).logpdf)

    def _at_all(self, log_density: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        return np.concatenate([log_density(half) for half in self.halves])

    def fit(self, estimator: str, half: int) -> Any:
        """Return an estimator fitted to one of the data sets.

        All ablations of ROME with the same selection share the labels of a data set.
        """
        recipe = RECIPES[estimator]
        model, X = recipe.build(self.distribution), self.halves[half]
        if not isinstance(model, ROME):
            return model.fit(X)
        key = (model.selection, half)
        fitted = model.fit(X, labels=self._labels.get(key))
        self._labels[key] = fitted.labels_
        return fitted


class _Fits:
    """Fits of one estimator to the data sets of a trial, each made at its first use."""

    def __init__(self, trial: Trial, estimator: str, seed: int) -> None:
        self.trial, self.estimator, self.seed = trial, estimator, seed
        self.fit_seconds = 0.0

    @cached_property
    def first(self) -> Any:
        return self._fit(0)

    @cached_property
    def first_log_density(self) -> np.ndarray:
        return self.trial._at_all(self.first.score_samples)

    @cached_property
    def second_log_density(self) -> np.ndarray:
        return self.trial._at_all(self._fit(1).score_samples)

    def _fit(self, half: int) -> Any:
        start = time.process_time()
        fitted = self.trial.fit(self.estimator, half)
        self.fit_seconds += time.process_time() - start
        return fitted


def _log_likelihood(trial: Trial, fits: _Fits) -> float:
    return mean_log_likelihood(fits.first_log_density[len(trial.halves[0]) :])


def _divergence(trial: Trial, fits: _Fits) -> float:
    return jensen_shannon(fits.first_log_density, fits.second_log_density)


def _divergence_from_truth(trial: Trial, fits: _Fits) -> float:
    return jensen_shannon(fits.first_log_density, trial.true_log_density)


def _divergence_as_published(trial: Trial, fits: _Fits) -> float:
    return jensen_shannon(fits.first_log_density, trial.published_log_density)


def _transport(trial: Trial, fits: _Fits) -> float:
    first = trial.halves[0]
    return wasserstein_indicator(fits.first, first, trial.usual_cost, random_state=fits.seed)


#: Functions by metric. They pass arrays of log densities, so that there is no warning of
#: k-nearest-neighbor densities, which are not normalized; the tables have a remark.
MEASURES: dict[str, Callable[[Trial, _Fits], float]] = {
    "L_hat": _log_likelihood,
    "D_JS": _divergence,
    "D_JS_true": _divergence_from_truth,
    "D_JS_as_published": _divergence_as_published,
    "W_hat": _transport,
}


def measure(trial: Trial, estimator: str, cells: Sequence[Cell]) -> list[Row]:
    """Return the figures of one estimator; failures are recorded with their error."""
    fits = _Fits(trial, estimator, _FIRST_SEED + trial.run)
    return [_measure_one(trial, fits, cell) for cell in cells]


def _measure_one(trial: Trial, fits: _Fits, cell: Cell) -> Row:
    value, error = np.nan, ""
    start = time.process_time()
    with _peak_memory() as peak:
        try:
            value = MEASURES[cell.metric](trial, fits)
        except Exception as problem:
            error = f"{type(problem).__name__}: {problem}"
    return Row(
        distribution=cell.distribution,
        run=cell.run,
        n_samples=cell.n_samples,
        estimator=cell.estimator,
        metric=cell.metric,
        value=float(value),
        error=error,
        seed=fits.seed,
        fit_seconds=fits.fit_seconds,
        seconds=time.process_time() - start,
        peak_mb=peak(),
        versions=versions(),
    )


@cache
def versions() -> str:
    """Return the names and versions of the libraries used."""
    found = [f"python {platform.python_version()}"]
    for name in _LIBRARIES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return ", ".join(found)


@contextmanager
def _peak_memory() -> Iterator[Callable[[], float]]:
    """Yield a function that returns the peak memory since, in MB; NaN if it is unknown."""
    status, reset = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    try:
        reset.write_text("5")
    except OSError:
        status = Path("/nonexistent")

    def peak() -> float:
        try:
            lines = status.read_text().splitlines()
        except OSError:
            return float("nan")
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))

    yield peak


#: Seconds between updates of the progress.
_PAUSE = 0.5

#: Progress callback, called with the number of measured figures and the running cells.
Progress = Callable[[int, Sequence[str]], None]


def run(
    plan: Plan,
    folder: Path,
    *,
    n_jobs: int = -1,
    retry: bool = False,
    progress: Progress | None = None,
) -> list[Row]:
    """Measure the cells of a plan that are not stored yet.

    Parameters
    ----------
    plan : Plan
    folder : Path
        Folder of the results. After an interruption, even by a kill signal, the next call
        continues from the stored results.
    n_jobs : int, default=-1
        The number of processes; all cores by default.
    retry : bool, default=False
        Whether to measure failed cells again.
    progress : callable, optional
        Progress callback, called with the number of measured figures and the running cells.

    Returns
    -------
    list of Row
        The rows of the plan.
    """
    store = Store(folder)
    store.prepare()
    rows = store.merge(_failed(store) if retry else ())
    stored = {row.cell for row in rows}
    wanted = plan.cells()
    missing = [cell for cell in wanted if cell not in stored]
    tasks = _tasks(missing)
    with _Watch(store, len(wanted) - len(missing), progress):
        Parallel(n_jobs=n_jobs, backend="loky")(
            delayed(_work)(store.folder, cells) for cells in tasks
        )
    of_plan = set(wanted)
    rows = [row for row in store.merge() if row.cell in of_plan]
    store.close()
    return rows


def _failed(store: Store) -> list[Cell]:
    return [row.cell for row in store.read() if row.error]


def _tasks(cells: Sequence[Cell]) -> list[list[Cell]]:
    """Return the cells by data set, slow ones first."""
    by_trial: dict[tuple[str, int], list[Cell]] = defaultdict(list)
    for cell in cells:
        by_trial[cell.distribution, cell.run].append(cell)
    walks = [cells for (name, _), cells in by_trial.items() if "trajectories" in name]
    plane = [cells for (name, _), cells in by_trial.items() if "trajectories" not in name]
    return walks + plane


def _work(folder: Path, cells: Sequence[Cell]) -> None:
    """Measure the cells of one data set, and store the results after every estimator."""
    store, first = Store(folder), cells[0]
    trial = Trial(first.distribution, first.run, first.n_samples)
    marker = store.parts / f"{os.getpid()}.running"
    try:
        with threadpool_limits(1):  # the processes use all cores
            for estimator, group in groupby(cells, key=lambda cell: cell.estimator):
                marker.write_text(f"{first.distribution}, run {first.run}: {estimator}")
                store.add(measure(trial, estimator, list(group)))
    finally:
        marker.unlink(missing_ok=True)


class _Watch:
    """Context in which a thread reports the progress of workers, from the stored results."""

    def __init__(self, store: Store, n_stored: int, progress: Progress | None) -> None:
        self.store, self.n_stored, self.progress = store, n_stored, progress
        self.stopped = Event()
        self.thread = Thread(target=self._watch, daemon=True)
        self._sizes: dict[str, int] = {}

    def __enter__(self) -> None:
        for marker in self.store.parts.glob("*.running"):
            marker.unlink(missing_ok=True)
        if self.progress is not None:
            self.thread.start()

    def __exit__(self, *_: object) -> None:
        self.stopped.set()
        if self.thread.is_alive():
            self.thread.join()

    def _watch(self) -> None:
        while not self.stopped.wait(_PAUSE):
            self._report()
        self._report()

    def _report(self) -> None:
        running = []
        for marker in self.store.parts.glob("*.running"):
            try:
                running.append(marker.read_text())
            except OSError:  # the worker has finished
                continue
        if self.progress is not None:
            self.progress(self.n_stored + self._n_new(), sorted(filter(None, running)))

    def _n_new(self) -> int:
        """Return the number of rows in all parts; each part is read once."""
        for part in self.store.parts.glob("*.parquet"):
            if part.name not in self._sizes:
                self._sizes[part.name] = count_rows(part)
        return sum(self._sizes.values())

"""Run a plan in parallel, store every figure at once, and go on where it stopped."""

import os
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from threading import Event, Thread

from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from .measure import Trial, measure
from .plan import Cell, Plan
from .store import Row, Store, count_rows

#: Seconds between looks at what the workers have stored.
_PAUSE = 0.5

#: Called with the number of figures that are done and what is being worked on.
Progress = Callable[[int, Sequence[str]], None]


def run(
    plan: Plan,
    folder: Path,
    *,
    n_jobs: int = -1,
    retry: bool = False,
    progress: Progress | None = None,
) -> list[Row]:
    """Measure what a plan asks for and is not stored yet.

    Parameters
    ----------
    plan : Plan
    folder : Path
        Where results are stored. What is there is kept; stopped at any moment, even by a kill,
        the next call goes on from there.
    n_jobs : int, default=-1
        The number of processes; all cores by default.
    retry : bool, default=False
        Whether to try figures again that failed.
    progress : callable, optional
        Called with the number of figures done and with what is being worked on.

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
    """Return the cells by data set, those that take long first."""
    by_trial: dict[tuple[str, int], list[Cell]] = defaultdict(list)
    for cell in cells:
        by_trial[cell.distribution, cell.run].append(cell)
    walks = [cells for (name, _), cells in by_trial.items() if "trajectories" in name]
    plane = [cells for (name, _), cells in by_trial.items() if "trajectories" not in name]
    return walks + plane


def _work(folder: Path, cells: Sequence[Cell]) -> None:
    """Measure the cells of one data set, estimator by estimator, storing each at once."""
    store, first = Store(folder), cells[0]
    trial = Trial(first.distribution, first.run, first.n_samples)
    marker = store.parts / f"{os.getpid()}.running"
    try:
        with threadpool_limits(1):  # processes share the cores already
            for estimator, group in groupby(cells, key=lambda cell: cell.estimator):
                marker.write_text(f"{first.distribution}, run {first.run}: {estimator}")
                store.add(measure(trial, estimator, list(group)))
    finally:
        marker.unlink(missing_ok=True)


class _Watch:
    """Tells, while it is entered, how far the workers are, from what they have stored."""

    def __init__(self, store: Store, n_stored: int, progress: Progress | None) -> None:
        self.store, self.n_stored, self.progress = store, n_stored, progress
        self.stopped = Event()
        self.thread = Thread(target=self._look, daemon=True)
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

    def _look(self) -> None:
        while not self.stopped.wait(_PAUSE):
            self._tell()
        self._tell()

    def _tell(self) -> None:
        running = []
        for marker in self.store.parts.glob("*.running"):
            try:
                running.append(marker.read_text())
            except OSError:  # done meanwhile
                continue
        if self.progress is not None:
            self.progress(self.n_stored + self._n_new(), sorted(filter(None, running)))

    def _n_new(self) -> int:
        """Return the number of rows in the parts, each of which is opened once."""
        for part in self.store.parts.glob("*.parquet"):
            if part.name not in self._sizes:
                self._sizes[part.name] = count_rows(part)
        return sum(self._sizes.values())

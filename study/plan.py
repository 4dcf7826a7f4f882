"""Plans: distributions, estimators, metrics and runs to measure."""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from sevenhills import datasets
from sevenhills.validation import check_choice, check_count

from .catalogue import BASELINES, BEYOND, RECIPES, name_of, published

#: D_JS_as_published is the divergence from the published truth of "varied", which is wrong.
METRICS = ("L_hat", "D_JS", "D_JS_true", "D_JS_as_published", "W_hat")
_PLANE = ("aniso", "varied", "two_moons", "gaussian", "elliptical", "rotated_elliptical")


@dataclass(frozen=True, order=True)
class Cell:
    """One figure to measure."""

    distribution: str
    run: int
    n_samples: int
    estimator: str
    metric: str


@dataclass(frozen=True)
class Plan:
    """A set of figures to measure.

    Parameters
    ----------
    distributions, estimators, metrics : tuple of str
        Names; see :func:`sevenhills.datasets.names`, ``RECIPES`` and ``METRICS``.
    runs : int
        The number of runs, counted from 0; each has its own data.
    n_samples : int, default=3000
        The size of the two data sets of every run.
    transport : {"all", "main", "published"}, default="all"
        The cells with a Wasserstein indicator, which takes seconds: all cells, those of the main
        estimators and the published ones, or the published ones.

    Examples
    --------
    >>> from study import Plan
    >>> plan = Plan(("aniso",), ("rome", "parzen"), ("L_hat", "W_hat"), runs=2)
    >>> len(plan.cells())
    8
    """

    distributions: tuple[str, ...]
    estimators: tuple[str, ...]
    metrics: tuple[str, ...] = METRICS
    runs: int = 10
    n_samples: int = 3000
    transport: str = "all"

    def __post_init__(self) -> None:
        known = {
            "distributions": datasets.names(),
            "estimators": list(RECIPES),
            "metrics": list(METRICS),
        }
        for name, names in known.items():
            given = getattr(self, name)
            if isinstance(given, str) or not isinstance(given, Iterable):
                raise TypeError(f"{name} must be a list of names, got {given!r}")
            object.__setattr__(self, name, tuple(given))
            unknown = [each for each in given if each not in names]
            if unknown or not given:
                raise ValueError(f"{name} must be some of {names}, got {unknown or 'none'}")
        check_count(self.runs, "runs", least=1)
        check_count(self.n_samples, "n_samples", least=10)
        if self.n_samples > datasets.POOL_SIZE // 2:
            raise ValueError(f"n_samples must not exceed {datasets.POOL_SIZE // 2}")
        check_choice(self.transport, "transport", ("all", "main", "published"))

    def cells(self) -> list[Cell]:
        """Return all figures to measure, grouped by data set."""
        return [
            Cell(distribution, run, self.n_samples, estimator, metric)
            for run in range(self.runs)
            for distribution in self.distributions
            for estimator in self.estimators
            for metric in self.metrics
            if self._applies(distribution, estimator, metric)
        ]

    def _applies(self, distribution: str, estimator: str, metric: str) -> bool:
        if metric == "D_JS_as_published":
            return distribution == "varied"
        if metric != "W_hat":
            return True
        if not RECIPES[estimator].can_sample:
            return False
        if self.transport == "main" and estimator in (*BASELINES, *BEYOND):
            return True
        return self.transport == "all" or (distribution, estimator) in _PUBLISHED_TRANSPORT

    def changed_by(self, path: Path) -> "Plan":
        """Return the plan changed by a TOML file.

        Parameters
        ----------
        path : Path
            Its keys are the parameters of a plan.
        """
        try:
            changes: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise ValueError(f"{path} cannot be read as TOML: {error}") from error
        known = [field.name for field in fields(self)]
        unknown = [name for name in changes if name not in known]
        if unknown:
            raise ValueError(f"{path} may have the keys {known}, got {unknown}")
        return replace(self, **changes)


_PUBLISHED_TRANSPORT = {
    (cell.distribution, name_of(cell)) for cell in published() if cell.metric == "W_hat"
}

#: Plans by the name of their preset.
PRESETS = {
    "quick": Plan(_PLANE, tuple(RECIPES), runs=3, transport="published"),
    "standard": Plan(tuple(datasets.names()), tuple(RECIPES), runs=10, transport="main"),
    "full": Plan(tuple(datasets.names()), tuple(RECIPES), runs=100),
}

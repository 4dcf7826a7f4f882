"""Measures by horizon: the same forecasts, evaluated up to several steps."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..metrics.tables import MeasureTable
from ..progress import part
from ..validation import check_positive
from .evaluation import evaluate
from .results import Evaluation, Row

#: A horizon that exceeds a whole number of steps by less than this fraction is that number.
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False, repr=False)
class HorizonEvaluation(MeasureTable):
    """Measures of forecasts at several horizons; printed with a column for every horizon.

    Attributes
    ----------
    horizons : tuple of float
        The horizons, in steps, or in seconds if a time step was given.
    evaluations : tuple of Evaluation
        The evaluation up to each of them.
    """

    horizons: tuple[float, ...]
    evaluations: tuple[Evaluation, ...]

    def __getitem__(self, measure: str) -> dict[float, Row]:
        """Return the summary of a measure by horizon."""
        return {h: each[measure] for h, each in zip(self.horizons, self.evaluations, strict=True)}

    def columns(self) -> dict[str, Any]:
        """Return the table by columns, with a row for every measure and horizon."""
        rows = [
            {"measure": row.measure, "horizon": h, **asdict(row)}
            for h, each in zip(self.horizons, self.evaluations, strict=True)
            for row in each.summary
        ]
        return {name: [row[name] for row in rows] for name in rows[0]}

    def texts(self, *what: str) -> list[list[str]]:
        """Return headings and means, with a column for every horizon."""
        heading = ["measure", *(f"{h:g}" for h in self.horizons)]
        names = [row.measure for row in self.evaluations[0].summary]
        return [heading, *([n, *(f"{row.mean:.4g}" for row in self[n].values())] for n in names)]

    def _caption(self) -> str:
        return f"means over {len(self.evaluations[0].names)} scenes, by horizon"


def evaluate_horizons(
    predictions: Any,
    truth: Any,
    horizons: Sequence[float],
    *,
    dt: float | None = None,
    **options: Any,
) -> HorizonEvaluation:
    """Evaluate forecasts up to several horizons.

    Each horizon is an evaluation of the paths up to that step, by its own densities.

    Parameters
    ----------
    predictions, truth : array-like, frame or path-like
        As for :func:`evaluate`.
    horizons : sequence of float
        Numbers of steps; with ``dt``, times after the last observed step, in the unit of ``dt``. A
        time between two steps is rounded down.
    dt : float, optional
        Time between two steps.
    **options
        Of :func:`evaluate`.

    Returns
    -------
    HorizonEvaluation

    Examples
    --------
    >>> import numpy as np
    >>> from sevenhills.forecast import evaluate_horizons
    >>> walks = np.random.RandomState(0).standard_normal((30, 21, 8, 2)).cumsum(axis=2)
    >>> evaluate_horizons(walks[:, 1:], walks[:, 0], (1, 2, 3), dt=0.4, measures=("ade", "fde"))
    means over 30 scenes, by horizon
    measure      1      2      3
    ade      2.088  2.885  3.321
    fde      2.418  3.756   4.65
    """
    if "horizon" in options:
        raise TypeError("evaluate_horizons takes horizons, not horizon")
    times = tuple(float(check_positive(each, "horizons")) for each in horizons)
    if not times:
        raise ValueError("horizons must not be empty")
    step = 1.0 if dt is None else check_positive(dt, "dt")
    steps = [int(each / step * (1 + _ROUNDING)) for each in times]
    if dt is None and any(n != each for n, each in zip(steps, times, strict=True)):
        raise ValueError(f"horizons must be numbers of steps, got {horizons}; pass dt for times")
    found = []
    for i, (horizon, length) in enumerate(zip(times, steps, strict=True)):
        with part(f"horizon {horizon:g}", i / len(steps), (i + 1) / len(steps)):
            found.append(evaluate(predictions, truth, horizon=length, **options))
    return HorizonEvaluation(times, tuple(found))

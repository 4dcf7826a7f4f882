"""The result of an evaluation, which can be printed, stored and compared."""

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from html import escape
from math import isnan, pi, sqrt
from types import MappingProxyType
from typing import Any

import numpy as np

from ..atomic_write import atomic_write
from ..extras import import_extra
from ..validation import check_choice, freeze

#: Key of the metadata of a file, which hold all but the scenes.
_METADATA = b"sevenhills.forecast.evaluation"
_FORMAT = 1
#: Prefix of the columns of levels in a file; no measure starts with it.
_LEVEL = "level_"
_SCENE = "scene"
_CELL = "padding: 0.1em 0.9em; text-align: right"


class MeasureTable(ABC):
    """A result with a row of figures for every measure."""

    @property
    @abstractmethod
    def _rows(self) -> Sequence[Any]:
        """Rows, as dataclasses with the field ``measure``."""

    @abstractmethod
    def _caption(self) -> str:
        """Return the line above the table."""

    def __getitem__(self, measure: str) -> Any:
        for row in self._rows:
            if row.measure == measure:
                return row
        known = [row.measure for row in self._rows]
        raise KeyError(f"there is no measure {measure!r}, only {known}")

    def columns(self) -> dict[str, Any]:
        """Return the table by columns."""
        return {
            field.name: [getattr(row, field.name) for row in self._rows]
            for field in fields(self._rows[0])
        }

    def to_pandas(self) -> Any:
        """Return the table as a data frame of pandas."""
        return _data_frame(self.columns())

    def _texts(self) -> list[list[str]]:
        """Return the heading and the rows as text."""
        columns = self.columns()
        rows = zip(*columns.values(), strict=True)
        return [list(columns), *([_text(value) for value in row] for row in rows)]

    def __repr__(self) -> str:
        rows = self._texts()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])])
            for row in rows
        ]
        return "\n".join([self._caption(), *lines])

    def _repr_html_(self) -> str:
        head, *rows = self._texts()
        body = "".join([_html("th", head), *(_html("td", row) for row in rows)])
        caption = f'<p style="margin: 0.7em 0 0.3em">{escape(self._caption())}</p>'
        return f'{caption}<table style="border-collapse: collapse">{body}</table>'


def _text(value: Any) -> str:
    """Return a figure with four digits."""
    if not isinstance(value, float):
        return str(value)
    return "-" if isnan(value) else f"{value:.4g}"


def _html(tag: str, cells: Sequence[str]) -> str:
    inside = "".join(f'<{tag} style="{_CELL}">{escape(cell)}</{tag}>' for cell in cells)
    return f"<tr>{inside}</tr>"


def _data_frame(columns: Mapping[str, Any]) -> Any:
    pandas = import_extra("pandas", "frames", "to_pandas needs pandas")
    return pandas.DataFrame(dict(columns))


@dataclass(frozen=True)
class Row:
    """A measure over all scenes.

    Attributes
    ----------
    measure : str
    mean : float
        Mean over the scenes that have the measure; for "ece", the error of all scenes together.
    standard_error, low, high : float
        Standard error of the mean, and the limits of its bootstrap interval.
    n_scenes : int
        Number of scenes that have the measure.
    n_degenerate : int
        Number of densities behind the measure whose samples are degenerate.
    """

    measure: str
    mean: float
    standard_error: float
    low: float
    high: float
    n_scenes: int
    n_degenerate: int


@dataclass(frozen=True, eq=False)
class Coverage:
    """How often highest-density regions of forecasts hold the truth.

    Attributes
    ----------
    levels : ndarray of shape (n_levels,)
        Probability of the regions.
    observed : ndarray of shape (n_levels,)
        Fraction of truths in the regions. Below the level, forecasts are too narrow; above it,
        too wide.
    standard_error, low, high : ndarray of shape (n_levels,)
        Bootstrap standard error of that fraction, and the limits of its interval.
    n_truths : int
        Number of truths.

    Examples
    --------
    >>> import numpy as np
    >>> from sevenhills.forecast import evaluate
    >>> walks = np.random.RandomState(0).standard_normal((40, 21, 2, 2)).cumsum(axis=2)
    >>> narrow = evaluate(0.3 * walks[:, 1:], walks[:, 0], measures="ece", levels=(0.5, 0.9))
    >>> bool((narrow.coverage.observed < narrow.coverage.levels).all())
    True
    """

    levels: np.ndarray
    observed: np.ndarray
    standard_error: np.ndarray
    low: np.ndarray
    high: np.ndarray
    n_truths: int

    def __post_init__(self) -> None:
        freeze(self, "levels", "observed", "standard_error", "low", "high")

    @property
    def expected_error(self) -> float:
        r"""The expected calibration error of a calibrated forecast with this number of truths.

        It is the mean of :math:`|B(t)| / \sqrt n` with the Brownian bridge :math:`B`.
        """
        return sqrt(2 / pi) * pi / 8 / sqrt(self.n_truths) if self.n_truths else float("nan")


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(MeasureTable):
    """Measures of forecasts, by scene and over all scenes.

    Attributes
    ----------
    scenes : mapping of str to ndarray of shape (n_scenes,)
        Every measure in every scene, NaN where it is not defined.
    summary : tuple of Row
        Every measure over all scenes.
    coverage : Coverage or None
        How often highest-density regions hold the truth; None without the measure "ece".
    levels : ndarray of shape (n_scenes, n_truths)
        Probability of the smallest highest-density region that holds each truth, agent by agent;
        NaN where there is none.
    settings : mapping
        Parameters, shapes and versions.
    degenerate : mapping of str to int
        Counts of degenerate steps and paths, and of samples and scenes that were left out.
    names : ndarray of shape (n_scenes,)
        Names of the scenes, their numbers if they have none.

    Examples
    --------
    >>> import numpy as np
    >>> from sevenhills.forecast import evaluate
    >>> rng = np.random.RandomState(0)
    >>> walks = rng.standard_normal((30, 21, 4, 2)).cumsum(axis=2)
    >>> evaluation = evaluate(walks[:, 1:], walks[:, 0], measures=("nll_step", "ade"))
    >>> evaluation["ade"].n_scenes
    30
    >>> evaluation.scenes["nll_step"].shape
    (30,)
    """

    scenes: Mapping[str, np.ndarray]
    summary: tuple[Row, ...]
    coverage: Coverage | None
    levels: np.ndarray
    settings: Mapping[str, Any]
    degenerate: Mapping[str, int]
    names: np.ndarray

    def __post_init__(self) -> None:
        for array in (*self.scenes.values(), self.levels, self.names):
            array.flags.writeable = False
        for name in ("scenes", "settings", "degenerate"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    def __reduce__(self) -> tuple[Any, ...]:
        values = (getattr(self, field.name) for field in fields(self))
        return type(self), tuple(dict(v) if isinstance(v, MappingProxyType) else v for v in values)

    @property
    def _rows(self) -> Sequence[Row]:
        return self.summary

    def columns(self, what: str = "summary") -> dict[str, Any]:
        """Return a table by columns.

        Parameters
        ----------
        what : {"summary", "scenes", "coverage"}, default="summary"
        """
        check_choice(what, "what", ("summary", "scenes", "coverage"))
        if what == "scenes":
            return {_SCENE: self.names, **self.scenes}
        if what == "coverage":
            found = {} if self.coverage is None else vars(self.coverage)
            return {name: value for name, value in found.items() if name != "n_truths"}
        return super().columns()

    def to_pandas(self, what: str = "summary") -> Any:
        """Return the summary, the scenes or the coverage as a data frame of pandas."""
        return _data_frame(self.columns(what))

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write everything to a file, with a row for every scene; see :func:`read_evaluation`."""
        parquet = import_extra("pyarrow.parquet", "frames", "to_parquet needs pyarrow")
        arrow = import_extra("pyarrow", "frames", "to_parquet needs pyarrow")
        levels = {f"{_LEVEL}{i}": column for i, column in enumerate(self.levels.T)}
        table = arrow.table({**self.columns("scenes"), **levels})
        about = {
            "format": _FORMAT,
            "summary": [asdict(row) for row in self.summary],
            "coverage": None if self.coverage is None else vars(self.coverage),
            "settings": dict(self.settings),
            "degenerate": dict(self.degenerate),
        }
        metadata = json.dumps(about, default=np.ndarray.tolist)
        table = table.replace_schema_metadata({_METADATA: metadata})
        with atomic_write(path) as file:
            parquet.write_table(table, file)

    def _caption(self) -> str:
        found = [f"{count} {name}" for name, count in self.degenerate.items() if count]
        settings = self.settings
        return (
            f"{len(self.names)} scenes of {settings['n_samples']} samples, "
            f"{settings['n_steps']} steps, {settings['n_coordinates']} coordinates; paths by "
            f"{settings['estimator']}, steps by {settings['step_estimator']}"
            + (f"; degenerate: {', '.join(found)}" if found else "")
        )


def read_evaluation(path: str | os.PathLike[str]) -> Evaluation:
    """Read a file of :meth:`Evaluation.to_parquet`.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    Evaluation

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from sevenhills.forecast import evaluate, read_evaluation
    >>> walks = np.random.RandomState(0).standard_normal((30, 21, 4, 2)).cumsum(axis=2)
    >>> evaluation = evaluate(walks[:, 1:], walks[:, 0], measures=("nll_step", "ade"))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     evaluation.to_parquet(Path(folder) / "evaluation.parquet")
    ...     again = read_evaluation(Path(folder) / "evaluation.parquet")
    >>> again.summary == evaluation.summary
    True
    """
    parquet = import_extra("pyarrow.parquet", "frames", "read_evaluation needs pyarrow")
    table = parquet.read_table(path)
    stored = (table.schema.metadata or {}).get(_METADATA)
    if stored is None:
        raise ValueError(f"{path} does not hold an evaluation")
    about = json.loads(stored)
    if about["format"] != _FORMAT:
        raise ValueError(f"{path} has format {about['format']}, expected {_FORMAT}")
    columns = {name: np.array(table[name].to_numpy()) for name in table.column_names}
    levels = [columns.pop(name) for name in list(columns) if name.startswith(_LEVEL)]
    names = columns.pop(_SCENE)
    coverage = about["coverage"]
    if coverage is not None:
        n_truths = coverage.pop("n_truths")
        curve = {name: np.array(values) for name, values in coverage.items()}
        coverage = Coverage(**curve, n_truths=n_truths)
    return Evaluation(
        scenes=columns,
        summary=tuple(Row(**row) for row in about["summary"]),
        coverage=coverage,
        levels=np.stack(levels, axis=1) if levels else np.empty((len(names), 0)),
        settings=about["settings"],
        degenerate=about["degenerate"],
        names=names,
    )

"""What an evaluation found, as a value that can be shown, stored and compared."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from types import MappingProxyType
from typing import Any

import numpy as np

from ..atomic_write import atomic_write
from ..extras import import_extra
from ..validation import check_choice
from .calibration import Coverage
from .frames import Tabular

#: The place of everything but the scenes in a file.
_METADATA = b"sevenhills.forecast.evaluation"
_FORMAT = 1
#: How columns of levels begin; no measure has such a name.
_LEVEL = "level_"
_SCENE = "scene"


@dataclass(frozen=True)
class Row:
    """A measure over all scenes.

    Attributes
    ----------
    measure : str
    mean : float
        Over the scenes that have it; of "ece", the error of all scenes together.
    standard_error, low, high : float
        Its standard error and the limits of its interval, from scene to scene.
    n_scenes : int
        How many scenes have it.
    n_degenerate : int
        How many densities that it is made from had degenerate samples.
    """

    measure: str
    mean: float
    standard_error: float
    low: float
    high: float
    n_scenes: int
    n_degenerate: int


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(Tabular):
    """Measures of forecasts, by scene and over all scenes.

    Attributes
    ----------
    scenes : mapping of str to ndarray of shape (n_scenes,)
        Every measure in every scene, NaN where it is not defined.
    summary : tuple of Row
        Every measure over all scenes.
    coverage : Coverage or None
        How often highest-density regions hold the truth; None unless "ece" was asked for.
    levels : ndarray of shape (n_scenes, n_truths)
        The mass of the smallest highest-density region that holds each truth, agent by agent;
        NaN where there is none.
    settings : mapping
        How the figures came about, versions included.
    degenerate : mapping of str to int
        Counts of cells and paths without a density of their own, by kind, and of samples and
        scenes that were left out.
    names : ndarray of shape (n_scenes,)
        What the scenes are called; their numbers if they have no names.

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

    def __getitem__(self, measure: str) -> Row:
        for row in self.summary:
            if row.measure == measure:
                return row
        raise KeyError(
            f"{measure!r} was not measured, only {[row.measure for row in self.summary]}"
        )

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
            return {} if self.coverage is None else _curve(self.coverage)
        rows = [asdict(row) for row in self.summary]
        return {field.name: [row[field.name] for row in rows] for field in fields(Row)}

    def to_pandas(self, what: str = "summary") -> Any:
        """Return the summary, the scenes or the coverage as a data frame of pandas."""
        pandas = import_extra("pandas", "frames", "to_pandas needs pandas")
        return pandas.DataFrame(self.columns(what))

    def to_polars(self, what: str = "summary") -> Any:
        """Return the summary, the scenes or the coverage as a data frame of polars."""
        polars = import_extra("polars", "frames", "to_polars needs polars")
        return polars.DataFrame(self.columns(what))

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write everything to a file, one row for every scene; see :func:`read_evaluation`."""
        parquet = import_extra("pyarrow.parquet", "frames", "to_parquet needs pyarrow")
        arrow = import_extra("pyarrow", "frames", "to_parquet needs pyarrow")
        levels = {f"{_LEVEL}{i}": column for i, column in enumerate(self.levels.T)}
        table = arrow.table({**self.columns("scenes"), **levels})
        about = {
            "format": _FORMAT,
            "summary": [asdict(row) for row in self.summary],
            "coverage": None if self.coverage is None else _listed(self.coverage),
            "settings": dict(self.settings),
            "degenerate": dict(self.degenerate),
        }
        table = table.replace_schema_metadata({_METADATA: json.dumps(about)})
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


def _listed(coverage: Coverage) -> dict[str, Any]:
    return {
        name: value.tolist() if isinstance(value, np.ndarray) else value
        for name, value in vars(coverage).items()
    }


def _curve(coverage: Coverage) -> dict[str, Any]:
    return {name: value for name, value in vars(coverage).items() if isinstance(value, np.ndarray)}


def read_evaluation(path: str | os.PathLike[str]) -> Evaluation:
    """Read what :meth:`Evaluation.to_parquet` has written.

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
        raise ValueError(f"{path} holds no evaluation")
    about = json.loads(stored)
    if about["format"] != _FORMAT:
        raise ValueError(f"{path} has format {about['format']}, of which only {_FORMAT} is known")
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

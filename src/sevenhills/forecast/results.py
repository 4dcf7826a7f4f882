"""The result of an evaluation: figures over all scenes, with bootstrap errors, and tables."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import pi, sqrt
from types import MappingProxyType
from typing import Any

import numpy as np

from ..atomic_write import atomic_write
from ..extras import import_extra
from ..metrics.tables import MeasureTable, data_frame
from ..validation import check_choice, freeze
from .groups import (
    Calibration,
    GroupedMean,
    Grouping,
    Interval,
    Shares,
    bootstrap,
    check_group_labels,
)
from .scores import BlockScores, measure_of

#: Key of the metadata of a file, which hold all but the scenes.
_METADATA = b"sevenhills.forecast.evaluation"
_FORMAT = 2
#: Prefix of the columns of levels in a file; no measure starts with it.
_LEVEL = "level_"
_SCENE, _GROUP = "scene", "group"
#: Fraction of the scenes that the trimmed mean leaves out at either end.
_TRIMMED = 0.1

#: Samples that a measure depends on, by its needs.
_SAMPLES = {"density": "paths", "steps": "steps", "agents": "joint paths"}


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
    median, trimmed_mean : float
        Median over the scenes, and mean without the lowest and the highest tenth of them.
    largest_share : float
        Share of the most extreme scene in the sum of the absolute deviations of all scenes from
        their median. Near 1, the mean depends on that scene alone.
    n_scenes : int
        Number of scenes that have the measure.
    n_degenerate : int
        Number of densities behind the measure whose samples are degenerate.
    source : str
        Where the scores come from: "exact" densities, "samples", the "modes" of mixtures or "draws"
        from them, or the estimator of a density, "pooled", "rome" or "kde" for instance.

    Notes
    -----
    With ``average="group"``, all figures are over the means of groups in place of scenes. "ece" has
    no value in a single scene, hence no median, trimmed mean and share.
    """

    measure: str
    mean: float
    standard_error: float
    low: float
    high: float
    median: float
    trimmed_mean: float
    largest_share: float
    n_scenes: int
    n_degenerate: int
    source: str


@dataclass(frozen=True, eq=False)
class Coverage:
    """The fraction of truths that lie in highest-density regions of their forecasts.

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
    r"""Measures of forecasts, by scene and over all scenes.

    Attributes
    ----------
    scenes : mapping of str to ndarray of shape (n_scenes,)
        Every measure in every scene, NaN where it is not defined.
    summary : tuple of Row
        Every measure over all scenes.
    coverage : Coverage or None
        The coverage of highest-density regions; None without the measure "ece".
    levels : ndarray of shape (n_scenes, n_truths)
        Probability of the smallest highest-density region that holds each truth, agent by agent;
        NaN where there is none.
    settings : mapping
        Parameters, shapes and versions. "effective_groups" is :math:`(\sum_g n_g)^2 / \sum_g
        n_g^2` with the numbers of scenes :math:`n_g`: as many groups of equal size have means
        with the same error, if the scenes of a group are alike.
    degenerate : mapping of str to int
        Counts of degenerate steps and paths, and of samples and scenes that were left out.
    names : ndarray of shape (n_scenes,)
        Names of the scenes, their numbers if they have none.
    groups : ndarray of shape (n_scenes,) or None
        Labels of groups of dependent scenes; None if all scenes are taken as independent.

    Examples
    --------
    >>> import numpy as np
    >>> from sevenhills.forecast import evaluate
    >>> walks = np.random.RandomState(0).standard_normal((30, 21, 4, 2)).cumsum(axis=2)
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
    groups: np.ndarray | None = None

    def __post_init__(self) -> None:
        for array in (*self.scenes.values(), self.levels, self.names, self.groups):
            if array is not None:
                array.flags.writeable = False
        for name in ("scenes", "settings", "degenerate"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    @property
    def grouping(self) -> Grouping:
        """The groups by number."""
        return Grouping.of(self.groups, len(self.names), self.settings["average"])

    def columns(self, what: str = "summary") -> dict[str, Any]:
        """Return the "summary", the "scenes" or the "coverage" by columns."""
        check_choice(what, "what", ("summary", "scenes", "coverage"))
        if what == "scenes":
            groups = {} if self.groups is None else {_GROUP: self.groups}
            return {_SCENE: self.names, **groups, **self.scenes}
        if what == "coverage":
            found = {} if self.coverage is None else vars(self.coverage)
            return {name: value for name, value in found.items() if name != "n_truths"}
        return super().columns()

    def to_pandas(self, what: str = "summary") -> Any:
        """Return the summary, the scenes or the coverage as a data frame of pandas."""
        return data_frame(self.columns(what))

    def by(self, labels: Any = None, measures: Sequence[str] | str | None = None) -> "Breakdown":
        """Return the measures of parts of the scenes, those with the same label.

        Parameters
        ----------
        labels : array-like of shape (n_scenes,), optional
            The part of every scene: its recording, or "standing" and "walking". By default the
            groups.
        measures : sequence of str, optional
            Measures to return, by default all.

        Returns
        -------
        Breakdown

        Examples
        --------
        >>> import numpy as np
        >>> from sevenhills.forecast import evaluate
        >>> walks = np.random.RandomState(0).standard_normal((30, 21, 4, 2)).cumsum(axis=2)
        >>> truth = walks[:, 0]
        >>> evaluation = evaluate(walks[:, 1:], truth, measures=("energy_score", "ade"))
        >>> traveled = np.linalg.norm(truth[:, -1] - truth[:, 0], axis=-1)
        >>> found = evaluation.by(np.where(traveled < 2, "near", "far"))
        >>> found["near", "ade"].mean < found["far", "ade"].mean
        True
        """
        labels = self.groups if labels is None else labels
        if labels is None:
            raise ValueError("labels must be given, because the evaluation has no groups")
        labels = check_group_labels(labels, len(self.names), "labels")
        chosen = [measures] if isinstance(measures, str) else measures
        names = [self[each].measure for each in chosen or [row.measure for row in self.summary]]
        grouping, rows = self.grouping, []
        for label in np.unique(labels):
            inside = labels == label
            some = grouping[inside]
            for name in names:
                found = _statistic(name, self.scenes, self.levels, inside, some)
                figures = found.value, found.standard_error, found.n_scenes, found.n_groups
                rows.append(Part(label.item(), name, *figures))
        return Breakdown(tuple(rows), self.settings)

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
            f"{len(self.names)} scenes of {settings['n_samples']} "
            f"{'samples' if settings['n_draws'] is None else 'components'}, "
            f"{settings['n_steps']} steps, {settings['n_coordinates']} coordinates; paths by "
            f"{settings['estimator']}, steps by {settings['step_estimator']}"
            + ("" if self.groups is None else f"; {_groups_text(settings)}")
            + (f"; degenerate: {', '.join(found)}" if found else "")
        )


def _groups_text(settings: Mapping[str, Any]) -> str:
    """Return the numbers of groups, and what means are over."""
    means = ", means over groups" if settings["average"] == "group" else ""
    return f"{settings['n_groups']} groups, effectively {settings['effective_groups']:.3g}{means}"


@dataclass(frozen=True)
class Part:
    """A measure over a part of the scenes.

    Attributes
    ----------
    label : str or number
        Label of the part.
    measure : str
    mean, standard_error : float
        Mean over the scenes of the part that have the measure, and its standard error, clustered
        by group; NaN for a single group, and for "ece".
    n_scenes, n_groups : int
        Number of scenes that have the measure, and of their groups.
    """

    label: Any
    measure: str
    mean: float
    standard_error: float
    n_scenes: int
    n_groups: int


@dataclass(frozen=True, eq=False, repr=False)
class Breakdown(MeasureTable):
    """Measures of parts of the scenes; ``breakdown["walking", "nll"]`` is one of the rows.

    Attributes
    ----------
    summary : tuple of Part
    settings : mapping
        Settings of the evaluation.
    """

    summary: tuple[Part, ...]
    settings: Mapping[str, Any]

    def __getitem__(self, key: Any) -> Part:
        rows = {(row.label, row.measure): row for row in self.summary}
        if key not in rows:
            raise KeyError(f"there is no part and measure {key!r}, only {list(rows)}")
        return rows[key]

    def _caption(self) -> str:
        n_parts = len({row.label for row in self.summary})
        return f"{self.settings['n_scenes']} scenes in {n_parts} parts"


def read_evaluation(path: str | os.PathLike[str]) -> Evaluation:
    """Read an evaluation from a file of :meth:`Evaluation.to_parquet`.

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
    names, groups = columns.pop(_SCENE), columns.pop(_GROUP, None)
    return Evaluation(
        scenes=columns,
        summary=tuple(Row(**row) for row in about["summary"]),
        coverage=about["coverage"] and Coverage(**about["coverage"]),
        levels=np.stack(levels, axis=1) if levels else np.empty((len(names), 0)),
        settings=about["settings"],
        degenerate=about["degenerate"],
        names=names,
        groups=None if groups is None else check_group_labels(groups, len(names), _GROUP),
    )


# Figures over all scenes


def summarize(
    scores: BlockScores,
    sources: Mapping[str, str],
    settings: Mapping[str, Any],
    names: np.ndarray,
    groups: np.ndarray | None,
    bounds: np.ndarray,
    n_replicates: int,
    rng: np.random.RandomState,
) -> Evaluation:
    """Return the evaluation of all scenes, which have these names (S,) and labels of groups (S,).

    Sources say where the scores of every measure come from, in the order of the table. The coverage
    is reported at the levels in ``bounds``; intervals have the confidence of the settings.
    """
    levels, degenerate = scores.levels, scores.degenerate
    grouping = Grouping.of(groups, len(names), settings["average"])
    statistics: dict[str, Any] = {
        name: _statistic(name, scores.scenes, levels, slice(None), grouping) for name in sources
    }
    curve = {"coverage": Shares(levels, bounds, grouping)} if "ece" in sources else {}
    intervals = bootstrap(
        statistics | curve, grouping.n_groups, n_replicates, settings["confidence"], rng
    )
    return Evaluation(
        scenes={name: scores.scenes[name] for name in sources if name != "ece"},
        summary=tuple(
            _row(name, statistic, intervals[name], degenerate.affected, sources[name])
            for name, statistic in statistics.items()
        ),
        coverage=Coverage(
            levels=bounds,
            observed=curve["coverage"].value,
            **intervals["coverage"]._asdict(),
            n_truths=int(np.count_nonzero(~np.isnan(levels))),
        )
        if curve
        else None,
        levels=levels if "ece" in sources else np.empty((len(levels), 0)),
        settings={
            **settings,
            "n_groups": grouping.n_groups,
            "effective_groups": grouping.effective,
        },
        degenerate={name: count for name, count in sorted(degenerate.counts.items()) if count},
        names=names,
        groups=groups,
    )


def _statistic(
    name: str,
    scenes: Mapping[str, np.ndarray],
    levels: np.ndarray,
    part: Any,
    grouping: Grouping,
) -> GroupedMean | Calibration:
    """Return a measure over a part of the scenes, which has these groups."""
    if name == "ece":
        return Calibration(levels[part], grouping)
    return GroupedMean(scenes[name][part], grouping)


def without_scenes(
    evaluation: Evaluation,
    measure: str,
    absent: np.ndarray,
    n_replicates: int,
    rng: np.random.RandomState,
) -> Evaluation:
    """Return an evaluation with one measure, not counting values (S, ...) that are absent."""
    grouping, confidence = evaluation.grouping, evaluation.settings["confidence"]
    values = np.where(absent, np.nan, evaluation.scenes.get(measure, evaluation.levels))
    statistic = _statistic(measure, {measure: values}, values, slice(None), grouping)
    found = bootstrap({measure: statistic}, grouping.n_groups, n_replicates, confidence, rng)
    rows = (_row(measure, statistic, found[measure], {}, evaluation[measure].source),)
    if measure == "ece":
        return replace(evaluation, summary=rows, levels=values)
    return replace(evaluation, summary=rows, scenes={measure: values})


def _row(
    name: str,
    statistic: GroupedMean | Calibration,
    interval: Interval,
    affected: Mapping[str, int],
    source: str,
) -> Row:
    """Return the summary of a measure, with limits that its mean can take."""
    values, (error, low, high) = statistic.averaged, map(float, interval)
    if len(values) and values.min() >= 0:
        low = max(low, 0.0)
    of = _SAMPLES.get(measure_of(name).needs, "")
    return Row(
        measure=name,
        mean=statistic.value,
        standard_error=error,
        low=low,
        high=min(high, 1.0) if "rate" in name else high,
        **_robust_figures(values),
        n_scenes=statistic.n_scenes,
        n_degenerate=0 if source == "exact" else affected.get(of, 0),
        source=source,
    )


def _robust_figures(values: np.ndarray) -> dict[str, float]:
    """Return median, trimmed mean and largest share of values (S,); NaN without any."""
    if not len(values):
        return dict.fromkeys(("median", "trimmed_mean", "largest_share"), float("nan"))
    ordered, median = np.sort(values), float(np.median(values))
    cut = int(_TRIMMED * len(values))
    deviations = np.abs(ordered - median)
    total = deviations.sum()
    return {
        "median": median,
        "trimmed_mean": float(ordered[cut : len(values) - cut].mean()),
        "largest_share": float(deviations.max() / total) if total else 0.0,
    }

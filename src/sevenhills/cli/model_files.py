"""Estimators by name, model files, and the rows of a table in the columns of a model."""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..density import Density, KernelMixture
from ..estimators import ESTIMATORS, AutoROME, propose_support
from ..estimators.defaults import AFFORDABLE, default_estimator
from ..estimators.support import Support
from ..stacking import categories
from ..storage import load
from ..texts import counted
from .columns import Table, default_names
from .options import Layout
from .samples import Parts, Samples, columns_named, words_remarks
from .screen import listed, remark, working
from .table_files import is_model, opened, read_table

#: Values of the options that are numbers or words.
_NUMBERS = {"min_std": "a number or auto", "resolution": "a number, auto or none"}
#: Options that ROME alone has.
_ROME_ALONE = ("selection", "density")


@dataclass(frozen=True, eq=False)
class Recipe:
    """An unfitted estimator, and the reason why it was chosen."""

    estimator: Any
    #: The name in ``--estimator``.
    name: str
    #: Empty if the user named the estimator.
    reason: str

    def __str__(self) -> str:
        """Return the class and the reason."""
        title = type(self.estimator).__name__
        return f"{title}, {self.reason}" if self.reason else title

    @property
    def facts(self) -> dict[str, Any]:
        """The name and the reason, for machines."""
        return {"estimator": self.name, "estimator_reason": self.reason or None}


def make_recipe(name: str | None, shape: tuple[int, ...], **options: Any) -> Recipe:
    """Return an unfitted estimator; options that are None keep their defaults.

    Without a name it is ROME if an option is one of ROME alone, or else the default for a table of
    a ``shape``. Scales are automatic by default, for tables have columns of many units.
    """
    given = {option: value for option, value in options.items() if value is not None}
    name, estimator, reason = _chosen(name, shape, given)
    known = estimator.get_params()
    if "scale" in known and given.get("density") != "knn":
        estimator.set_params(scale="auto")
    for option, value in given.items():
        if option not in known:
            raise ValueError(f"{_flag(option)} has no meaning with --estimator {name}")
        estimator.set_params(**{option: _parsed(option, value)})
    return Recipe(estimator, name, reason)


def _chosen(
    name: str | None, shape: tuple[int, ...], options: Iterable[str]
) -> tuple[str, Any, str]:
    """Return the name of an estimator, the estimator and the reason for it."""
    if name is not None:
        return name, ESTIMATORS[name](), ""
    own = [_flag(option) for option in options if option in _ROME_ALONE]
    if own:
        return "rome", ESTIMATORS["rome"](), f"because {own[0]} is an option of it"
    estimator = default_estimator(*shape)
    if isinstance(estimator, AutoROME):
        reason = "the default up to {:,} values; --estimator rome, the published method, is faster"
        return "auto", estimator, reason.format(AFFORDABLE)
    reason = "the default for more than {:,} values; --estimator auto fits better, and is slower"
    return "rome", estimator, reason.format(AFFORDABLE)


def recipes_of(
    samples: Samples,
    parts: Parts,
    estimator: str | None,
    support: Sequence[str] | None,
    **options: Any,
) -> list[Recipe]:
    """Return a recipe for every part of samples; the number of all samples decides on defaults."""
    bounds = parse_support(support, samples.frame, samples.weights)
    supports = (_bounds_in(bounds, samples.names, part.names) for part in parts.values())
    shape = samples.frame.shape
    return [make_recipe(estimator, shape, support=each, **options) for each in supports]


def fit_parts(samples: Samples, parts: Parts, **options: Any) -> tuple[Recipe, list[Any]]:
    """Fit the samples of every category; return a recipe and the models.

    Options are those of :func:`recipes_of`.
    """
    recipes = recipes_of(samples, parts, **options)
    models = []
    for (category, part), recipe in zip(parts.items(), recipes, strict=True):
        with fitting(part, category):
            models.append(recipe.estimator.fit(part.frame, sample_weight=part.weights))
        remark(*_warnings_of_values(models[-1], part))
    return recipes[0], models


def _warnings_of_values(model: Any, samples: Samples) -> list[str]:
    """Return a warning if clusters are no more than the values of a column.

    AutoROME keeps columns of few values out of clusters, but ROME does not.
    """
    labels = getattr(model, "labels_", np.empty(0))
    n_clusters = len(set(labels[labels >= 0]))
    if n_clusters < 2 or isinstance(model, AutoROME):
        return []
    X = samples.X[labels >= 0]
    few = categories(X, np.ones(len(X)))
    pairs = (np.column_stack([labels[labels >= 0], X[:, j]]) for j in few)
    is_split = [len(np.unique(each, axis=0)) == n_clusters for each in pairs]
    names = [samples.names[j] for j, each in zip(few, is_split, strict=True) if each]
    if not names:
        return []
    return [
        f"warning: every cluster has one value of {names[0]} only, which may be all that splits "
        f"the rows; --by {shlex.quote(names[0])} fits a density to each value"
    ]


@contextmanager
def fitting(samples: Samples, category: str | None) -> Iterator[None]:
    """Show that samples are fitted, and put their category into errors."""
    where = "" if category is None else f" of {category}"
    with working(f"fitting {counted(len(samples.frame), 'row')}{where}"), naming_category(category):
        yield


@contextmanager
def naming_category(category: str | None) -> Iterator[None]:
    """Put a category into the errors of its samples."""
    try:
        yield
    except ValueError as error:
        if category is None:
            raise
        raise ValueError(f"{category}: {error}") from error


def _bounds_in(
    bounds: dict[int, Any] | None, names: Sequence[str], others: Sequence[str]
) -> dict[int, Any] | None:
    """Return the supports of the columns ``names`` by their index in ``others``, without more."""
    if bounds is None:
        return None
    known = {names[j]: support for j, support in bounds.items()}
    return {i: known[name] for i, name in enumerate(others) if name in known}


def _flag(option: str) -> str:
    return f"--{option.replace('_', '-')}"


def _parsed(option: str, value: Any) -> Any:
    """Return the value of an option as estimators take it."""
    if option in ("selection", "resolution", "scale") and value == "none":
        return None
    if option not in _NUMBERS or value == "auto":
        return value
    try:
        return float(value)
    except ValueError:
        raise ValueError(f"{_flag(option)} must be {_NUMBERS[option]}, got {value!r}") from None


def parse_support(
    given: Sequence[str] | None, frame: Any, weights: np.ndarray | None = None
) -> dict[int, Any] | None:
    """Return the supports of columns by their index; refuse rows with values outside of them."""
    if not given:
        return None
    X, names = np.ascontiguousarray(frame), list(frame.columns)
    if list(given) == ["auto"]:
        found: dict[int, Any] = propose_support(X)
        taken = [
            f"{names[j]} from 0{'' if high is None else f' to {high}'}"
            for j, (_, high) in found.items()
        ]
        remark(f"--support auto took: {listed(taken) if taken else 'no bounds'}")
    else:
        pairs = [each.rpartition("=")[::2] for each in given]
        found = {_column(name, names): _parsed_support(text, name) for name, text in pairs}
        if len(found) < len(pairs):
            raise ValueError(f"--support names a column twice: {' '.join(given)}")
    Support.from_samples(found, X, weights, names, frame.index.to_numpy() + 1)
    return found


def _column(name: str, names: Sequence[str]) -> int:
    """Return the index of a column that is given by its name or its index."""
    if name in names:
        return list(names).index(name)
    if name.isdecimal() and int(name) < len(names):
        return int(name)
    raise ValueError(f"--support names the column {name!r}, but there are {listed(names, 8)}")


def _parsed_support(text: str, name: str) -> Any:
    """Return a support as estimators take it, like 0:, 0:1, 0::log, circular or circular:360."""
    parts = text.split(":")
    try:
        if parts[0] == "circular" and len(parts) <= 2:
            return ("circular", *map(float, parts[1:]))
        low, high, *kind = parts
        return (float(low) if low else None, float(high) if high else None, *kind)
    except ValueError:
        raise ValueError(
            f"--support of {name} must be LOW:HIGH, LOW:HIGH:log, LOW:HIGH:mirror, circular or "
            f"circular:PERIOD, got {text!r}"
        ) from None


def supports(model: Any) -> dict[str, Any]:
    """Return the supports of the columns that have one."""
    return {
        each.name: {
            "kind": each.kind,
            **dict(zip(("low", "high"), each.ends, strict=True)),
            "n_at_bounds": each.n_at_bounds,
        }
        for each in model.support_
    }


def resolutions(model: Any, names: Sequence[str]) -> dict[str, float]:
    """Return the units of the columns whose values were taken as rounded."""
    units = getattr(model, "resolution_", ())
    return {name: float(unit) for name, unit in zip(names, units, strict=False) if unit}


@dataclass(frozen=True, eq=False)
class Model:
    """The contents of a model file."""

    #: The saved object.
    value: Any
    density: Density
    #: The columns that the model was fitted to, if they had names.
    names: list[str] | None

    @property
    def shown_names(self) -> list[str]:
        """The columns, with default names if they have none."""
        return self.names or default_names(self.density.n_features)


def read_model(path: str | Path) -> Model:
    """Return the model in a file."""
    with opened(str(path)) as file:
        return model_of(file, str(path))


def model_of(file: IO[bytes], path: str) -> Model:
    """Return the model in an open file."""
    if not is_model(file):
        raise ValueError(f"{path} is not a model; `sevenhills fit` makes one from data")
    try:
        value = load(file)
    except ValueError as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    # The drop-in for romepy wraps a ROME estimator.
    estimator = getattr(value, "_model", value)
    density = value if isinstance(value, Density) else estimator.density_
    names = getattr(estimator, "feature_names_in_", getattr(density, "feature_names", None))
    return Model(estimator, density, None if names is None else list(names))


def read_queries(model: Model, path: str, layout: Layout) -> Samples:
    """Return all rows of a file in the columns of a model, NaN for missing and infinite values."""
    table = read_table(path, layout)
    names = _names_in(table, model)
    remarks = list(table.remarks)
    unused = [name for name in table.names if name not in names]
    if unused:
        remarks.append(f"not used, because the model does not have them: {listed(unused)}")
    remarks += words_remarks(table, [name for name in names if name in table.words])
    frame = table.frame[names].set_axis(model.shown_names, axis=1)
    frame = frame.where(np.isfinite(frame))
    return Samples(table.source, frame, None, table.has_names, {}, tuple(remarks))


def _names_in(table: Table, model: Model) -> list[str]:
    """Return the columns of a model by name or, if the table has no names, by position."""
    names, n_features = model.names, model.density.n_features
    if names is not None and (table.has_names or set(names) <= set(table.names)):
        lacking = [name for name in names if name not in table.names]
        if lacking:
            raise ValueError(
                f"{table.source} lacks {columns_named(lacking)} of the model; "
                f"it has {listed(table.names, 8)}"
            )
        return names
    found = table.names
    if len(found) != n_features:
        found = [name for name in found if name not in table.words]
    if len(found) != n_features:
        known = "" if names is None else f": {listed(names)}"
        raise ValueError(
            f"{table.source} has {counted(len(found), 'column')} of numbers, but the model "
            f"has {n_features}{known}"
        )
    return found


def read_complete_queries(model: Model, path: str, layout: Layout) -> Samples:
    """Return the rows of a file that have all values of a model."""
    queries = read_queries(model, path, layout)
    complete = queries.frame.dropna()
    n_left_out = len(queries.frame) - len(complete)
    if complete.empty:
        raise ValueError(f"{queries.source}: every row has a missing value")
    remarks = queries.remarks
    if n_left_out:
        remarks += (f"left out {counted(n_left_out, 'row')} with missing or infinite values",)
    left_out: dict[str, list[str] | int] = {"rows_with_missing_values": n_left_out}
    return replace(queries, frame=complete, left_out=left_out, remarks=remarks)


def log_densities(
    density: Density, queries: Samples, missing: str, n_jobs: int | None
) -> np.ndarray:
    """Return the log density of every row, NaN for rows that are skipped."""
    X = queries.X
    is_missing = np.isnan(X)
    is_scored = ~is_missing.any(axis=1)
    options = {}
    if missing == "raise" and not is_scored.all():
        row = is_scored.argmin() + 1
        raise ValueError(f"{queries.source}: row {row} has a missing or infinite value")
    if missing == "marginal" and not is_scored.all():
        if not isinstance(density, KernelMixture):
            raise ValueError(
                f"--missing marginal needs a mixture of kernels, but the model is a "
                f"{type(density).__name__}"
            )
        is_scored = ~is_missing.all(axis=1)
        options = {"missing": "marginal"}
    out = np.full(len(X), np.nan)
    if is_scored.any():
        out[is_scored] = density.logpdf(X[is_scored], n_jobs, **options)
    return out

"""Thousands of small data sets, fitted and scored in batches by joblib."""

import gc
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain, pairwise
from multiprocessing import current_process
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.base import BaseEstimator, clone

from ..estimators import ROME
from ..validation import check_choice, check_flag, check_n_jobs
from .parcels import Parcel

#: Data sets in a task at most: a task takes joblib as long as some fits, and copies of messages of
#: many megabytes take longer than those of a few.
_LARGEST_BATCH = 64
#: Tasks for every worker at least, so that none of them is idle for long at the end.
_BATCHES_PER_JOB = 8
#: Values of parameters that need no copy.
_PLAIN = (str, int, float, type(None))

#: Values one after another, an array if all of them are arrays of one shape.
_Batch = list[Any] | np.ndarray


@dataclass(frozen=True)
class Failure:
    """What stands in the place of an answer if a data set was refused.

    Attributes
    ----------
    index : int
        Which data set it was.
    error : str
        The name of the exception.
    message : str
        What it said.
    """

    index: int
    error: str
    message: str


def fit_many(
    datasets: Any,
    estimator: Any = None,
    *,
    offsets: Any = None,
    sample_weight: Any = None,
    n_jobs: int | None = None,
    errors: str = "raise",
    verbose: bool = False,
) -> list[Any]:
    """Fit an estimator to each of many data sets.

    The answers are those of ``[clone(estimator).fit(X) for X in datasets]``, to the bit on one
    machine; of large data, processes round differently if linear algebra has fewer threads there.
    The work is done by joblib, a batch of data sets at a time, so that ``joblib.parallel_config``
    moves it to threads, processes or other machines.

    Parameters
    ----------
    datasets : sequence of array-like, array-like of shape (n_sets, n_samples, n_features) or \
            array-like of shape (n_rows, n_features)
        The data sets: arrays or frames, which need not be of one size; data sets of one size in
        one array; or the rows of all data sets, one after another, with ``offsets``.
    estimator : estimator, optional
        What to fit; it is cloned, and need not be fitted. ``ROME()`` by default.
    offsets : array-like of shape (n_sets + 1,), optional
        Data set ``i`` consists of the rows ``offsets[i]`` to ``offsets[i + 1] - 1``.
    sample_weight : sequence of array-like, optional
        The weights of the samples of every data set, or None; given as ``datasets`` are.
    n_jobs : int, optional
        Number of workers, processes unless joblib is told otherwise; one by default.
    errors : {"raise", "skip"}, default="raise"
        What to do if a data set is refused: raise an error that names it, or put a
        :class:`~sevenhills.scale.Failure` in its place and go on.
    verbose : bool, default=False
        Whether joblib reports how many batches are done.

    Returns
    -------
    list of estimators
        In the order of the data sets.

    Examples
    --------
    >>> import numpy as np
    >>> from sevenhills import ROME, fit_many
    >>> hills = np.random.RandomState(0).standard_normal((5, 40, 2))
    >>> models = fit_many(hills, ROME(selection=None))
    >>> len(models)
    5
    >>> rows, offsets = hills.reshape(-1, 2), [0, 40, 100, 200]
    >>> [len(model.labels_) for model in fit_many(rows, offsets=offsets)]
    [40, 60, 100]
    """
    recipe = clone(ROME() if estimator is None else estimator)
    sets = _in_sequence(datasets, offsets)
    weights = _weights_of(sample_weight, offsets, len(sets))
    if errors == "raise":
        for i, (X, each) in enumerate(zip(sets, weights, strict=True)):
            _check_shapes(i, X, each)
    return _work_through(partial(_fit, recipe), (sets, weights), n_jobs, errors, verbose)


def score_many(
    models: Sequence[Any],
    datasets: Any,
    *,
    offsets: Any = None,
    n_jobs: int | None = None,
    errors: str = "raise",
    verbose: bool = False,
) -> list[Any]:
    """Return the log densities of many models, each at the points of a data set of its own.

    Parameters
    ----------
    models : sequence of fitted estimators or densities
    datasets : sequence of array-like, or array-like
        A data set for every model; see :func:`fit_many`.
    offsets : array-like of shape (n_sets + 1,), optional
        See :func:`fit_many`.
    n_jobs : int, optional
        Number of workers, processes unless joblib is told otherwise; one by default. A few points
        are scored faster than their model is sent to another process.
    errors : {"raise", "skip"}, default="raise"
        What to do if a data set is refused, or if its model is a
        :class:`~sevenhills.scale.Failure` itself, which is then kept.
    verbose : bool, default=False
        Whether joblib reports how many batches are done.

    Returns
    -------
    list of ndarray
        In the order of the models.

    Examples
    --------
    >>> import numpy as np
    >>> from sevenhills import fit_many, score_many
    >>> train, test = np.random.RandomState(0).standard_normal((2, 5, 40, 2))
    >>> scores = score_many(fit_many(train), test)
    >>> len(scores), scores[0].shape
    (5, (40,))
    """
    models, sets = list(models), _in_sequence(datasets, offsets)
    if len(models) != len(sets):
        raise ValueError(f"there are {len(models)} models, but {len(sets)} datasets")
    if errors == "raise":
        for i, (model, X) in enumerate(zip(models, sets, strict=True)):
            _check_model(i, model)
            _check_shapes(i, X)
    return _work_through(_score, (models, sets), n_jobs, errors, verbose)


def _in_sequence(datasets: Any, offsets: Any) -> _Batch:
    """Return data sets one after another; those in one array are views of it."""
    if offsets is not None:
        return _split(datasets, offsets, "datasets", n_dimensions=2)
    if not hasattr(datasets, "shape"):
        return list(datasets)
    array = datasets if isinstance(datasets, np.ndarray) else np.asarray(datasets)
    if array.ndim != 3:
        raise ValueError(
            "datasets must be a list of data sets, an array of shape (n_sets, n_samples, "
            f"n_features), or one of shape (n_rows, n_features) with offsets; got shape "
            f"{array.shape}"
        )
    return array


def _weights_of(sample_weight: Any, offsets: Any, n_sets: int) -> list[Any]:
    """Return the weights for every data set."""
    if sample_weight is None:
        return [None] * n_sets
    if offsets is not None:
        return _split(sample_weight, offsets, "sample_weight", n_dimensions=1)
    weights = list(sample_weight)
    if len(weights) != n_sets:
        raise ValueError(
            f"sample_weight must be given for each of the {n_sets} datasets, got {len(weights)}"
        )
    return weights


def _split(rows: Any, offsets: Any, name: str, n_dimensions: int) -> list[Any]:
    """Return the rows of every data set."""
    rows = rows if isinstance(rows, np.ndarray) else np.asarray(rows)
    if rows.ndim != n_dimensions:
        raise ValueError(
            f"{name} must have {n_dimensions} dimension(s) beside offsets, got {rows.ndim}"
        )
    bounds = np.asarray(offsets)
    if bounds.ndim != 1 or bounds.dtype.kind not in "iu":
        raise TypeError("offsets must be whole numbers in one dimension")
    if (
        len(bounds) == 0
        or bounds[0] != 0
        or bounds[-1] != len(rows)
        or (bounds[1:] < bounds[:-1]).any()
    ):
        raise ValueError(f"offsets must rise from 0 to the {len(rows)} rows of {name}")
    return [rows[start:end] for start, end in pairwise(bounds.tolist())]


def _check_shapes(i: int, X: Any, weights: Any = None) -> None:
    """Refuse a data set of the wrong shape before there is any work."""
    try:
        shape = np.shape(X)
    except ValueError as error:
        raise ValueError(f"datasets[{i}]: {error}") from error
    if len(shape) != 2 or 0 in shape:
        raise ValueError(
            f"datasets[{i}] must have samples and features, in two dimensions; got shape {shape}"
        )
    if weights is not None and np.shape(weights) not in ((), shape[:1]):
        raise ValueError(
            f"datasets[{i}]: sample_weight must have shape {shape[:1]}, got {np.shape(weights)}"
        )


def _check_model(i: int, model: Any) -> None:
    if isinstance(model, Failure):
        raise ValueError(f"models[{i}] is a {model}")
    if not (hasattr(model, "score_samples") or hasattr(model, "logpdf")):
        raise TypeError(f"models[{i}] has no densities, it is a {type(model).__name__}")


def _work_through(
    work: Callable[..., Any],
    arguments: tuple[_Batch, ...],
    n_jobs: int | None,
    errors: str,
    verbose: bool,
) -> list[Any]:
    """Return what the work makes of the first of all arguments, of the second, and so on."""
    check_n_jobs(n_jobs)
    check_choice(errors, "errors", ("raise", "skip"))
    check_flag(verbose, "verbose")
    bounds = _batches(len(arguments[0]), effective_n_jobs(n_jobs))
    # Tasks are not to be joined again, which joblib does with short ones if it is not told.
    parallel = Parallel(n_jobs=n_jobs, batch_size=1, verbose=10 if verbose else 0)
    done = parallel(
        delayed(_work_on_batch)(
            work, tuple(_batch_of(each, start, end) for each in arguments), start, errors
        )
        for start, end in pairwise(bounds)
    )
    return list(chain.from_iterable(done))


def _batch_of(values: _Batch, start: int, end: int) -> _Batch:
    """Return some of the values so that they are sent at once."""
    some = values[start:end]
    return some if isinstance(some, np.ndarray) else Parcel(some, together=True)


def _batches(n_sets: int, n_jobs: int) -> list[int]:
    """Return where batches begin and the last one ends."""
    n_batches = max(-(-n_sets // _LARGEST_BATCH), min(n_sets, _BATCHES_PER_JOB * n_jobs))
    return [n_sets * i // n_batches for i in range(n_batches + 1)] if n_sets else []


def _work_on_batch(
    work: Callable[..., Any], batch: tuple[_Batch, ...], first: int, errors: str
) -> list[Any]:
    spare_imports()
    out = Parcel()
    for i, arguments in enumerate(zip(*batch, strict=True), first):
        try:
            out.append(work(*arguments))
        except Exception as error:
            if errors == "raise":
                raise _named(error, i) from error
            out.append(Failure(i, type(error).__name__, str(error)))
    return out


@cache
def spare_imports() -> None:
    """Keep joblib's processes from searching all that was imported for garbage every second.

    They do so where psutil is not installed, and it takes a tenth of a second.
    """
    if current_process().name.startswith("LokyProcess"):
        gc.freeze()


def _named(error: Exception, i: int) -> Exception:
    """Return an error of the same kind that says which data set it was.

    Not every exception can be made from a message, or sent from one process to another.
    """
    kinds = (kind for kind in (ValueError, TypeError) if isinstance(error, kind))
    return next(kinds, RuntimeError)(f"datasets[{i}]: {error}")


def _fit(recipe: BaseEstimator, X: Any, weights: Any) -> Any:
    model = blank(recipe)
    return model.fit(_plain(X)) if weights is None else model.fit(_plain(X), sample_weight=weights)


def blank(recipe: BaseEstimator) -> Any:
    """Return a clone of an estimator that is not fitted; cloning takes a twentieth of a fit."""
    if all(isinstance(value, _PLAIN) for value in vars(recipe).values()):
        return copy(recipe)
    return clone(recipe)


def _score(model: Any, X: Any) -> Any:
    if isinstance(model, Failure):
        return model
    if hasattr(model, "score_samples"):
        return model.score_samples(_plain(X))
    return model.logpdf(_plain(X))


def _plain(X: Any) -> Any:
    """Return a memory map, as which joblib sends large arrays, as the array that it is."""
    return np.asarray(X) if isinstance(X, np.memmap) else X

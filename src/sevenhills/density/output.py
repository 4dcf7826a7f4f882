"""Results as data frames of pandas or polars, or as arrays."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..extras import import_extra

#: The libraries of frames.
LIBRARIES = ("pandas", "polars")


def library_of(X: Any) -> str | None:
    """Return the library of a data frame, None for other values."""
    library = type(X).__module__.partition(".")[0]
    return library if library in LIBRARIES and hasattr(X, "columns") else None


def index_of(X: Any) -> Any:
    """Return the index of a frame or a Series of pandas, None for other values."""
    return X.index if hasattr(X, "iloc") else None


def to_frame(
    values: np.ndarray, library: str | None, names: Sequence[str] | None, index: Any = None
) -> Any:
    """Return rows (n_rows, n_features) as a frame of a library, or as they are without one.

    Features without names are x0, x1, ... as in scikit-learn. The ``index`` is that of a frame of
    pandas.
    """
    if library is None:
        return values
    columns = column_names(names, values.shape[1])
    frames = import_extra(library, "frames", f"output of {library!r} needs {library}")
    if library == "polars":
        return frames.DataFrame(values, schema=columns, orient="row")
    return frames.DataFrame(values, columns=columns, index=index)


def to_named(values: np.ndarray, library: str | None, names: Sequence[str] | None) -> Any:
    """Return one value of every feature with its name: a Series of pandas, or a row of polars."""
    if library != "pandas":
        return values if library is None else to_frame(values[None], library, names)
    frames = import_extra(library, "frames", f"output of {library!r} needs {library}")
    return frames.Series(values, index=column_names(names, len(values)))


def column_names(names: Sequence[str] | None, n_features: int) -> list[str]:
    """Return the names of features as strings, x0, x1, ... without any."""
    return [f"x{j}" for j in range(n_features)] if names is None else [str(each) for each in names]

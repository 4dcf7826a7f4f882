"""The figures that the study published.

A. Mészáros, J. F. Schumann, J. Alonso-Mora, A. Zgonnikov, J. Kober: ROME: Robust Multi-Modal
Density Estimator. IJCAI 2024. Means and standard deviations over 100 runs.
"""

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True)
class Published:
    """One cell of a table.

    Attributes
    ----------
    table : str
        Which table it stands in.
    distribution : str
        See :func:`sevenhills.datasets.names`.
    metric : str
        "D_JS", "W_hat", "L_hat" or "D_JS_true".
    method : str
        "rome", "mpw" or "vine".
    selection : str or None
        "silhouette", "dbcv" or None for a single cluster; None for the rivals, too.
    decorrelate, normalize : bool or None
        None where it makes no difference.
    estimator : str or None
        "kde", "gaussian" or "knn"; None for the rivals.
    mean, std : float
        Over the runs.
    digit : float
        One unit of the last digit in which the mean was printed.
    """

    table: str
    distribution: str
    metric: str
    method: str
    selection: str | None
    decorrelate: bool | None
    normalize: bool | None
    estimator: str | None
    mean: float
    std: float
    digit: float


@cache
def published() -> tuple[Published, ...]:
    """Return all cells of the study's tables.

    Examples
    --------
    >>> from study import published
    >>> cells = published()
    >>> len(cells)
    240
    >>> cells[0].distribution, cells[0].metric, cells[0].mean
    ('aniso', 'D_JS', 0.01)
    """
    text = files(__package__).joinpath("published.csv").read_text(encoding="utf-8")
    return tuple(_cell(row) for row in csv.DictReader(text.splitlines()))


def _cell(row: dict[str, str]) -> Published:
    flags = {"yes": True, "no": False, "": None}
    return Published(
        table=row["table"],
        distribution=row["distribution"],
        metric=row["metric"],
        method=row["method"],
        selection=row["selection"] if row["selection"] not in ("", "none") else None,
        decorrelate=flags[row["decorrelate"]],
        normalize=flags[row["normalize"]],
        estimator=row["estimator"] or None,
        mean=float(row["mean"]),
        std=float(row["std"]),
        digit=_digit(row),
    )


def _digit(row: dict[str, str]) -> float:
    """Return one unit of the last digit printed; zeros at the end of the mean were lost."""
    decimals = max(len(row[name].partition(".")[2]) for name in ("mean", "std"))
    return float(10.0**-decimals)

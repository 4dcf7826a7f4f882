"""The estimators of the study by name, and the figures that it published.

A. Mészáros, J. F. Schumann, J. Alonso-Mora, A. Zgonnikov, J. Kober: ROME: Robust Multi-Modal
Density Estimator. IJCAI 2024. Means and standard deviations over 100 runs.
"""

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import product
from typing import Any

import numpy as np

from sevenhills.datasets import Distribution
from sevenhills.estimators import ESTIMATORS, ROME, ManifoldParzen


@dataclass(frozen=True)
class Published:
    """A published figure, one cell of a table.

    Attributes
    ----------
    table : str
        The name of the table.
    distribution : str
        See :func:`sevenhills.datasets.names`.
    metric : str
        "D_JS", "W_hat", "L_hat" or "D_JS_true".
    method : str
        "rome", "mpw" or "vine".
    selection : str or None
        "silhouette", "dbcv" or None for a single cluster; None for other methods, too.
    decorrelate, normalize : bool or None
        None if it has no effect.
    estimator : str or None
        "kde", "gaussian" or "knn"; None for other methods.
    mean, std : float
        Over the runs.
    digit : float
        One unit of the last published digit of the mean.
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
    """Return one unit of the last published digit; trailing zeros of the mean are lost."""
    decimals = max(len(row[name].partition(".")[2]) for name in ("mean", "std"))
    return float(10.0**-decimals)


SELECTIONS = ("silhouette", "dbcv", None)
#: ROME's parameters decorrelate and normalize, by their code in names.
MAPS = {"dn": (True, True), "n": (False, True), "plain": (False, False)}
ORACLE = "oracle"


@dataclass(frozen=True)
class Recipe:
    """An estimator of the tables.

    Attributes
    ----------
    name : str
        Its name in results and plans.
    title : str
        Its name in tables.
    """

    name: str
    title: str

    def build(self, distribution: Distribution) -> Any:
        """Return the unfitted estimator, with the study's ``min_std`` for a distribution."""
        if self.name == ORACLE:
            return _Oracle(distribution)
        if self.is_rome:
            return ROME(min_std=distribution.min_std, **self.settings())
        if self.name == "parzen":
            return ManifoldParzen(min_std=distribution.min_std)
        return ESTIMATORS[self.name]()

    def settings(self) -> dict[str, Any]:
        """Return the parameters of ROME other than ``min_std``."""
        if not self.is_rome:
            raise ValueError(f"{self.name} is not an ablation of ROME")
        parts = ["rome", "silhouette", "dn", "kde"] if self.name == "rome" else self.name.split("-")
        # With Gaussians, the study does not whiten clusters, and does not scale noise.
        decorrelate, normalize = MAPS[parts[2] if len(parts) == 4 else "plain"]
        return {
            "selection": None if parts[1] == "none" else parts[1],
            "decorrelate": decorrelate,
            "normalize": normalize,
            "density": parts[-1],
        }

    @property
    def is_rome(self) -> bool:
        """Whether it is ROME or one of its ablations."""
        return self.name.partition("-")[0] == "rome"

    @property
    def can_sample(self) -> bool:
        """Whether samples can be drawn from it."""
        return not self.name.endswith("knn")


class _Oracle:
    """The truth as an estimator, which ignores samples."""

    def __init__(self, distribution: Distribution) -> None:
        self.truth = distribution.truth

    def fit(self, X: Any) -> "_Oracle":
        """Return the oracle itself."""
        return self

    def score_samples(self, X: Any) -> np.ndarray:
        """Return the true log densities."""
        return self.truth.logpdf(X)

    def sample(self, n_samples: int, random_state: Any) -> np.ndarray:
        """Draw samples of the truth."""
        return self.truth.sample(n_samples, random_state)


def ablation_name(
    selection: str | None, decorrelate: bool | None, normalize: bool | None, estimator: str
) -> str:
    """Return the name of ROME with these settings; None if a setting has no effect.

    Examples
    --------
    >>> from study.catalogue import ablation_name
    >>> ablation_name("dbcv", False, True, "knn")
    'rome-dbcv-n-knn'
    >>> ablation_name(None, None, None, "gaussian")
    'rome-none-gaussian'
    >>> ablation_name("silhouette", True, True, "kde")
    'rome'
    """
    parts = ["rome", selection or "none"]
    if estimator != "gaussian":
        codes = {flags: code for code, flags in MAPS.items()}
        parts.append(codes[bool(decorrelate) and bool(normalize), bool(normalize)])
    name = "-".join([*parts, estimator])
    return "rome" if name == "rome-silhouette-dn-kde" else name


def name_of(cell: Published) -> str:
    """Return the name of the estimator of a published cell."""
    if cell.method == "mpw":
        return "parzen"
    if cell.method != "rome":
        return cell.method
    return ablation_name(cell.selection, cell.decorrelate, cell.normalize, cell.estimator or "kde")


def _ablations() -> list[Recipe]:
    """Return the distinct ablations, seven for every selection."""
    recipes = []
    for selection, estimator in product(SELECTIONS, ("kde", "knn", "gaussian")):
        for code in ("dn",) if estimator == "gaussian" else MAPS:
            name = ablation_name(selection, *MAPS[code], estimator)
            settings = "" if estimator == "gaussian" else f", {_MAP_TITLES[code]}"
            title = f"{_SELECTION_TITLES[selection]}{settings}, {estimator}"
            if name != "rome":
                recipes.append(Recipe(name, title))
    return recipes


_MAP_TITLES = {"dn": "decorrelated and normalized", "n": "normalized", "plain": "as it is"}
_SELECTION_TITLES = {"silhouette": "silhouette", "dbcv": "DBCV", None: "no clustering"}

#: The estimators of the study's main tables.
BASELINES = ("rome", "parzen", "vine")
#: Estimators that the study does not have.
BEYOND = ("oracle", "auto", "kde", "kde_cv", "gmm")

RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe("rome", "ROME"),
        Recipe("parzen", "MPW"),
        Recipe("vine", "VC"),
        Recipe("oracle", "oracle"),
        Recipe("auto", "AutoROME"),
        Recipe("kde", "gaussian_kde"),
        Recipe("kde_cv", "KDE-CV"),
        Recipe("gmm", "GMM-BIC"),
        *_ablations(),
    )
}
ABLATIONS = tuple(name for name, recipe in RECIPES.items() if recipe.is_rome)

"""The estimators of the study, and those beyond it, by name."""

from dataclasses import dataclass
from itertools import product
from typing import Any

from sevenhills.datasets import Distribution
from sevenhills.estimators import (
    ROME,
    AutoROME,
    GaussianKDE,
    GaussianMixtureBIC,
    KernelDensityCV,
    ManifoldParzen,
    VineDensity,
)

from .published import Published

SELECTIONS = ("silhouette", "dbcv", None)
#: Whether to decorrelate and to normalise, by the code that names have for it.
MAPS = {"dn": (True, True), "n": (False, True), "plain": (False, False)}
ORACLE = "oracle"


@dataclass(frozen=True)
class Recipe:
    """An estimator as it stands in a table.

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
        """Return the estimator, not fitted, with the study's ``min_std`` for a distribution."""
        min_std = distribution.min_std
        if self.name == ORACLE:
            return _Oracle(distribution)
        if self.name == "mpw":
            return ManifoldParzen(min_std=min_std)
        if self.name in _BEYOND:
            return _BEYOND[self.name]()
        return ROME(min_std=min_std, **self.settings())

    def settings(self) -> dict[str, Any]:
        """Return the parameters of ROME, beyond ``min_std``, for which this stands."""
        if not self.is_rome:
            raise ValueError(f"{self.name} is not a form of ROME")
        parts = ["rome", "silhouette", "dn", "kde"] if self.name == "rome" else self.name.split("-")
        # Beside Gaussians, which need no map, the study did not scale noise.
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
    """The truth in the place of an estimator, which learns nothing from samples."""

    def __init__(self, distribution: Distribution) -> None:
        self.truth = distribution.truth

    def fit(self, X: Any) -> Any:
        """Return the truth."""
        return self.truth


_BEYOND = {
    "auto": AutoROME,
    "vine": VineDensity,
    "gaussian_kde": GaussianKDE,
    "kde_cv": KernelDensityCV,
    "gmm_bic": GaussianMixtureBIC,
}


def ablation_name(
    selection: str | None, decorrelate: bool | None, normalize: bool | None, estimator: str
) -> str:
    """Return the name of ROME with these settings; None where it makes no difference.

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
    if cell.method != "rome":
        return cell.method
    return ablation_name(cell.selection, cell.decorrelate, cell.normalize, cell.estimator or "kde")


def _ablations() -> list[Recipe]:
    """Return the distinct ablations: seven for every way to choose a clustering."""
    recipes = []
    for selection, estimator in product(SELECTIONS, ("kde", "knn", "gaussian")):
        for code in ("dn",) if estimator == "gaussian" else MAPS:
            name = ablation_name(selection, *MAPS[code], estimator)
            settings = "" if estimator == "gaussian" else f", {_MAP_TITLES[code]}"
            title = f"{_SELECTION_TITLES[selection]}{settings}, {estimator}"
            if name != "rome":
                recipes.append(Recipe(name, title))
    return recipes


_MAP_TITLES = {"dn": "decorrelated and normalised", "n": "normalised", "plain": "as it is"}
_SELECTION_TITLES = {"silhouette": "silhouette", "dbcv": "DBCV", None: "no clustering"}

#: The estimators of the study's main tables.
BASELINES = ("rome", "mpw", "vine")
#: What it does not have.
BEYOND = ("oracle", "auto", "gaussian_kde", "kde_cv", "gmm_bic")

RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe("rome", "ROME"),
        Recipe("mpw", "MPW"),
        Recipe("vine", "VC"),
        Recipe("oracle", "oracle"),
        Recipe("auto", "AutoROME"),
        Recipe("gaussian_kde", "gaussian_kde"),
        Recipe("kde_cv", "KDE-CV"),
        Recipe("gmm_bic", "GMM-BIC"),
        *_ablations(),
    )
}
ABLATIONS = tuple(name for name, recipe in RECIPES.items() if recipe.is_rome)

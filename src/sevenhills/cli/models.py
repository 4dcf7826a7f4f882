"""Recipes by their mode, model files, and the columns of a model."""

from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..density import Density, KernelMixture
from ..density.mixture import with_samples
from ..estimators import (
    ROME,
    AutoROME,
    GaussianKDE,
    GaussianMixtureBIC,
    KernelDensityCV,
    ManifoldParzen,
    VineDensity,
)
from ..storage import load
from .array_files import is_model
from .reading import opened
from .samples import Samples

#: The estimator of every mode.
MODES = {
    "rome": ROME,
    "auto": AutoROME,
    "kde": GaussianKDE,
    "kde-cv": KernelDensityCV,
    "mpw": ManifoldParzen,
    "gmm": GaussianMixtureBIC,
    "vine": VineDensity,
}


def recipe_of(mode: str, **options: Any) -> Any:
    """Return an unfitted estimator; options that are None keep its defaults."""
    recipe = MODES[mode]()
    known = recipe.get_params()
    for name, value in options.items():
        if value is None:
            continue
        if name not in known:
            raise ValueError(f"--{name.replace('_', '-')} has no meaning with --mode {mode}")
        recipe.set_params(**{name: _parsed(name, value)})
    return recipe


def _parsed(name: str, value: Any) -> Any:
    """Return the value of an option as estimators take it."""
    if name == "min_std":
        return _number_or_auto(value, "--min-std must be a number or auto")
    if name in ("selection", "resolution") and value == "none":
        return None
    if name == "resolution":
        return _number_or_auto(value, "--resolution must be a number, auto or none")
    return value


def _number_or_auto(text: str, problem: str) -> float | str:
    if text == "auto":
        return text
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{problem}, got {text!r}") from None


def units_of(model: Any, names: list[str]) -> dict[str, float]:
    """Return the units of the columns whose values were taken as rounded."""
    units = getattr(model, "resolution_", ())
    return {name: float(unit) for name, unit in zip(names, units, strict=False) if unit}


def fit_recipe(recipe: Any, samples: Samples) -> Any:
    """Return a recipe fitted to samples, knowing the names of their columns."""
    model = recipe.fit(samples.X, sample_weight=samples.weights)
    model.feature_names_in_ = np.array(samples.names, dtype=object)
    if isinstance(model.density_, KernelMixture):
        n_samples = len(samples.X) if samples.weights is None else float(samples.weights.sum())
        model.density_ = with_samples(model.density_, samples.names, n_samples)
    return model


@dataclass(frozen=True, eq=False)
class Model:
    """What a model file holds.

    Attributes
    ----------
    value : estimator or KernelMixture
        What was saved.
    density : Density
    names : list of str or None
        The columns that it was fitted to, if they had names.
    """

    value: Any
    density: Density
    names: list[str] | None

    @property
    def kind(self) -> str:
        """The class of what was saved."""
        return type(self.value).__name__

    @property
    def shown_names(self) -> list[str]:
        """The columns, with made-up names if they have none."""
        return self.names or [f"x{i}" for i in range(self.density.n_features)]


def read_model(path: str | Path) -> Model:
    """Return the model in a file."""
    with opened(str(path)) as file:
        return model_of(file, str(path))


def model_of(file: IO[bytes], path: str) -> Model:
    """Return the model in a file that was opened."""
    if not is_model(file):
        raise ValueError(f"{path} is no model; `sevenhills fit` makes one from data")
    try:
        value = load(file)
    except ValueError as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    # The drop-in for romepy keeps the estimator that does its work.
    estimator = getattr(value, "_model", value)
    density = value if isinstance(value, Density) else estimator.density_
    names = getattr(estimator, "feature_names_in_", getattr(density, "feature_names", None))
    return Model(estimator, density, None if names is None else list(names))

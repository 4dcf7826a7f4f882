"""Points in the coordinates in which they are clustered and modeled."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..clustering import Points
from ..clustering.joining import is_far
from ..clustering.points import unit_of
from ..covariance import weighted_moments
from ..density import FeatureMap, KernelMixture
from ..density.maps import map_columns
from .shapes import choose_shapes


@dataclass(frozen=True, eq=False)
class Frame:
    """The latent coordinates of points under a map for every feature.

    Mapped features are scaled to the spread that they had, because clusters depend on distances.
    """

    points: Points  #: in the latent coordinates, scaled
    maps: tuple[FeatureMap, ...]  #: of the features as given, in data units
    log_slopes: np.ndarray  #: (n_points, n_features) of maps and scales
    factors: np.ndarray  #: (n_features,) the scales
    penalty: float = 0.0  #: the number of parameters of the maps, per sample

    @classmethod
    def identity(cls, points: Points) -> "Frame":
        """Return points as they are."""
        maps = (FeatureMap(),) * points.X.shape[1]
        return cls(points, maps, np.zeros(points.X.shape), np.ones(len(maps)))

    @classmethod
    def _mapped(
        cls, given: Points, near: np.ndarray, maps: tuple[FeatureMap, ...], penalty: float
    ) -> "Frame":
        """Map points; ``maps`` are in the unit of the points."""
        Z, weights = map_columns(maps, "forward", given.X), given.weights[near]
        before, after = (
            np.sqrt(np.diag(weighted_moments(each[near], weights).covariance))
            for each in (given.X, Z)
        )
        mapped = np.array([type(each) is not FeatureMap for each in maps])
        factors = np.divide(before, after, out=np.ones(len(maps)), where=mapped)
        Z *= factors
        unit = unit_of(Z)
        space = None if given.space is None else given.space.without(np.flatnonzero(mapped))
        return cls(
            points=replace(given, X=Z / unit, unit=given.unit * unit, space=space),
            maps=tuple(each.affine(given.unit, 0.0) for each in maps),
            log_slopes=map_columns(maps, "log_slope", given.X) + np.log(factors),
            factors=factors,
            penalty=penalty,
        )

    @property
    def steepest(self) -> np.ndarray:
        """The steepest slope of every feature at points, in canonical order."""
        return np.exp(self.log_slopes.max(axis=0))[self.points.features]

    def to_data(self, density: KernelMixture) -> KernelMixture:
        """Return a density of points, whose features are in canonical order, as one of the data."""
        matrix = np.diag(self.points.unit / self.factors)[self.points.features]
        found = density.affine(matrix, np.zeros(len(self.maps)))
        return replace(found, maps=self.maps) if self.penalty else found

    @property
    def log_unit(self) -> float:
        """The log of the volume of the unit of the points, in latent coordinates of the data."""
        return float(len(self.maps) * np.log(self.points.unit) - np.log(self.factors).sum())

    def to_data_score(self, score: float, rows: np.ndarray) -> float:
        """Return a mean log density of some points as one of the data, less the penalty."""
        slopes = self.log_slopes[rows].sum(axis=1)
        mean = float(np.average(slopes, weights=self.points.weights[rows]))
        return score + mean - len(self.maps) * float(np.log(self.points.unit)) - self.penalty


def frames_of(given: Points, is_fixed: np.ndarray) -> Sequence[Frame]:
    """Return the frame with the best maps and, unless it is clear, the frame without maps.

    Samples that are far from all others do not take part in the choice. Features that are fixed
    (n_features,) are not mapped.
    """
    near = ~is_far(given.X, np.zeros(len(given.X), dtype=np.int64))
    X, weights = given.X[near][:, given.features], given.weights[near] * given.grain
    chosen = choose_shapes(X, weights, is_fixed[given.features])
    if chosen is None:
        return [Frame.identity(given)]
    maps = tuple(chosen.maps[k] for k in np.argsort(given.features))
    mapped = Frame._mapped(given, near, maps, chosen.penalty)
    return [mapped] if chosen.is_clear else [Frame.identity(given), mapped]

"""The estimator that is used where none is named."""

from .auto import AutoROME
from .base import DensityEstimator
from .rome import ROME

#: Numbers of rows times features up to which AutoROME is the default: a fit takes a few seconds.
AFFORDABLE = 50_000


def default_estimator(n_samples: int, n_features: int) -> DensityEstimator:
    """Return AutoROME for tables of up to 50,000 values, and else ROME in scaled features."""
    if n_samples * n_features <= AFFORDABLE:
        return AutoROME()
    return scaled_rome()


def scaled_rome() -> ROME:
    """Return ROME for tables with columns of any units."""
    return ROME(scale="auto", shrinkage="auto")

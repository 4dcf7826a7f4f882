"""Metrics of densities and samples, which use only ``score_samples`` and ``sample``."""

from ..estimate import Estimate
from .arguments import UnnormalizedWarning
from .density_metrics import (
    calibration_error,
    divergence_from_truth,
    jensen_shannon,
    likelihood_factor,
    mean_log_likelihood,
)
from .transport import wasserstein, wasserstein_indicator
from .two_samples import PermutationTest, energy_distance, energy_test, permutation_test

__all__ = [
    "Estimate",
    "PermutationTest",
    "UnnormalizedWarning",
    "calibration_error",
    "divergence_from_truth",
    "energy_distance",
    "energy_test",
    "jensen_shannon",
    "likelihood_factor",
    "mean_log_likelihood",
    "permutation_test",
    "wasserstein",
    "wasserstein_indicator",
]

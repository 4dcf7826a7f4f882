"""Metrics of densities and samples, which use only ``score_samples`` and ``sample``."""

from ..estimate import Estimate
from .arguments import UnnormalizedWarning
from .density_metrics import (
    calibration_error,
    jensen_shannon,
    likelihood_factor,
    mean_log_likelihood,
)
from .likelihoods import LikelihoodRanking, RankedModel, SeenSamplesWarning, compare_likelihoods
from .two_samples import (
    PermutationTest,
    energy_distance,
    energy_test,
    permutation_test,
    wasserstein,
    wasserstein_indicator,
)

__all__ = [
    "Estimate",
    "LikelihoodRanking",
    "PermutationTest",
    "RankedModel",
    "SeenSamplesWarning",
    "UnnormalizedWarning",
    "calibration_error",
    "compare_likelihoods",
    "energy_distance",
    "energy_test",
    "jensen_shannon",
    "likelihood_factor",
    "mean_log_likelihood",
    "permutation_test",
    "wasserstein",
    "wasserstein_indicator",
]

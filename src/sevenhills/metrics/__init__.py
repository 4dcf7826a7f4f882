"""What compares densities and samples; knows only ``score_samples`` and ``sample`` of them."""

from ..estimate import Estimate, over_runs
from .calibration import calibration_error
from .densities import UnnormalizedWarning
from .divergence import divergence_from_truth, jensen_shannon
from .energy import energy_distance, energy_test
from .likelihood import likelihood_factor, mean_log_likelihood
from .permutations import PermutationTest, permutation_test
from .transport import wasserstein, wasserstein_indicator

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
    "over_runs",
    "permutation_test",
    "wasserstein",
    "wasserstein_indicator",
]

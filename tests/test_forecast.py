"""Forecasts beside plain loops over scenes, samples and steps."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import gaussian_kde

from sevenhills.estimators import GaussianKDE
from sevenhills.forecast.cells import Cases
from sevenhills.forecast.recipes import Recipe
from sevenhills.forecast.steps import step_densities

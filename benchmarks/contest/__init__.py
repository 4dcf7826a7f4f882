"""Density estimators compared by held-out log-likelihood, over data sets fixed beforehand."""

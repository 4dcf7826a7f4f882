"""Density estimators compared by held-out log-likelihood on fixed data sets."""

"""Forecasts given as samples: read, scored, compared."""

from .walks import WalkLaw, Walks, make_walks

__all__ = ["WalkLaw", "Walks", "make_walks"]

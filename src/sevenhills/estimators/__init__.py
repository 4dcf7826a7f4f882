"""The recipes: thin scikit-learn faces that fit a density."""

from .rome import ROME

__all__ = ["ROME"]

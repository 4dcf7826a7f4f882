"""Many data sets."""

from .many import Failure, fit_many, score_many

__all__ = ["Failure", "fit_many", "score_many"]

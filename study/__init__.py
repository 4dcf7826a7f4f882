"""The study rerun, beside its published figures."""

from .plan import PRESETS, Cell, Plan
from .published import Published, published
from .runner import run
from .store import Row, Store

__all__ = ["PRESETS", "Cell", "Plan", "Published", "Row", "Store", "published", "run"]

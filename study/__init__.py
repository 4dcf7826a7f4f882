"""The study rerun, beside its published figures."""

from .catalogue import Published, published
from .plan import PRESETS, Cell, Plan
from .runs import run
from .store import Row, Store

__all__ = ["PRESETS", "Cell", "Plan", "Published", "Row", "Store", "published", "run"]

"""The way from densities to their pictures.

Pictures stand above densities in the house. So ``sevenhills/__init__.py`` registers here how to
import them, and a density that is drawn looks them up.
"""

from collections.abc import Callable
from typing import Any

_importers: list[Callable[[], Any]] = []


def register_pictures(importer: Callable[[], Any]) -> None:
    """Register a function that returns the module ``plotting.overview``."""
    _importers.append(importer)


def pictures() -> Any:
    """Return the module that draws densities."""
    return _importers[-1]()

"""The distributions of the ROME study."""

from .registry import Distribution, load, names

__all__ = ["Distribution", "load", "names"]

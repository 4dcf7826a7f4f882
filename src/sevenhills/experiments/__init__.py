"""The study rerun, beside its published figures."""

from .published import Published, published

__all__ = ["Published", "published"]

"""The value that every fit builds, and what can be asked of it."""

from .mixture import KernelMixture

__all__ = ["KernelMixture"]

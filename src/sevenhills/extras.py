"""Imports of optional libraries, made when a function that needs them is called."""

import importlib
import warnings
from typing import Any


def import_extra(module: str, extra: str, purpose: str) -> Any:
    """Import an optional library; if it is missing, the error names the extra to install.

    ``purpose`` begins the message: the function and the library that it needs. A library that is
    installed but cannot be imported raises an ImportError with its own error.
    """
    try:
        with warnings.catch_warnings():
            # Warnings about a library's own imports do not concern the caller.
            warnings.simplefilter("ignore")
            return importlib.import_module(module)
    except Exception as error:  # libraries fail in many ways, as with OSError for a shared library
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing and f"{module}.".startswith(f"{missing}."):  # not a library that it needs
            remedy = f"install it with: pip install 'sevenhills[{extra}]'"
        else:
            reason = f"{type(error).__name__}: {error}"
            remedy = f"{module} is installed, but importing it fails with {reason}"
        raise ImportError(f"{purpose}; {remedy}") from error

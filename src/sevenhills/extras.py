"""Imports of optional libraries, made when a function that needs them is called."""

import importlib
import warnings
from typing import Any


def import_extra(module: str, extra: str, purpose: str) -> Any:
    """Import an optional library; if it is missing, the error names the extra to install.

    Parameters
    ----------
    module : str
        The module's name.
    extra : str
        The extra of this package that installs it.
    purpose : str
        The function and the library that it needs, as the beginning of the message.

    Returns
    -------
    module

    Raises
    ------
    ImportError
        If the library is missing, with the command that installs it; if it is there but cannot be
        imported, with its own error.

    Examples
    --------
    >>> from sevenhills.extras import import_extra
    >>> import_extra("no_such_module", "ot", "wasserstein needs POT")
    Traceback (most recent call last):
        ...
    ImportError: wasserstein needs POT; install it with: pip install 'sevenhills[ot]'
    """
    try:
        with warnings.catch_warnings():
            # Warnings about a library's own imports do not concern the caller.
            warnings.simplefilter("ignore")
            return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if not f"{module}.".startswith(f"{error.name}."):  # another library that it needs
            raise ImportError(_broken(module, purpose, error)) from error
        message = f"{purpose}; install it with: pip install 'sevenhills[{extra}]'"
        raise ImportError(message) from error
    except Exception as error:  # libraries fail in many ways, as with OSError for a shared library
        raise ImportError(_broken(module, purpose, error)) from error


def _broken(module: str, purpose: str, error: Exception) -> str:
    """Return the message for a library that is installed, but cannot be imported."""
    return (
        f"{purpose}; {module} is installed, but importing it fails with "
        f"{type(error).__name__}: {error}"
    )

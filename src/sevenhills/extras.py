"""Libraries that only some functions need, imported when such a function is called."""

import importlib
import warnings
from typing import Any


def import_extra(module: str, extra: str, purpose: str) -> Any:
    """Import an optional library, or say how to install it.

    Parameters
    ----------
    module : str
        The module's name.
    extra : str
        The extra of this package that installs it.
    purpose : str
        Who needs what, as the beginning of the message.

    Returns
    -------
    module

    Raises
    ------
    ImportError
        If the library is missing, with the command that installs it.

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
            # What a library says of its own imports is no concern of the caller.
            warnings.simplefilter("ignore")
            return importlib.import_module(module)
    except ImportError as error:
        message = f"{purpose}; install it with: pip install 'sevenhills[{extra}]'"
        raise ImportError(message) from error

"""Old names of renamed parameters, for two releases."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar
from warnings import warn

Function = TypeVar("Function", bound=Callable[..., Any])


def renamed(old: str, new: str, *, removed_in: str) -> Callable[[Function], Function]:
    """Return a decorator by which a function or constructor accepts the old name of a parameter.

    The signature has the new name only, and so do ``get_params`` and ``clone``.

    Parameters
    ----------
    old, new : str
        The names of the parameter, which is given as a keyword.
    removed_in : str
        The release that refuses the old name.

    Examples
    --------
    >>> from sevenhills.deprecation import renamed
    >>> @renamed("bandwidth", "width", removed_in="0.4")
    ... def smooth(x, *, width=1.0):
    ...     return x * width
    >>> smooth(2.0, width=3.0)
    6.0
    """

    def decorate(function: Function) -> Function:
        name = function.__qualname__.removesuffix(".__init__")

        @wraps(function)
        def accepting(*args: Any, **given: Any) -> Any:
            if old in given:
                if new in given:
                    raise TypeError(f"{name} got both {new} and {old}, its old name; pass {new}")
                warn(
                    f"{old} of {name} was renamed to {new}; {removed_in} will refuse the old name",
                    FutureWarning,
                    stacklevel=2,
                )
                given[new] = given.pop(old)
            return function(*args, **given)

        return accepting  # type: ignore[return-value]

    return decorate

"""What fitted densities are asked, asked of the estimator."""

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any, Concatenate, ParamSpec, TypeVar

from sklearn.utils.validation import check_is_fitted

from ..density import Density, KernelMixture

P = ParamSpec("P")
R = TypeVar("R")


def asked(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """Return the method of an estimator that puts the same question to its fitted density.

    Unless told otherwise, it is answered with the threads of the estimator.
    """
    name, parameters = method.__name__, signature(method)

    @wraps(method)
    def ask(self: Any, *args: P.args, **kwargs: P.kwargs) -> R:
        check_is_fitted(self)
        answer = getattr(self.density_, name, None)
        if answer is None:
            raise not_kernels(self, name)
        bound = parameters.bind(self.density_, *args, **kwargs)
        if "n_jobs" in parameters.parameters:
            bound.arguments.setdefault("n_jobs", self.n_jobs)
        arguments = {key: getattr(a, "density_", a) for key, a in bound.kwargs.items()}
        return answer(*(getattr(a, "density_", a) for a in bound.args[1:]), **arguments)

    return ask


def not_kernels(estimator: "Questions", name: str) -> TypeError:
    """Return the error of a question that only kernel mixtures can answer."""
    return TypeError(
        f"{name} needs a mixture of kernels, but {type(estimator).__name__} has fitted a "
        f"{type(estimator.density_).__name__}"
    )


class Questions:
    """The questions of :class:`~sevenhills.KernelMixture`, answered by ``density_``."""

    density_: Density
    n_jobs: int | None

    affine = asked(KernelMixture.affine)
    condition = asked(KernelMixture.condition)
    cov = asked(KernelMixture.cov)
    integrate_product = asked(KernelMixture.integrate_product)
    marginal = asked(KernelMixture.marginal)
    mean = asked(KernelMixture.mean)

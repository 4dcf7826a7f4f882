"""What fitted densities are asked, asked of the estimator."""

from collections.abc import Callable
from functools import update_wrapper
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

    def ask(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        check_is_fitted(self)
        answer = getattr(self.density_, name, None)
        if answer is None:
            raise not_kernels(self, name)
        bound = parameters.bind(self.density_, *args, **kwargs)
        if "n_jobs" in parameters.parameters:
            bound.arguments.setdefault("n_jobs", self.n_jobs)
        arguments = {key: getattr(a, "density_", a) for key, a in bound.kwargs.items()}
        return answer(*(getattr(a, "density_", a) for a in bound.args[1:]), **arguments)

    update_wrapper(ask, method)
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
    bootstrap = asked(KernelMixture.bootstrap)
    probability = asked(KernelMixture.probability)
    cdf = asked(KernelMixture.cdf)
    compress = asked(KernelMixture.compress)
    conditional = asked(KernelMixture.conditional)
    cov = asked(KernelMixture.cov)
    hdr_probability = asked(Density.hdr_probability)
    effective_sample_size = asked(KernelMixture.effective_sample_size)
    entropy = asked(Density.entropy)
    is_extrapolation = asked(KernelMixture.is_extrapolation)
    grad_logpdf = asked(KernelMixture.grad_logpdf)
    hdr_contours = asked(Density.hdr_contours)
    hdr_intervals = asked(Density.hdr_intervals)
    hdr_level = asked(Density.hdr_level)
    hess_logpdf = asked(KernelMixture.hess_logpdf)
    impute = asked(KernelMixture.impute)
    integrate_product = asked(KernelMixture.integrate_product)
    interval = asked(KernelMixture.interval)
    predict = asked(KernelMixture.predict)
    predict_proba = asked(KernelMixture.predict_proba)
    marginal = asked(KernelMixture.marginal)
    mean = asked(KernelMixture.mean)
    modes = asked(KernelMixture.modes)
    mode = asked(KernelMixture.mode)
    ppf = asked(KernelMixture.ppf)
    isf = asked(KernelMixture.isf)
    sf = asked(KernelMixture.sf)
    to_torch = asked(KernelMixture.to_torch)

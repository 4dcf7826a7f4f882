"""What a case demands. Failures are raised, not asserted: ``python -O`` must not skip them."""

import numpy as np


class Failed(AssertionError):  # noqa: N818
    """An expectation that was not met."""


def check(condition, message):
    """Fail with a message unless the condition holds."""
    if not condition:
        raise Failed(message)


def same(found, expected, tolerance=0.0, what="the log densities"):
    """Demand equal arrays, to the bit or to a tolerance; NaN equals nothing."""
    found, expected = np.asarray(found), np.asarray(expected)
    check(found.shape == expected.shape, f"{what} have shape {found.shape}, not {expected.shape}")
    if np.array_equal(found, expected):
        return
    check(np.isfinite(found[found != expected]).all(), f"{what} are not finite")
    with np.errstate(invalid="ignore"):
        apart = np.abs(found - expected)
    worst = float(np.max(apart[found != expected]))
    check(worst <= tolerance, f"{what} differ by {worst:.3g}, allowed are {tolerance:.3g}")


def different(found, other, what="the draws"):
    """Demand arrays that differ."""
    check(not np.array_equal(found, other), f"{what} are equal")


def all_finite(values, what="the log densities"):
    """Demand numbers that are neither NaN nor infinite."""
    bad = int(np.sum(~np.isfinite(values)))
    check(bad == 0, f"{bad} of {np.size(values)} of {what} are not finite")


def no_nan(values, what="the log densities"):
    """Demand numbers that may be infinite, but not NaN."""
    check(not np.isnan(values).any(), f"{what} have NaN among them")


def refused(call, *naming):
    """Demand a ValueError or TypeError with a message that has one of the words in it."""
    try:
        call()
    except (ValueError, TypeError) as error:
        _check_clear(error, naming)
        return
    raise Failed("accepted")


def not_fitted(call):
    """Demand scikit-learn's error of an estimator that has not been fitted."""
    from sklearn.exceptions import NotFittedError

    try:
        call()
    except NotFittedError:
        return
    raise Failed("answered before the fit")


def _check_clear(error, naming):
    text = f"{type(error).__name__}: {error}"
    check(not isinstance(error, np.linalg.LinAlgError), f"refused by {text}")
    check(len(str(error).split()) > 1, f"refused without a word: {text}")
    if naming:
        named = any(word.lower() in str(error).lower() for word in naming)
        check(named, f"none of {naming} is named in: {text}")


def fits_or_refuses(subject, X, *naming):
    """Demand a clear refusal, or finite log densities of the samples and finite draws."""
    try:
        model = subject.fit(X)
    except (ValueError, TypeError) as error:
        _check_clear(error, naming)
        return None
    return finite_answers(subject, model, X)


def fits(subject, X, **keywords):
    """Demand a fit with finite log densities of the samples and finite draws."""
    return finite_answers(subject, subject.fit(X, **keywords), X)


def finite_answers(subject, model, X):
    """Demand finite log densities of the samples and finite draws."""
    all_finite(model.score_samples(X))
    if subject.can("sampling"):
        all_finite(model.sample(20, random_state=0), "the draws")
    return model

"""Few samples, many features."""

import numpy as np

from .checks import all_finite, check, fits, fits_or_refuses
from .data import hills, one_hill
from .registry import family, group

case = group("sizes")


@family(case, "one sample of {} gives finite answers or a clear error", {"1 feature": 1, "3": 3})
def _(subject, n_features):
    fits_or_refuses(subject, one_hill(1, n_features), "sample", "spread", "min_std", "elements")


_FEW = {
    "2 samples of 1 feature": (2, 1),
    "2 samples of 2 features": (2, 2),
    "3 samples of 2 features": (3, 2),
    "4 samples of 2 features": (4, 2),
    "5 samples of 2 features": (5, 2),
    "6 samples of 2 features": (6, 2),
    "7 samples of 1 feature": (7, 1),
    "3 samples of 5 features": (3, 5),
    "4 samples of 4 features": (4, 4),
    "5 samples of 4 features": (5, 4),
    "2 samples of 30 features": (2, 30),
    "20 samples of 50 features": (20, 50),
    "6 samples of 100 features": (6, 100),
}


@family(case, "{} can be fitted", _FEW)
def _(subject, shape):
    fits(subject, one_hill(*shape))


@case("12 samples of 20 features in two clusters can be fitted")
def _(subject):
    fits(subject, hills(12, 20))


@case("one feature can be fitted", needs=["integral"])
def _(subject):
    X = hills()[:, :1]
    model = fits(subject, X)
    nodes = np.linspace(-12, 16, 7001)[:, None]
    total = np.exp(model.score_samples(nodes)).sum() * 28 / 7000
    check(abs(total - 1) < 0.02, f"it integrates to {total:.4f}")


@case("a fit of one size is followed by one of another")
def _(subject):
    model = subject.make()
    for shape in ((9, 3), (5, 1), (12, 2)):
        X = one_hill(*shape)
        all_finite(model.fit(X).score_samples(X))


@case("500 samples of a normal distribution have its density", needs=["integral"])
def _(subject):
    places = np.linspace(-1.5, 1.5, 13)
    X = np.random.RandomState(1).standard_normal((500, 1))
    expected = -0.5 * np.log(2 * np.pi) - 0.5 * places**2
    off = np.abs(subject.fit(X).score_samples(places[:, None]) - expected).mean()
    check(off < 0.5, f"log densities are off by {off:.2f} on average")

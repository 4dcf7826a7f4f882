"""Old names of parameters."""

from inspect import signature

import pytest
from sklearn.base import BaseEstimator, clone

from sevenhills.deprecation import renamed


@renamed("bandwidth", "width", removed_in="0.4")
def smooth(x, width=1.0):
    return x * width


class Smoother(BaseEstimator):
    @renamed("kernel", "shape", removed_in="0.4")
    @renamed("bandwidth", "width", removed_in="0.4")
    def __init__(self, *, width=1.0, shape="gaussian"):
        self.width = width
        self.shape = shape


def test_the_old_name_warns_with_both_names_and_the_release():
    said = r"bandwidth of smooth was renamed to width; 0\.4 will refuse the old name"
    with pytest.warns(FutureWarning, match=said) as warned:
        assert smooth(2, bandwidth=3) == 6
    assert warned[0].filename == __file__
    assert smooth(2, width=3) == smooth(2, 3) == 6
    assert list(signature(smooth).parameters) == ["x", "width"]


def test_both_names_are_refused():
    with pytest.raises(TypeError, match="smooth got both width and bandwidth"):
        smooth(2, width=3, bandwidth=3)
    with pytest.raises(TypeError, match="got multiple values"), pytest.warns(FutureWarning):
        smooth(2, 3, bandwidth=3)


def test_estimators_have_the_new_names_only():
    with (
        pytest.warns(FutureWarning, match="bandwidth of Smoother"),
        pytest.warns(FutureWarning, match="kernel of Smoother"),
    ):
        smoother = Smoother(bandwidth=2.0, kernel="box")
    assert smoother.get_params() == {"width": 2.0, "shape": "box"}
    assert clone(smoother).set_params(width=3.0).get_params() == {"width": 3.0, "shape": "box"}

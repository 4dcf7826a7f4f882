import numpy as np
import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "default",
    deadline=None,
    derandomize=True,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("default")


@pytest.fixture(autouse=True)
def _global_generator_is_left_alone(request):
    """No test may change numpy's global generator, except scikit-learn's own checks."""
    if "check" in request.fixturenames:
        yield
        return
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    yield
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002

import os
import random
import tracemalloc
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest
import rich.style  # noqa: F401  draws a number when it is imported, be it by scikit-learn
from hypothesis import HealthCheck, settings
from threadpoolctl import threadpool_limits

#: Files that ``--quick`` does not even import.
NOT_QUICK = {"test_distributed.py", "test_release.py"}

for name, n_examples in [("whole", 20), ("quick", 20)]:
    settings.register_profile(
        name,
        deadline=None,
        derandomize=True,
        max_examples=n_examples,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


def pytest_addoption(parser):
    parser.addoption(
        "--quick",
        action="store_true",
        help="one item of every parametrised test; no browser, no dask, no other processes",
    )


def pytest_configure(config):
    settings.load_profile("quick" if config.getoption("quick") else "whole")
    # pytest-randomly shuffles the tests; the global generators are not its business.
    config.option.randomly_reset_seed = False
    if getattr(config.option, "dist", "no") == "load":
        # A file's tests run in one process, so that its browser, cluster or model is made once.
        config.option.dist = "loadfile"


def pytest_sessionstart(session):
    """Compile most kernels before workers start, which would each compile all of them."""
    if not session.config.getoption("numprocesses", None):
        return
    from sevenhills import ROME, AutoROME, KernelDensityCV, ManifoldParzen, datasets
    from sevenhills.forecast import evaluate

    X = datasets.load("two_moons").sample(170, random_state=0)
    for estimator in (ROME(selection="dbcv"), AutoROME(), KernelDensityCV()):
        estimator.fit(X).score_samples(X)
    ROME().fit(X[:40]).score_samples(X)
    ROME(scale="auto").fit(datasets.load("trajectories").sample(100, random_state=0)).score_samples(
        X[:, [0] * 24]
    )
    for density in (ROME().fit(X).density_, ManifoldParzen().fit(X).density_):
        density.modes()
        density.hess_logpdf(X[:5])
        density.conditional({0: 0.5}).mean()
        density.marginal(0).cdf(X[:5, :1])
    for columns in ([0, 1], [0, 1, 1]):
        # So many points that the fast sums are used.
        Z = X[:, columns] + np.arange(len(columns)) * X[::-1, :1]
        ROME(selection=None).fit(Z).density_.logpdf(np.tile(Z, (1300, 1)))
    evaluate(X.reshape(2, 17, 5, 2), X[:10].reshape(2, 5, 2))


def pytest_ignore_collect(collection_path, config):
    # The import of dask alone takes a second.
    return True if config.getoption("quick") and collection_path.name in NOT_QUICK else None


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc):
    """With ``--quick``, one item of every parametrised test is made."""
    if metafunc.config.getoption("quick"):
        metafunc.parametrize = partial(_parametrize_once, metafunc.parametrize)


def _parametrize_once(parametrize, names, values, indirect=False, ids=None, **options):
    values = list(values)
    at = next((i for i, value in enumerate(values) if not _is_slow(value)), 0)
    if ids is not None and not callable(ids):
        ids = list(ids)[at : at + 1]
    parametrize(names, values[at : at + 1], indirect=indirect, ids=ids, **options)


def _is_slow(value):
    return any(mark.name == "slow" for mark in getattr(value, "marks", ()))


def pytest_collection_modifyitems(config, items):
    """With ``--quick``, leave out what takes long or needs a browser."""
    if config.getoption("quick"):
        left_out = {
            item
            for item in items
            if {mark.name for mark in item.iter_markers()} & {"slow", "whole"}
            or "browser" in item.fixturenames
        }
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture(autouse=True, scope="session")
def _no_other_processes(pytestconfig, _one_thread_of_blas):
    """With ``--quick``, a test that starts a process is skipped when it does so.

    Older threadpoolctl starts one to find the C library, when threads are first limited.
    """
    if not pytestconfig.getoption("quick"):
        yield
        return

    def skip(*args, **kwargs):
        pytest.skip("starts another process")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("subprocess.Popen.__init__", skip)
        patch.setattr("multiprocessing.process.BaseProcess.start", skip)
        yield


@pytest.fixture(autouse=True, scope="session")
def _one_thread_of_blas():
    """Threads of BLAS wait for each other on small matrices, most of all beside other tests."""
    with threadpool_limits(int(os.environ.get("OPENBLAS_NUM_THREADS", 1))):
        yield


@pytest.fixture(autouse=True)
def _global_generators_are_left_alone(request):
    """No test may change the generators of numpy and Python, except scikit-learn's own checks."""
    if "check" in request.fixturenames:
        yield
        return
    before = np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
    yield
    np.testing.assert_array_equal(np.random.get_state()[1], before[0])  # noqa: NPY002
    if random.getstate() != before[1]:
        raise AssertionError("Python's global generator was used")


@pytest.fixture
def _no_place_is_searched_for_a_legend(monkeypatch):
    """matplotlib warns on slow machines that the best place for a legend takes long to find."""
    legend = pytest.importorskip("matplotlib.legend")

    def refuse(*_):
        raise AssertionError("a legend has no place of its own")

    monkeypatch.setattr(legend.Legend, "_find_best_position", refuse)


@pytest.fixture
def silent(capfd):
    """Nothing may be printed, be it by compiled code."""
    yield
    said = "".join(capfd.readouterr())
    if said:
        raise AssertionError(f"printed: {said}")


@pytest.fixture
def memory_limit():
    """Return a context within which no more than so many megabytes may be allocated at a time.

    Arrays of numpy count, buffers of compiled libraries do not. What is compiled or loaded at the
    first call must be so already.
    """

    @contextmanager
    def limit(megabytes):
        tracemalloc.start()
        try:
            yield
            peak = tracemalloc.get_traced_memory()[1] / 1e6
        finally:
            tracemalloc.stop()
        if peak > megabytes:
            raise AssertionError(f"{peak:.1f} MB at the peak, {megabytes} allowed")

    return limit

"""The progress of long computations: one fraction, from 0 to 1."""

import threading

import numpy as np
import pytest

from sevenhills import (
    ROME,
    AutoROME,
    DensityClassifier,
    DensityOutlierDetector,
    DensityRegressor,
    GaussianMixtureBIC,
    KernelDensityCV,
    conformal,
    datasets,
    fit_many,
    show_progress,
)
from sevenhills.datasets import make_walks
from sevenhills.forecast import Mixtures, evaluate, evaluate_horizons, rank
from sevenhills.metrics import energy_test, jensen_shannon, permutation_test
from sevenhills.progress import muted, part, report, step, tracked

X = datasets.load("aniso").sample(120, random_state=0)
WALKS = make_walks(8, random_state=0)
SAMPLES = WALKS.law.draw(6, random_state=1)


def distributed():
    import dask.array as da

    from sevenhills import DistributedROME

    return DistributedROME().fit(da.from_array(X, chunks=(50, 2)))


def divergence(A, B):
    return jensen_shannon(ROME().fit(A), ROME().fit(B), A, B)


def mixtures():
    means = WALKS.law.means
    return Mixtures(WALKS.law.shares, means, np.ones((*means.shape, 1)) * 0.1 * np.eye(2))


COMPUTATIONS = {
    "ROME": lambda: ROME().fit(X),
    "ROME auto": lambda: ROME(selection="auto").fit(X),
    "ROME one cluster": lambda: ROME(selection=None).fit(X),
    "ROME of a sample": lambda: ROME(exact_below=0).fit(X),
    "AutoROME": lambda: AutoROME().fit(np.exp(X / 9)),
    "AutoROME without maps": lambda: AutoROME(maps=None).fit(X),
    "GaussianMixtureBIC": lambda: GaussianMixtureBIC(max_components=3).fit(X),
    "KernelDensityCV": lambda: KernelDensityCV().fit(X),
    "conformal": lambda: conformal(ROME(), X, cv=3),
    "split conformal": lambda: conformal(AutoROME(), X, cv=0.5),
    "detector": lambda: DensityOutlierDetector(ROME()).fit(X),
    "classifier": lambda: DensityClassifier(ROME()).fit(X, X[:, 0] > 0),
    "classifier without pool": lambda: DensityClassifier(ROME(), pool=None).fit(X, X[:, 0] > 0),
    "regressor": lambda: DensityRegressor(ROME()).fit(X[:, :1], X[:, 1]),
    "fit_many": lambda: fit_many([X[:40], X[40:80], X[80:]]),
    "distributed": distributed,
    "permutation_test": lambda: permutation_test(divergence, X, X[::2], n_permutations=3),
    "energy_test": lambda: energy_test(X, X[::2]),
    "evaluate": lambda: evaluate(SAMPLES, WALKS.truth),
    "mixtures": lambda: evaluate(mixtures(), WALKS.truth, n_draws=5),
    "horizons": lambda: evaluate_horizons(SAMPLES, WALKS.truth, (2, 4), measures="nll"),
    "rank": lambda: rank({"a": SAMPLES, "b": 2 * SAMPLES}, WALKS.truth, measures="nll"),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", COMPUTATIONS)
def test_the_fraction_grows_from_zero_to_one(name):
    said = []
    with show_progress(lambda stage, fraction: said.append((stage, fraction))):
        COMPUTATIONS[name]()
    stages, fractions = zip(*said, strict=True)
    assert all(stages)
    assert list(fractions) == sorted(fractions)
    assert fractions[0] <= 0.95
    assert fractions[-1] == pytest.approx(1.0)


@pytest.mark.parametrize("recipe", [ROME, AutoROME])
def test_verbose_prints_lines(recipe, capsys):
    recipe().fit(X)
    assert capsys.readouterr() == ("", "")
    recipe(verbose=True).fit(X)
    lines = capsys.readouterr().out.splitlines()
    lines = [line for line in lines if not line.startswith("compiled in")]
    shares = [float(line.split(" s ")[1].split("%")[0]) for line in lines]
    assert shares == sorted(shares)
    with pytest.raises(TypeError, match="verbose"):
        recipe(verbose="yes").fit(X)


def test_the_time_left_is_printed(capsys, monkeypatch):
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    with show_progress(), part("sheep"):
        now = 6.0
        report(0.25)
        now = 7.0
        report(0.5)
    assert capsys.readouterr().out.splitlines() == [
        "     0.0 s    0%  sheep",
        "     6.0 s   25%  sheep, about 18 s left",
    ]


def test_compile_time_is_printed_apart(capsys, monkeypatch):
    compiled = 0.0
    monkeypatch.setattr("time.perf_counter", lambda: 2 * compiled)
    monkeypatch.setattr("sevenhills.kernels.compile.compile_seconds", lambda: compiled)
    with show_progress():
        pass
    assert capsys.readouterr().out == ""
    with show_progress():
        compiled = 6.1
    assert capsys.readouterr().out == "compiled in 6.1 s, computed in 6.10 s\n"


def test_a_second_computation_begins_again(capsys):
    with show_progress():
        for _ in range(2):
            with part("sheep"):
                report(1.0)
            with part("goats", 0.5):
                pass
    assert [line.split()[2] for line in capsys.readouterr().out.splitlines()] == [
        "0%", "50%", "0%", "50%",
    ]  # fmt: skip


def test_parts_of_parts():
    said = []
    shown = show_progress(lambda *each: said.append(each))
    with shown, part("fit", 0.5, 1.0), step("fold 2", 1, 2), part(""):
        list(tracked("ab"))
        with muted():
            report(0.0)
    assert said == [
        ("fit", 0.5), ("fit, fold 2", 0.75), ("fit, fold 2", 0.875), ("fit, fold 2", 1.0),
        ("fit, fold 2", 1.0), ("fit", 1.0),
    ]  # fmt: skip


def test_an_error_or_another_thread_leaves_no_trace():
    said = []
    with show_progress(lambda *each: said.append(each)):
        with pytest.raises(ValueError, match="NaN"), part("fit", 0.0, 0.5):
            ROME().fit([[np.nan]])
        with part("other"):
            thread = threading.Thread(target=report, args=(0.7,))
            thread.start()
            thread.join()
    report(0.5)
    assert said == [("fit", 0.0), ("other", 0.0), ("other", 1.0)]


def test_a_callback_may_stop_a_fit_which_keeps_the_old_model():
    rome = ROME().fit(X)
    before = dict(vars(rome))

    def stop(stage, fraction):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), show_progress(stop):
        rome.fit(X[:50])
    assert vars(rome) == before


def test_the_density_does_not_depend_on_progress():
    quiet = AutoROME().fit(X)
    with show_progress(lambda *_: None):
        shown = AutoROME().fit(X)
    assert (quiet.score_samples(X) == shown.score_samples(X)).all()

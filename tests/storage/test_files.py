"""Model files: what comes back, what is refused, and what never happens to a file."""

import os
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.neighbors import KernelDensity

import sevenhills
from sevenhills import (
    ROME,
    AutoROME,
    DensityClassifier,
    DensityOutlierDetector,
    GaussianKDE,
    GaussianMixtureBIC,
    KernelDensityCV,
    ManifoldParzen,
    VineDensity,
    compat,
    datasets,
    load,
    save,
)
from sevenhills.density import NeighborDensity
from sevenhills.storage import ModelFileError

from ..strategies import samples
from .forging import FEW, assert_identical

ESTIMATORS = [
    ROME(),
    ROME(selection="dbcv"),
    ROME(selection=None),
    ROME(density="gaussian"),
    ROME(density="knn"),
    ROME(density="knn", decorrelate=False, normalize=False),
    ROME(density="mpw"),
    ROME(shrinkage="auto"),
    ROME(start="first", min_std=0.1, k_min=4, n_eps=20, n_xi=0),
    AutoROME(),
    AutoROME(min_std=0.05, random_state=None),
    ManifoldParzen(n_directions=1),
    GaussianKDE(bw_method=0.4),
    KernelDensityCV(bandwidths=[0.05, 0.2], n_splits=3),
    GaussianMixtureBIC(max_components=3),
    VineDensity(),
]
ESTIMATORS += [
    recipe()
    for recipe in sevenhills.estimators.ESTIMATORS.values()
    if recipe not in {type(each) for each in ESTIMATORS}
]
#: Those that can be fitted a hundred times.
FAST = [each for each in ESTIMATORS if not isinstance(each, AutoROME | VineDensity)]
each_estimator = pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)


@pytest.fixture(scope="module")
def moons():
    return datasets.load("two_moons").sample(150, random_state=1)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.npz"


def again(model, path):
    save(model, path)
    return load(path)


# What comes back


@each_estimator
def test_comes_back_to_the_bit(estimator, moons, path):
    model = clone(estimator).fit(moons)
    found = again(model, path)
    assert_identical(found, model)
    queries = np.concatenate([moons + 0.01, [[1e6, -1e6], [1e300, 0.0]]])
    assert_array_equal(found.score_samples(queries), model.score_samples(queries))
    if model.is_normalized:
        assert_array_equal(found.sample(50, random_state=3), model.sample(50, random_state=3))
    if hasattr(model, "summary"):
        assert found.summary() == model.summary()
        assert found._repr_html_() is not None
    assert_identical(clone(found).fit(moons).get_params(), model.get_params())


def test_an_auto_rome_of_several_clusters(path):
    # A cluster with heavy tails beside a Gaussian one, which take different members.
    X = np.random.RandomState(0).standard_normal((80, 2))
    X[50:] = X[50:] ** 3 + [40.0, 0.0]
    auto = AutoROME().fit(X)
    assert len(auto.clusters_) == 2
    found = again(auto, path)
    assert_identical(found, auto)
    assert found.summary() == auto.summary()


def test_an_auto_rome_with_maps(path):
    z = np.random.RandomState(0).standard_normal((100, 3))
    auto = AutoROME().fit(np.exp(z))
    assert auto.density_.maps is not None
    found = again(auto, path)
    assert_identical(found, auto)
    assert found.density_.maps == auto.density_.maps
    assert_array_equal(found.score_samples(np.exp(-z)), auto.score_samples(np.exp(-z)))


@given(samples(min_samples=5, max_samples=40, max_features=4), st.sampled_from(FAST))
def test_awkward_samples(tmp_path_factory, X, estimator):
    model = clone(estimator)
    if (X[0] == X).all():
        model.set_params(**({"min_std": 0.1} if "min_std" in model.get_params() else {}))
    try:
        model.fit(X)
    except ValueError:  # of which other tests know
        return
    found = again(model, tmp_path_factory.mktemp("models") / "model.npz")
    assert_identical(found, model)
    assert_array_equal(found.score_samples(X), model.score_samples(X))


@pytest.mark.parametrize("density", ["kde", "knn"])
@pytest.mark.parametrize("lowest", [-1, 0])
def test_given_labels(moons, path, density, lowest):
    labels = np.arange(len(moons)) % 3 + lowest
    model = ROME(density=density).fit(moons, labels=labels)
    assert model.candidates_ is None
    assert_identical(again(model, path), model)


def test_neighbours_of_nothing_but_noise(moons, path):
    model = ROME(density="knn", min_std=0.1).fit(moons, labels=np.full(len(moons), -1))
    assert isinstance(model.density_, NeighborDensity)
    found = again(model, path)
    assert_array_equal(found.score_samples(moons), model.score_samples(moons))


def test_scores_of_minus_infinity(moons, path):
    model = KernelDensityCV(bandwidths=[1e-200, 0.1]).fit(moons)
    assert model.scores_[0] == -np.inf
    assert_identical(again(model, path), model)


def test_names_of_features(moons, path):
    table = pd.DataFrame(moons, columns=["länge", 'a "width"\n'])
    model = ROME().fit(table)
    found = again(model, path)
    assert_identical(found, model)
    assert_array_equal(found.score_samples(table), model.score_samples(table))
    with pytest.raises(ValueError, match="feature names"):
        found.score_samples(table[table.columns[::-1]])


def test_a_density_alone(moons, path):
    density = AutoROME().fit(moons).density_
    found = again(density, path)
    assert_identical(found, density)
    assert_array_equal(found.logpdf(moons), density.logpdf(moons))
    assert_array_equal(found.sample(9, random_state=1), density.sample(9, random_state=1))


@pytest.mark.parametrize("clusters", [None, "given"])
def test_the_drop_in(moons, path, clusters):
    given_labels = None if clusters is None else np.arange(len(moons)) % 2
    model = compat.ROME(min_std=0.05).fit(moons, clusters=given_labels)
    found = again(model, path)
    assert_identical(found, model)
    assert_array_equal(found.score_samples(moons), model.score_samples(moons))
    assert_array_equal(found.sample(9), model.sample(9))


@pytest.mark.parametrize("kind", [int, str, object])
def test_classifiers(moons, path, kind):
    y = np.where(moons[:, 0] > 0.5, *(("right", "left") if kind is not int else (3, 1)))
    estimator = ROME(density="gaussian")
    model = DensityClassifier(estimator).fit(moons, y.astype(kind))
    found = again(model, path)
    assert_identical(found, model)
    assert_array_equal(found.predict(moons), model.predict(moons))
    assert_array_equal(found.predict_proba(moons), model.predict_proba(moons))


def test_classifiers_of_other_estimators_are_refused(moons, path):
    model = DensityClassifier(KernelDensity()).fit(moons, moons[:, 0] > 0.5)
    with pytest.raises(ModelFileError, match="estimator: a KernelDensity cannot be stored"):
        save(model, path)


def test_pictures_of_a_loaded_model(moons, path):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    from sevenhills import plotting

    for estimator in (ROME(), AutoROME()):
        found = again(estimator.fit(moons), path)
        plotting.plot_reachability(found)
        plotting.plot_clusters(found, moons)
    plotting.plot_members(found)
    pyplot.close("all")


@given(
    st.fixed_dictionaries(
        {
            "min_std": st.one_of(st.just("auto"), st.floats(0, allow_infinity=False)),
            "alpha_k": st.one_of(st.integers(1), st.floats(1e-9, 1e300), st.just(np.float64(0.1))),
            "k_max": st.one_of(st.integers(5, 2**70), st.just(np.int32(7))),
            "decorrelate": st.sampled_from([True, False, np.True_]),
            "selection": st.sampled_from([None, "silhouette", "dbcv"]),
            "n_jobs": st.one_of(st.none(), st.integers(1, 9), st.just(-1)),
        }
    )
)
def test_parameters(tmp_path_factory, fitted, parameters):
    """Whatever was set comes back; numpy's scalars as plain numbers of the same value."""
    model = clone(fitted).fit(FEW).set_params(**parameters)
    found = again(model, tmp_path_factory.mktemp("models") / "model.npz")
    assert found.get_params() == model.get_params()
    assert {type(value) for value in found.get_params().values()} <= {
        bool,
        int,
        float,
        str,
        type(None),
    }


@given(
    st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=5), st.sampled_from([list, tuple, np.array])
)
def test_sequences_come_back_as_they_were(tmp_path_factory, values, kind):
    model = KernelDensityCV(bandwidths=kind(values)).fit(FEW)
    found = again(model, tmp_path_factory.mktemp("models") / "model.npz")
    assert_identical(found.bandwidths, kind(values))


@pytest.fixture(scope="module")
def fitted():
    return ROME(n_eps=3, n_xi=3).fit(FEW)


def test_public_names():
    assert sevenhills.save is save
    assert sevenhills.load is load
    assert issubclass(ModelFileError, ValueError)


# What cannot be saved


@pytest.mark.parametrize(
    ("model", "error", "match"),
    [
        (ROME(), NotFittedError, "ROME is not fitted"),
        (compat.ROME(), NotFittedError, "ROME is not fitted"),
        ({"a": 1}, TypeError, "got dict"),
        (type("Mine", (ROME,), {})(), TypeError, "got Mine"),
        (DensityOutlierDetector(), TypeError, "got DensityOutlierDetector"),
    ],
)
def test_refuses_to_save(model, error, match, path):
    with pytest.raises(error, match=match):
        save(model, path)
    assert not path.exists()


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"random_state": np.random.RandomState(0)}, "random_state: .*RandomState.* set it to"),
        ({"random_state": np.random.default_rng(0)}, "random_state: "),
        ({"reg_covar": np.inf}, "reg_covar: "),
        ({"n_init": {1}}, "n_init: "),
        ({"n_init": [[1, 2]]}, "parameters: n_init must be a whole number"),
    ],
)
def test_refuses_parameters(parameters, match, path):
    model = GaussianMixtureBIC(max_components=2).fit(FEW).set_params(**parameters)
    path.write_bytes(b"older")
    with pytest.raises(ModelFileError, match=match):
        save(model, path)
    assert path.read_bytes() == b"older"


def test_refuses_what_it_does_not_know(path):
    model = GaussianKDE().fit(FEW)
    model.note_ = "mine"
    with pytest.raises(ModelFileError, match="note_: "):
        save(model, path)


def test_does_not_write_what_could_not_be_read(path):
    model = GaussianKDE().fit(FEW)
    model.factor_ = np.nan
    with pytest.raises(ModelFileError, match="factor_: "):
        save(model, path)
    assert not path.exists()


# All or nothing


def failing(*arguments, **keywords):
    raise OSError("no room")


def interrupted(*arguments, **keywords):
    raise KeyboardInterrupt


@pytest.mark.parametrize("failure", [failing, interrupted])
@pytest.mark.parametrize("target", ["os.fsync", "os.replace", "zipfile.ZipInfo.FileHeader"])
def test_a_failed_write_changes_nothing(fitted, path, monkeypatch, target, failure):
    save(GaussianKDE().fit(FEW), path)
    before = path.read_bytes()
    monkeypatch.setattr(target, failure)
    with pytest.raises((OSError, KeyboardInterrupt)):
        save(fitted, path)
    monkeypatch.undo()
    assert os.listdir(path.parent) == [path.name]
    assert path.read_bytes() == before
    save(fitted, path)
    assert_identical(load(path), fitted)
    assert os.listdir(path.parent) == [path.name]


def test_a_failed_first_write_leaves_nothing(fitted, path, monkeypatch):
    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises(OSError, match="no room"):
        save(fitted, path)
    assert os.listdir(path.parent) == []


def test_is_on_the_disk_before_it_takes_the_place(fitted, path, monkeypatch):
    calls = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(
            os, name, lambda *args, name=name, real=real: (calls.append(name), real(*args))[1]
        )
    save(fitted, path)
    assert calls == ["fsync", "replace"]


def test_a_link_stays_a_link(fitted, tmp_path):
    save(GaussianKDE().fit(FEW), tmp_path / "real.npz")
    link = tmp_path / "link.npz"
    link.symlink_to("real.npz")
    save(fitted, str(link))
    assert link.is_symlink()
    assert_identical(load(tmp_path / "real.npz"), fitted)


def test_files_that_are_not_there(fitted, tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none.npz")
    with pytest.raises(FileNotFoundError):
        save(fitted, tmp_path / "none" / "model.npz")


# Other ways to keep a model


@each_estimator
def test_pickles(estimator, moons, path):
    model = clone(estimator).fit(moons)
    for each in (model, again(model, path)):
        found = pickle.loads(pickle.dumps(each))
        assert_array_equal(found.score_samples(moons), model.score_samples(moons))


@pytest.mark.parametrize(
    "estimator",
    # skops does not know vines.
    [each for each in ESTIMATORS if not isinstance(each, VineDensity)],
    ids=repr,
)
@pytest.mark.whole
def test_skops(estimator, moons):
    skops = pytest.importorskip("skops.io")
    model = clone(estimator).fit(moons)
    data = skops.dumps(model)
    trusted = skops.get_untrusted_types(data=data)
    assert all(name.startswith("sevenhills.") for name in trusted)
    found = skops.loads(data, trusted=trusted)
    assert_array_equal(found.score_samples(moons), model.score_samples(moons))


def test_a_file_of_the_first_format_of_this_major_version_is_read():
    path = Path(__file__).parent / "files" / "density_3_0.sevenhills"
    X = datasets.load("two_moons").sample(20, random_state=0)
    assert_allclose(load(path).logpdf(X), GaussianKDE().fit(X).density_.logpdf(X), rtol=1e-9)

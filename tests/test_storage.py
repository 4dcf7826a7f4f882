"""Model files: what comes back, what is refused, and what never happens to a file."""

import hashlib
import io
import json
import os
import pickle
import struct
import tracemalloc
import warnings
import zipfile

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import sevenhills
from sevenhills import (
    ROME,
    AutoROME,
    GaussianKDE,
    GaussianMixtureBIC,
    KernelDensityCV,
    KernelMixture,
    ManifoldParzen,
    VineDensity,
    compat,
    datasets,
    load,
    save,
)
from sevenhills.density import NeighborDensity
from sevenhills.storage import ModelFileError
from sevenhills.storage.entries import as_stored

from .strategies import samples

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
    KernelDensityCV(bandwidths=[0.05, 0.2], cv=3),
    GaussianMixtureBIC(max_components=3),
    VineDensity(),
]
#: Those that can be fitted a hundred times.
FAST = [each for each in ESTIMATORS if not isinstance(each, AutoROME | VineDensity)]
each_estimator = pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
HEADER = "header.json"


@pytest.fixture(scope="module")
def moons():
    return datasets.load("two_moons").sample(150, random_state=1)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.npz"


def again(model, path):
    save(model, path)
    return load(path)


def assert_identical(a, b):
    """The same types and the same bits all the way down."""
    assert type(a) is type(b)
    if isinstance(a, np.ndarray):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        assert a.tolist() == b.tolist() if a.dtype == object else a.tobytes() == b.tobytes()
    elif isinstance(a, list | tuple):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_identical(x, y)
    elif isinstance(a, dict):
        assert a.keys() == b.keys()
        for key in a:
            assert_identical(a[key], b[key])
    elif hasattr(a, "to_json"):
        assert a.to_json() == b.to_json()
    elif hasattr(a, "__dict__"):
        assert_identical(parts_of(a), parts_of(b))
    else:
        assert a == b
        assert repr(a) == repr(b)


def parts_of(value):
    """The attributes of an object but for those that densities compute from the others."""
    return {k: v for k, v in vars(value).items() if k not in ("_log_sums", "_tree")}


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
def test_sequences_come_back_as_lists(tmp_path_factory, values, kind):
    model = KernelDensityCV(bandwidths=kind(values)).fit(FEW)
    found = again(model, tmp_path_factory.mktemp("models") / "model.npz")
    assert_identical(found.bandwidths, values)


FEW = np.random.RandomState(0).standard_normal((12, 2)) + 4 * (np.arange(12) % 2)[:, None]


@pytest.fixture(scope="module")
def fitted():
    return ROME(n_eps=3, n_xi=3).fit(FEW)


# The file


def test_is_a_small_uncompressed_archive_of_plain_arrays(path):
    X = datasets.load("aniso").sample(60, random_state=0)
    save(ROME().fit(X), path)
    assert path.stat().st_size < 22_000
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert all(info.compress_type == zipfile.ZIP_STORED for info in archive.infolist())
        header = json.loads(archive.read(HEADER))
    assert (header["magic"], header["version"], header["class"]) == (
        "sevenhills model",
        "2.0",
        "ROME",
    )
    with np.load(path, allow_pickle=False) as arrays:
        assert set(arrays.files) == {HEADER, *(name for name, _, _ in header["members"])}
        for name, dtype, shape in header["members"]:
            assert arrays[name].dtype.str == dtype
            assert dtype in ("<f8", "<i8", "|b1")
            assert list(arrays[name].shape) == shape


def test_one_model_gives_one_file(fitted, tmp_path):
    save(fitted, tmp_path / "a")
    save(load(tmp_path / "a"), tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_the_digest_is_what_the_documentation_says(fitted, path):
    save(fitted, path)
    header, arrays = taken_apart(path)
    assert header["sha256"] == digest(header, arrays)


def test_arrays_of_other_platforms_are_turned():
    values = {"f": np.array([1.5, -0.0], ">f8"), "i": np.array([1, -2], ">i4"), "n": 3}
    stored = as_stored(values)
    assert [stored[key].dtype.str for key in "fi"] == ["<f8", "<i8"]
    assert stored["f"].tobytes() == np.array([1.5, -0.0], "<f8").tobytes()
    assert_array_equal(stored["i"], [1, -2])
    with pytest.raises(ModelFileError, match="c: "):
        as_stored({"c": np.array([1j])})


def test_files_beyond_two_gigabytes(fitted, path, monkeypatch):
    """The larger form of an archive, made small by moving the limit from which it is used."""
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 1000)
    assert_identical(again(fitted, path), fitted)
    monkeypatch.undo()
    with pytest.raises(ModelFileError, match="directory: made for a larger"):
        load(path)


def test_every_estimator_has_its_files():
    """A new one must say in storage/models.py what is stored of it."""
    public = {name: getattr(sevenhills, name) for name in sevenhills.estimators.__all__}
    densities = {name for name, each in public.items() if hasattr(each, "is_normalized")}
    assert densities == {type(each).__name__ for each in ESTIMATORS}


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
        ({"n_init": {"a": 1}}, "n_init: "),
        ({"n_init": [[1, 2]]}, "n_init: "),
    ],
)
def test_refuses_parameters(parameters, match, path):
    model = GaussianMixtureBIC(max_components=2).fit(FEW).set_params(**parameters)
    path.write_bytes(b"older")
    with pytest.raises(ModelFileError, match=match):
        save(model, path)
    assert path.read_bytes() == b"older"


#: Values of a wrong type or out of range for the parameters of every estimator.
WRONG = {
    ROME: {
        "min_std": ["wide", -1.0, True], "selection": ["dbvc", 1], "decorrelate": [1, "yes"],
        "normalize": [None], "density": ["kd", None], "shrinkage": ["much"], "start": [None],
        "k_min": [1, 5.0, 21], "k_max": [4, "20"], "alpha_k": [0.0, "400"], "n_eps": [-1, 0.5],
        "n_xi": [-1, None], "exact_below": [-1, "all"], "verbose": [1], "n_jobs": [0, "all"],
    },
    AutoROME: {"min_std": ["wide", -0.1], "random_state": [-1, 0.5, "a"], "n_jobs": [0, 1.5]},
    ManifoldParzen: {
        "min_std": ["wide", -1], "n_neighbors": ["all", 0, 2.5], "n_directions": [-1, "two"],
        "n_jobs": [0, True],
    },
    GaussianKDE: {"bw_method": ["skott", 0.0, None], "min_std": [None], "n_jobs": [0]},
    KernelDensityCV: {"bandwidths": ["all", [], [0.1, -1.0], 3], "cv": [1], "n_jobs": [0]},
    GaussianMixtureBIC: {
        "max_components": [0, 2.5], "n_init": [0], "reg_covar": [0.0, "1"],
        "random_state": [2**32], "n_jobs": [0],
    },
    VineDensity: {"truncation": [-1, None], "n_jobs": [0]},
    compat.ROME: {"min_std": ["wide", -1.0, None]},
}  # fmt: skip


@pytest.mark.parametrize("estimator", WRONG, ids=lambda each: f"{each.__module__}.{each.__name__}")
def test_wrong_parameters_are_refused_as_fit_refuses_them(estimator, path):
    save(estimator().fit(FEW), path)
    header, arrays = taken_apart(path)
    for name, values in WRONG[estimator].items():
        for value in values:
            forged = {**header, "parameters": {**header["parameters"], name: value}}
            put_together(path, forged, arrays)
            with pytest.raises(ModelFileError, match=f"^parameters: .*{name}"):
                load(path)
            with pytest.raises((TypeError, ValueError), match=name):
                estimator(**{name: value}).fit(FEW)


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


# Damage


@pytest.fixture(scope="module")
def small(fitted, tmp_path_factory):
    """The bytes of a model file with all kinds of parts."""
    path = tmp_path_factory.mktemp("small") / "model.npz"
    save(fitted, path)
    data = path.read_bytes()
    assert len(data) < 20_000
    return data


def model_in(path, data):
    """The model in a file of these bytes, None if it is refused; no other error is right."""
    path.write_bytes(data)
    try:
        return load(path)
    except ModelFileError as error:
        return None if ": " in str(error) else error


#: The distance of places at which a file is damaged; numbers take eight bytes or four, so that
#: every byte of them has its turn.
each_distance = pytest.mark.parametrize("distance", [5, pytest.param(1, marks=pytest.mark.slow)])


@each_distance
def test_every_truncation_is_refused(small, path, distance):
    for length in range(0, len(small), distance):
        assert model_in(path, small[:length]) is None, length


@each_distance
@pytest.mark.whole
def test_every_flipped_byte_is_refused_or_harmless(small, fitted, path, distance):
    patterns = np.random.RandomState(0).randint(1, 256, size=len(small))
    n_harmless = 0
    for place in range(0, len(small), distance):
        data = bytearray(small)
        data[place] ^= patterns[place]
        found = model_in(path, bytes(data))
        if found is not None:
            assert_identical(found, fitted)
            n_harmless += 1
    # What the archive says twice, dates, and the like; none of it is content.
    assert n_harmless < len(small) / distance / 4


@pytest.mark.whole
def test_every_turned_byte_of_a_density_is_refused_or_harmless(path):
    density = KernelMixture([0.25, 0.75], [[0.0], [3.0]], [0, 1, 2], [[[1.0]], [[2.0]]])
    save(density, path)
    whole = path.read_bytes()
    for place in range(len(whole)):
        data = bytearray(whole)
        data[place] ^= 0xFF
        found = model_in(path, bytes(data))
        if found is not None:
            assert_identical(found, density)


@pytest.mark.whole
def test_damage_takes_no_memory(small, path):
    load_of_the_whole = model_in(path, small)  # compiles and imports what is needed
    assert load_of_the_whole is not None
    rng = np.random.RandomState(1)
    tracemalloc.start()
    try:
        for _ in range(200):
            data = bytearray(small)
            for place in rng.randint(len(small), size=rng.randint(1, 4)).tolist():
                data[place] = rng.choice([0, 0x7F, 0x80, 0xFF, data[place] ^ (1 << rng.randint(8))])
            model_in(path, bytes(data))
        for place in range(len(small) - 22, len(small)):  # where the directory is described
            data = bytearray(small)
            data[place] = 0xFF
            model_in(path, bytes(data))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 5_000_000


@pytest.mark.parametrize("junk", [b"\x00", b"PK", b"#!/bin/sh\n", b"PK\x03\x04" + bytes(40)])
def test_junk_around_it(small, fitted, path, junk):
    for data in (junk + small, small + junk, small + small):
        found = model_in(path, data)
        if found is not None:
            assert_identical(found, fitted)


def foreign_files():
    buffer = io.BytesIO()
    np.savez(buffer, a=np.arange(3))
    yield "npz", buffer.getvalue()
    buffer = io.BytesIO()
    np.save(buffer, np.arange(3))
    yield "npy", buffer.getvalue()
    buffer = io.BytesIO()
    zipfile.ZipFile(buffer, "w").close()
    yield "empty archive", buffer.getvalue()
    yield "pickle", pickle.dumps([1, 2, 3])
    yield "text", b"{}" * 100
    yield "nothing", b""


@pytest.mark.parametrize(("name", "data"), list(foreign_files()))
def test_foreign_files(path, name, data):
    assert model_in(path, data) is None


# Forgery: files whose digest is right


def taken_apart(path):
    """The header of a file, and the bytes of its arrays."""
    with zipfile.ZipFile(path) as archive:
        header = json.loads(archive.read(HEADER))
        arrays = {name: archive.read(f"{name}.npy") for name, _, _ in header["members"]}
    return header, {name: data[128:] for name, data in arrays.items()}


def digest(header, arrays):
    fields = {key: value for key, value in header.items() if key != "sha256"}
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(
        text.encode() + b"".join(arrays[n] for n, *_ in header["members"])
    ).hexdigest()


def npy_of(dtype, shape, data):
    text = f"{{'descr': {dtype!r}, 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    text = text.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + data


def put_together(path, header, arrays, compression=zipfile.ZIP_STORED, more=()):
    members = {name: (dtype, shape) for name, dtype, shape in header["members"]}
    if "sha256" in header:
        header = {**header, "sha256": digest(header, arrays)}
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w", compression) as archive:
        warnings.simplefilter("ignore", UserWarning)  # of two members of one name
        archive.writestr(HEADER, json.dumps(header))
        for name, data in arrays.items():
            archive.writestr(f"{name}.npy", npy_of(*members[name], data))
        for name, data in more:
            archive.writestr(name, data)


@pytest.fixture(scope="module")
def files(tmp_path_factory, fitted):
    """Model files to forge."""
    folder = tmp_path_factory.mktemp("files")
    labels = np.arange(len(FEW)) % 3 - 1
    models = {
        "rome": fitted,
        "knn": ROME(density="knn", min_std=0.1).fit(FEW, labels=labels),
        "auto": AutoROME().fit(FEW),
        "kde": KernelDensityCV(bandwidths=[0.3, 0.5]).fit(FEW),
        "bic": GaussianMixtureBIC(max_components=2).fit(pd.DataFrame(FEW, columns=["a", "b"])),
        "vine": VineDensity().fit(FEW),
        "compat": compat.ROME().fit(FEW),
        "density": fitted.density_,
    }
    for name, model in models.items():
        save(model, folder / name)
    return folder


def test_forging_alone_changes_nothing(files, path):
    for name in os.listdir(files):
        put_together(path, *taken_apart(files / name))
        assert_identical(load(path), load(files / name))


def change(header, arrays, name, value):
    """Change a field, a value or an array; arrays change their shape, too."""
    if isinstance(value, np.ndarray):
        arrays[name] = value.tobytes()
        for row in header["members"]:
            if row[0] == name:
                row[1:] = [value.dtype.str, list(value.shape)]
    elif name in header:
        header[name] = value
    else:
        header["values"][name] = value


def array_of(header, arrays, name):
    dtype, shape = {row[0]: row[1:] for row in header["members"]}[name]
    return np.frombuffer(arrays[name], dtype).reshape(shape).copy()


def with_element(index, value):
    def edit(array):
        array[index] = value
        return array

    return edit


FORGERIES = [
    ("rome", "magic", "some other model", "magic: "),
    ("rome", "version", "3.0", "version: 3.0 is newer"),
    ("rome", "version", "0.9", "version: 0.9 is too old"),
    ("rome", "version", 1.0, "version: "),
    ("rome", "version", "1", "version: "),
    ("rome", "class", "os.system", "class: "),
    ("rome", "class", "KernelDensity", "class: "),
    ("rome", "class", ["ROME"], "class: "),
    ("rome", "class", "GaussianKDE", "factor_: missing"),
    ("rome", "parameters", {"depth": 3}, "parameters: a ROME has no 'depth'"),
    ("rome", "parameters", {"n_jobs": {"a": 1}}, "n_jobs: "),
    ("rome", "parameters", [], "parameters: "),
    ("density", "parameters", {"n_jobs": 1}, "parameters: "),
    ("compat", "parameters", {"n_jobs": 1}, "parameters: "),
    ("rome", "values", 3, "values: "),
    ("rome", "min_std_", -1.0, "min_std_: "),
    ("rome", "min_std_", "small", "min_std_: "),
    ("rome", "min_std_", None, "min_std_: "),
    ("rome", "stranger_", 1, "stranger_: not part"),
    ("rome", "n_features_in_", 3, "n_features_in_: 3 features"),
    ("rome", "n_features_in_", True, "n_features_in_: "),
    ("rome", "n_features_in_", 2**70, "n_features_in_: "),
    ("rome", "density_.kind", "magic", "density_.kind: "),
    ("rome", "density_.kind", "vine", "density_.kind: "),
    ("rome", "density_.weights", with_element(0, -0.1), "density_: weights"),
    ("rome", "density_.weights", with_element(0, 0.3), "density_: weights"),
    ("rome", "density_.weights", with_element(0, np.nan), "density_.weights: .*finite"),
    ("rome", "density_.weights", lambda a: a[:-1], "density_.weights: "),
    ("rome", "density_.weights", lambda a: np.float32(a), "density_.weights: "),
    ("rome", "density_.weights", lambda a: a[:, None], "density_.weights: "),
    ("rome", "density_.means", with_element((0, 0), np.inf), "density_.means: .*finite"),
    ("rome", "density_.means", lambda a: a[:0], "density_"),
    ("rome", "density_.means", lambda a: a[:, :1].copy(), "density_.transforms: "),
    ("rome", "density_.transforms", with_element(0, 0.0), "density_.transforms: .*singular"),
    ("rome", "density_.transforms", lambda a: 2 * a, "density_.log_dets: "),
    ("rome", "density_.log_dets", lambda a: a + 1, "density_.log_dets: "),
    ("rome", "density_.log_weights", lambda a: a + 1, "density_: log_weights"),
    ("rome", "density_.log_weights", with_element(0, np.inf), "density_: log_weights"),
    ("rome", "density_.log_weights", lambda a: a[:-1], "density_.log_weights: "),
    ("rome", "density_.clusters", with_element(0, -2), "density_.clusters: "),
    ("rome", "density_.clusters", lambda a: a[:-1], "density_.clusters: "),
    ("rome", "density_.counts", with_element(0, -1.0), "density_: counts"),
    ("rome", "density_.counts", with_element(0, np.inf), "density_.counts: .*finite"),
    ("rome", "density_.feature_names", ["a"], "density_: feature_names"),
    ("rome", "density_.feature_names", ["a", "a"], "density_: feature_names"),
    ("rome", "density_.feature_names", [1, 2], "density_.feature_names: "),
    ("rome", "density_.offsets", with_element(0, 1), "density_: offsets"),
    ("rome", "density_.offsets", with_element(0, 2**62), "density_: offsets"),
    ("rome", "density_.offsets", lambda a: a[:0], "density_"),
    ("rome", "density_.offsets", lambda a: a.astype("<f8"), "density_.offsets: "),
    ("rome", "labels_", lambda a: a - 5, "labels_: "),
    ("rome", "labels_", lambda a: a[:-1], "_: 12 samples, but there are 11 labels"),
    ("rome", "labels_", lambda a: 0 * a, "clusters_.n_members: "),
    ("rome", "clusters_.n_members", [1], "clusters_: has columns of different lengths"),
    ("rome", "clusters_.label", [0, "1"], "clusters_.label: "),
    ("rome", "clusters_.label", 0, "clusters_.label: "),
    ("rome", "clusters_.bandwidth", [-1.0, 0.0], "clusters_.bandwidth: "),
    ("rome", "clusters_.stds", with_element((0, 0), -1.0), "clusters_.stds: "),
    ("rome", "ordering_.order", with_element(0, 1), "ordering_.order: "),
    ("rome", "ordering_.predecessor", with_element(0, 99), "ordering_.predecessor: "),
    ("rome", "ordering_.reachability", lambda a: a + np.inf, "ordering_.reachability: "),
    ("rome", "ordering_.reachability", with_element(0, np.nan), "ordering_.reachability: "),
    ("rome", "ordering_.n_neighbors", 0, "ordering_.n_neighbors: "),
    ("rome", "ordering_.n_neighbors", 1.5, "ordering_.n_neighbors: "),
    ("rome", "candidates_.chosen", 99, "candidates_.chosen: "),
    ("rome", "candidates_.criterion", "best", "candidates_.criterion: "),
    ("rome", "candidates_.runs", with_element((0, 0), 0), "candidates_.runs: "),
    ("rome", "candidates_.runs", with_element((-1, 0), 11), "candidates_.runs: "),
    ("rome", "candidates_.runs", with_element((0, 1), 99), "candidates_.runs: "),
    ("rome", "candidates_.offsets", with_element(1, 2**62), "candidates_.offsets: "),
    ("rome", "candidates_.scores", with_element(0, np.inf), "candidates_.scores: "),
    ("rome", "candidates_.steep", lambda a: a.view("u1") + 2, "candidates_.steep: "),
    ("knn", "density_.weights", lambda a: a * 2, "density_.weights: "),
    ("knn", "density_.weights", lambda a: -a, "density_.weights: "),
    ("knn", "density_.n_neighbors", lambda a: a + 90, "density_.n_neighbors: "),
    ("knn", "density_.n_neighbors", lambda a: a * 0, "density_.n_neighbors: "),
    ("knn", "density_.min_radius", lambda a: -a, "density_.min_radius: "),
    ("knn", "density_.offsets", lambda a: a[::-1].copy(), "density_.offsets: "),
    ("knn", "density_.transforms", lambda a: a * 0, "density_.transforms: "),
    ("knn", "density_.members", lambda a: a[:-1], "density_.offsets: "),
    ("knn", "density_.noise.weights", lambda a: -a, "density_.noise: weights"),
    ("auto", "clusters_.weights", [], "clusters_.weights: "),
    ("auto", "clusters_.weights", [["a"]], r"clusters_.weights\[0\]: "),
    ("auto", "clusters_.members", [[3]], r"clusters_.members\[0\]: "),
    ("auto", "clusters_.reason", [3], "clusters_.reason: "),
    ("auto", "held_out_", 3, "held_out_: "),
    ("kde", "scores_", lambda a: a[:1], "scores_: "),
    ("kde", "scores_", with_element(0, np.nan), "scores_: "),
    ("kde", "bandwidth_", 0.4, "bandwidth_: "),
    ("bic", "n_components_", 3, "n_components_: "),
    ("bic", "feature_names_in_", ["a"], "feature_names_in_: "),
    ("bic", "feature_names_in_", ["a", 2], "feature_names_in_: "),
    ("vine", "density_.vine", lambda a: a[:-1], "density_.vine: "),
    ("vine", "density_.vine", lambda a: a[:0], "density_.vine: "),
    ("vine", "density_.vine", lambda a: a | 0x80, "density_.vine: "),
    ("vine", "density_.centre", lambda a: a[:1], "density_.vine: "),
    ("vine", "density_.unit", 0.0, "density_.unit: "),
    ("vine", "density_.features", lambda a: 0 * a, "density_.features: "),
    ("vine", "density_.background_weight", 1.0, "density_.background_weight: "),
    ("vine", "density_.background_weight", -0.1, "density_.background_weight: "),
    ("vine", "density_.background.weights", lambda a: 2 * a, "density_.background"),
]


@pytest.mark.parametrize(("file", "name", "value", "match"), FORGERIES)
def test_forgeries(files, path, file, name, value, match):
    header, arrays = taken_apart(files / file)
    if callable(value):
        value = value(array_of(header, arrays, name))
    change(header, arrays, name, value)
    put_together(path, header, arrays)
    with pytest.raises(ModelFileError, match=match):
        load(path)


@pytest.mark.parametrize("field", ["magic", "version", "class", "parameters", "values", "sha256"])
def test_missing_fields(files, path, field):
    header, arrays = taken_apart(files / "rome")
    del header[field]
    put_together(path, header, arrays)
    with pytest.raises(ModelFileError, match=f"{field}: "):
        load(path)


def test_missing_values_and_more_fields(files, path):
    header, arrays = taken_apart(files / "rome")
    put_together(path, {**header, "more": 1}, arrays)
    with pytest.raises(ModelFileError, match="more: unknown"):
        load(path)
    for name in header["values"]:
        values = {key: value for key, value in header["values"].items() if key != name}
        put_together(path, {**header, "values": values}, arrays)
        with pytest.raises(ModelFileError, match=f"{name}: "):
            load(path)


def test_vines_without_a_background_are_read(files, path):
    """Files of earlier versions hold the vine alone."""
    header, arrays = taken_apart(files / "vine")
    new = ("density_.features", "density_.background")
    header["values"] = {k: v for k, v in header["values"].items() if not k.startswith(new)}
    header["members"] = [row for row in header["members"] if not row[0].startswith(new)]
    put_together(path, header, {k: v for k, v in arrays.items() if not k.startswith(new)})
    found = load(path)
    assert found.density_.background is None
    assert np.isfinite(found.score_samples(FEW)).all()
    assert found.score_samples(FEW.mean(axis=0, keepdims=True) + 1e6) == -np.inf


def test_every_array_is_needed(files, path):
    for file in os.listdir(files):
        header, arrays = taken_apart(files / file)
        for name in list(arrays):
            rest = {key: value for key, value in arrays.items() if key != name}
            table = [row for row in header["members"] if row[0] != name]
            put_together(path, {**header, "members": table}, rest)
            with pytest.raises(ModelFileError, match=name.split(".")[0]):
                load(path)


def test_a_wrong_digest(files, path):
    header, arrays = taken_apart(files / "rome")
    put_together(path, header, arrays)
    whole = path.read_bytes()
    assert whole.count(b'"n_features_in_": 2') == 1
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(HEADER, json.dumps({**header, "parameters": {}}))
        for name, dtype, shape in header["members"]:
            archive.writestr(f"{name}.npy", npy_of(dtype, shape, arrays[name]))
    with pytest.raises(ModelFileError, match="sha256: "):
        load(path)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("{", "header.json: "),
        ("", "header.json: "),
        ("[" * 100_000, "header.json: "),
        ('"ä"', "header.json: "),
        ("1" * 5000, "header.json: "),
        ('{"a":1,"a":2}', "header.json: .*two fields"),
        ("[]", "magic: "),
        ("NaN", "magic: "),
        ("{}", "magic: "),
    ],
)
def test_headers_that_are_none(path, text, match):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(HEADER, text.encode("latin-1"))
    with pytest.raises(ModelFileError, match=match):
        load(path)


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "1e999"])
def test_values_that_are_not_finite(files, path, constant):
    header, arrays = taken_apart(files / "rome")
    text = json.dumps({**header, "values": {**header["values"], "min_std_": 0.125}})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(HEADER, text.replace("0.125", constant))
        for name, dtype, shape in header["members"]:
            archive.writestr(f"{name}.npy", npy_of(dtype, shape, arrays[name]))
    with pytest.raises(ModelFileError, match=r"header\.json: "):
        load(path)


@pytest.mark.parametrize(
    ("row", "match"),
    [
        (["labels_", "|O", [3]], "labels_: must be of one of"),
        (["labels_", "<U4", [3]], "labels_: must be of one of"),
        (["labels_", ">f8", [3]], "labels_: must be of one of"),
        (["labels_", ["<f8"], [3]], "labels_: must be of one of"),
        (["labels_", "<i8", [-3]], "labels_: the shape"),
        (["labels_", "<i8", [3.0]], "labels_: the shape"),
        (["labels_", "<i8", [True]], "labels_: the shape"),
        (["labels_", "<i8", []], "labels_: the shape"),
        (["labels_", "<i8", [1, 1, 1, 3]], "labels_: the shape"),
        (["labels_", "<i8", 3], "labels_: the shape"),
        (["labels_", "<i8", [13]], "labels_: is not as long"),
        (["labels_", "<i8", [2**62, 2**62]], "members: declares"),
        (["labels_", "<i8", [2**40]], "members: declares"),
        (["../labels_", "<i8", [3]], "members: '../labels_' is not the name"),
        (["labels_", "<i8"], "members: "),
        ("labels_", "members: "),
        (None, "members: "),
    ],
)
def test_tables(files, path, row, match):
    header, arrays = taken_apart(files / "rome")
    table = [row if each[0] == "labels_" else each for each in header["members"]]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(HEADER, json.dumps({**header, "members": table}))
        for name, dtype, shape in header["members"]:
            archive.writestr(f"{name}.npy", npy_of(dtype, shape, arrays[name]))
    with pytest.raises(ModelFileError, match=match):
        load(path)


def test_arrays_that_need_pickle_are_not_even_parsed(files, path, monkeypatch):
    """Such as numpy writes them, behind a table that says they are numbers."""
    header, arrays = taken_apart(files / "rome")
    buffer = io.BytesIO()
    np.save(buffer, np.array([print] * 9, dtype=object), allow_pickle=True)
    monkeypatch.setattr(np, "load", failing)
    monkeypatch.setattr(pickle, "load", failing)
    with zipfile.ZipFile(path, "w") as archive:
        data = buffer.getvalue()
        n = (len(data) - 128) // 8
        table = [["labels_", "<i8", [n]] if r[0] == "labels_" else r for r in header["members"]]
        archive.writestr(HEADER, json.dumps({**header, "members": table}))
        for name, dtype, shape in header["members"]:
            forged = data[: 128 + 8 * n] if name == "labels_" else None
            archive.writestr(f"{name}.npy", forged or npy_of(dtype, shape, arrays[name]))
    with pytest.raises(ModelFileError, match="labels_: is not the array"):
        load(path)


@pytest.mark.parametrize(
    "name",
    ["more.npy", "../../evil.npy", "/etc/passwd", "labels_.NPY", "a/b.npy", "x" * 500, "ü.npy"],
)
def test_members_that_are_not_declared(files, path, name):
    put_together(path, *taken_apart(files / "rome"), more=[(name, b"123")])
    with pytest.raises(ModelFileError, match="not declared"):
        load(path)
    assert os.listdir(path.parent) == [path.name]


def test_members_twice(files, path):
    header, arrays = taken_apart(files / "rome")
    for name in ("labels_.npy", HEADER):
        put_together(path, header, arrays, more=[(name, b"123")])
        with pytest.raises(ModelFileError, match="two members"):
            load(path)
    put_together(path, {**header, "members": header["members"] * 2}, arrays)
    with pytest.raises(ModelFileError, match="declared twice"):
        load(path)


@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_compressed_members(files, path, compression):
    put_together(path, *taken_apart(files / "rome"), compression=compression)
    with pytest.raises(ModelFileError, match=f"{HEADER}': compressed"):
        load(path)


def central_entries(data):
    """Where the directory describes every member."""
    places, place = [], data.find(b"PK\x01\x02")
    while place >= 0:
        places.append(place)
        place = data.find(b"PK\x01\x02", place + 4)
    return places


def test_encrypted_members(small, path):
    data = bytearray(small)
    data[central_entries(data)[3] + 8] |= 1
    path.write_bytes(data)
    with pytest.raises(ModelFileError, match="encrypted"):
        load(path)


def peak_while_refused(path, match, **options):
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError, match=match):
            load(path, **options)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_bombs(files, path):
    header, _ = taken_apart(files / "rome")
    zeros = bytes(10_000_000)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(HEADER, json.dumps(header), compress_type=zipfile.ZIP_STORED)
        archive.writestr("labels_.npy", zeros)
    del zeros
    assert peak_while_refused(path, "labels_.npy': compressed") < 1_000_000
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(HEADER, bytes(10_000_000))
    assert peak_while_refused(path, "compressed") < 1_000_000


def test_members_that_share_their_bytes(small, path):
    """A directory in which all members are as long as the file, and are the file."""
    data = bytearray(small)
    for place in central_entries(data):
        data[place + 20 : place + 28] = struct.pack("<II", len(small), len(small))
    path.write_bytes(data)
    assert peak_while_refused(path, "longer than the file") < 1_000_000


def test_members_longer_than_the_file(small, path):
    data = bytearray(small)
    place = central_entries(data)[2]
    data[place + 20 : place + 28] = struct.pack("<II", 2**31, 2**31)
    path.write_bytes(data)
    assert peak_while_refused(path, "longer than the file") < 1_000_000


def test_long_directories(path):
    with zipfile.ZipFile(path, "w") as archive:
        for i in range(3000):
            archive.writestr(f"{i}.npy", b"")
    assert peak_while_refused(path, "directory: too long") < 1_000_000


def test_long_headers(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(HEADER, b" " * 10_000_001)
    assert peak_while_refused(path, "header.json: longer than") < 1_000_000


def test_limits_of_size(files, path):
    size = (files / "rome").stat().st_size
    assert load(files / "rome", max_bytes=size) is not None
    assert peak_while_refused(files / "rome", "file: declares", max_bytes=size - 1) < 1_000_000
    with pytest.raises(ValueError, match="max_bytes"):
        load(files / "rome", max_bytes=0)
    with pytest.raises(TypeError, match="max_bytes"):
        load(files / "rome", max_bytes=1e9)


@pytest.mark.whole
def test_a_header_too_long_to_be_read_is_not_written(path):
    table = pd.DataFrame(FEW, columns=["a", "b" * 10_000_000])
    with pytest.raises(ModelFileError, match=r"header\.json: "):
        save(GaussianKDE().fit(table), path)
    assert not path.exists()


def test_sparse_files(path):
    """Nothing but the ends of a file of gigabytes is looked at."""
    with open(path, "wb") as file:
        file.write(b"PK\x03\x04")
        file.truncate(2**33)
    assert peak_while_refused(path, "file: ") < 1_000_000


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

"""Many data sets at once, beside a loop over them."""

import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.neighbors import KernelDensity
from threadpoolctl import threadpool_limits

from sevenhills import (
    ROME,
    AutoROME,
    DensityOutlierDetector,
    GaussianKDE,
    GaussianMixtureBIC,
    KernelDensityCV,
    ManifoldParzen,
    VineDensity,
    fit_many,
    score_many,
)
from sevenhills.scale import Failure
from sevenhills.scale.many import _Batch

ESTIMATORS = [
    ROME(),
    ROME(selection="dbcv", density="gaussian"),
    ROME(density="knn", min_std=0.1),
    AutoROME(),
    GaussianKDE(),
    GaussianMixtureBIC(max_components=2, random_state=np.random.RandomState(0)),
    KernelDensityCV(),
    ManifoldParzen(),
    VineDensity(),
    DensityOutlierDetector(ROME()),
    KernelDensity(bandwidth=0.3),
]


@pytest.fixture(scope="module")
def sets():
    """Two hills each, of several sizes and dimensions."""
    rng = np.random.RandomState(0)
    return [
        rng.standard_normal((n, m)) + 5.0 * rng.randint(2, size=(n, 1))
        for n, m in [(40, 2), (25, 3), (60, 2), (31, 1), (100, 4)]
    ]


@pytest.fixture(scope="module")
def box():
    return np.random.RandomState(1).standard_normal((12, 30, 2))


def assert_same(models, twins):
    """To the bit: what was learned, and the densities."""
    assert len(models) == len(twins)
    for model, twin in zip(models, twins, strict=True):
        assert type(model) is type(twin)
        assert vars(model).keys() == vars(twin).keys()
        for name, value in vars(twin).items():
            if isinstance(value, np.ndarray | float | int | str):
                assert_array_equal(getattr(model, name), value)
        queries = np.random.RandomState(2).standard_normal((7, twin.n_features_in_))
        if hasattr(twin, "feature_names_in_"):
            queries = pd.DataFrame(queries, columns=twin.feature_names_in_)
        assert_array_equal(model.score_samples(queries), twin.score_samples(queries))


def looped(datasets, estimator, weights=None):
    weights = [None] * len(datasets) if weights is None else weights
    return [
        clone(estimator).fit(X) if w is None else clone(estimator).fit(X, sample_weight=w)
        for X, w in zip(datasets, weights, strict=True)
    ]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda each: type(each).__name__)
def test_like_a_loop(estimator, sets):
    sets = sets[:2] if isinstance(estimator, AutoROME | VineDensity) else sets
    models, twins = fit_many(sets, estimator), looped(sets, estimator)
    assert_same(models, twins)
    for scores, twin, X in zip(score_many(models, sets), twins, sets, strict=True):
        assert_array_equal(scores, twin.score_samples(X))


def test_default_is_rome(sets):
    assert_same(fit_many(sets), looped(sets, ROME()))


def test_one_array(box):
    assert_same(fit_many(box), looped(box, ROME()))


def test_other_layouts(box):
    views = [np.asfortranarray(box[0]), box[1][::-1], box[2][:, ::-1], box[3].astype(np.float32)]
    assert_same(fit_many(views), looped(views, ROME()))
    assert_same(fit_many([X.tolist() for X in box]), looped(box, ROME()))


@pytest.mark.parametrize("estimator", [ROME(), GaussianKDE(), ManifoldParzen()], ids=repr)
def test_weights(estimator, sets, box):
    rng = np.random.RandomState(3)
    weights = [rng.uniform(0, 3, len(X)) for X in sets]
    weights[1] = None
    assert_same(fit_many(sets, estimator, sample_weight=weights), looped(sets, estimator, weights))
    weights = rng.uniform(0.5, 2, box.shape[:2])
    assert_same(fit_many(box, estimator, sample_weight=weights), looped(box, estimator, weights))


def test_frames(box):
    frames = [pd.DataFrame(X, columns=["east", "north"]) for X in box]
    models = fit_many(frames)
    assert_same(models, looped(frames, ROME()))
    assert models[0].feature_names_in_.tolist() == ["east", "north"]
    assert_array_equal(score_many(models, frames), score_many(fit_many(box), box))


def test_densities_are_scored_like_estimators(sets):
    models = fit_many(sets)
    densities = [model.density_ for model in models]
    for one, other in zip(score_many(densities, sets), score_many(models, sets), strict=True):
        assert_array_equal(one, other)


def test_nothing():
    assert fit_many([]) == []
    assert fit_many(np.empty((0, 5, 2))) == []
    assert score_many([], []) == []


def test_estimator_and_data_are_left_alone(box):
    generator = np.random.RandomState(0)
    before, state = box.copy(), pickle.dumps(generator)
    estimator = GaussianMixtureBIC(max_components=2, random_state=generator)
    models = fit_many(box, estimator)
    assert not hasattr(estimator, "density_")
    assert pickle.dumps(generator) == state
    assert_array_equal(box, before)
    assert len({id(model) for model in models}) == len(models)


@pytest.mark.parametrize("backend", ["threading", "sequential"])
def test_workers(backend, sets, box):
    do_not_matter(backend, sets, box)


def do_not_matter(backend, sets, box):
    box.flags.writeable = False
    with joblib.parallel_config(backend, n_jobs=2):
        models = fit_many(sets)
        scores = score_many(models, sets)
        many = fit_many(box)
    assert_same(models, looped(sets, ROME()))
    assert_same(many, looped(box, ROME()))
    for one, model, X in zip(scores, models, sets, strict=True):
        assert_array_equal(one, model.score_samples(X))


def test_processes(tmp_path, sets, box):
    """joblib keeps its processes from call to call, until one of them fails."""
    do_not_matter("loky", sets, box)
    check_memory_maps(tmp_path / "sets.npy", box)
    check_large_sets()
    check_errors(box)


def check_errors(box):
    bad = box.copy()
    bad[7, 3, 1] = np.nan
    assert fit_many(bad, n_jobs=2, errors="skip")[7].error == "ValueError"
    with pytest.raises(ValueError, match=r"^datasets\[7\]: Input X contains NaN"):
        fit_many(bad, n_jobs=2)


def check_memory_maps(path, box):
    """Of large data, a worker is sent the name of the file."""
    np.save(path, box)
    mapped = np.load(path, mmap_mode="r")
    models = fit_many(mapped, n_jobs=2)
    assert_same(models, looped(box, ROME()))
    assert_array_equal(score_many(models, mapped), score_many(models, box))


def check_large_sets():
    """joblib maps them into the memory of its processes, where they cannot be written to."""
    large = np.random.RandomState(0).standard_normal((3, 70_000, 2))
    estimator = GaussianMixtureBIC(max_components=1)
    with threadpool_limits(1):  # as in the processes, for large products depend on it
        twins = looped(large, estimator)
    assert_same(fit_many(large, estimator, n_jobs=2), twins)


def sent(content):
    """What another process receives."""
    return pickle.loads(pickle.dumps(_Batch(content)))


def test_batches_leave_to_joblib_what_it_sends_better():
    class Unknown(GaussianKDE):
        """A class that only joblib can send, like those of a notebook."""

    for each in (Unknown(), np.zeros(200_000)):
        assert _Batch([each]).__reduce__() == (list, ([each],))


@pytest.mark.parametrize("is_writeable", [True, False])
@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0).reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(12)[::2],
        np.array(3.0),
        np.empty((0, 2)),
        np.array(["dbscan", "xi"]),
        np.array([True, False, True]),
        np.ones(8, dtype=np.int8),
        np.arange(2, dtype=">f8"),
        np.array([1, "a", None], dtype=object),
        np.array(["2024-01-01"], dtype="datetime64[D]"),
        np.ones(2, dtype=np.longdouble),
        np.ones(2, dtype=[("a", np.int32), ("b", np.float32)]),
    ],
    ids=lambda array: f"{array.dtype} {array.shape}",
)
def test_arrays_in_batches(array, is_writeable):
    array = array.copy(order="K")
    array.flags.writeable = is_writeable
    content = [{"a": np.arange(3.0), "b": array}, "text", None]
    received = sent(content)
    assert type(received) is list
    assert repr(received) == repr(content)
    found = received[0]["b"]
    assert type(found) is type(array)
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    assert found.flags.aligned
    assert found.flags.writeable == is_writeable or array.dtype.kind in "OM"
    assert_array_equal(found, array)


def test_shared_objects_in_a_batch_stay_shared():
    array, names = np.arange(4.0), ["a"]
    one, other = sent([(array, names), {"array": array, "names": names}])
    assert one[0] is other["array"]
    assert one[1] is other["names"]


def test_arrays_of_a_batch_share_no_memory_otherwise():
    """Keeping one model of many does not keep the arrays of all."""
    one, other = sent([np.arange(4.0), np.arange(4.0)])
    owner = one
    while isinstance(owner, np.ndarray) and owner.base is not None:
        owner = owner.base
    assert memoryview(owner).nbytes == one.nbytes
    one[:] = -1
    assert_array_equal(other, np.arange(4.0))


def test_more_sets_than_fit_into_a_batch():
    sets = np.random.RandomState(0).standard_normal((300, 3, 1))
    models = fit_many(sets, GaussianKDE())
    twins = [GaussianKDE().fit(X).score_samples(X) for X in sets]
    assert_array_equal(score_many(models, sets), twins)


def test_progress(box, capfd):
    with joblib.parallel_config(verbose=10):
        fit_many(box)
    assert "Done" in "".join(capfd.readouterr())


def test_silence(box, silent):
    score_many(fit_many(box), box)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (np.zeros((5, 2)), "have no spread"),
        (np.array([[0.0, np.inf], [1.0, 2.0]]), "infinity"),
        ([["a", "b"]], "has words in column 0"),
    ],
)
def test_refused_data(bad, message, sets):
    given = [*sets[:2], bad, sets[2]]
    with pytest.raises(ValueError, match=rf"^datasets\[2\]: .*{message}"):
        fit_many(given)
    models = fit_many(given, errors="skip")
    assert models[2].index == 2
    assert models[2].error == "ValueError"
    assert message in models[2].message
    assert_same([*models[:2], models[3]], looped(sets[:3], ROME()))


@pytest.mark.parametrize("estimator", [ROME(), ROME(selection="auto"), ROME(verbose=True)])
def test_fits_that_take_turns_like_a_loop(estimator, sets, box, capfd):
    """Fits of different numbers of stages, of which some end early."""
    given = [sets[4], box[0], box[1].round(1), sets[1][:4], np.repeat(box[2], 3, axis=0), sets[0]]
    assert_same(fit_many(given, estimator), looped(given, estimator))
    assert bool(capfd.readouterr().out) == estimator.verbose


def test_the_first_of_several_errors_is_raised(sets):
    """Also if a later data set fails in an earlier stage."""
    late, early = np.array([[1e300], [-1e300]]), np.array([[np.nan]])
    given = [sets[0], late, early, sets[1]]
    with pytest.raises(ValueError, match=r"^datasets\[1\]: X has a spread of 1e\+300"):
        fit_many(given)
    models = fit_many(given, errors="skip")
    assert [model.index for model in models if isinstance(model, Failure)] == [1, 2]
    assert_same([models[0], models[3]], looped([sets[0], sets[1]], ROME()))


class Tripled(ROME):
    """Fits three times the samples."""

    def fit(self, X, y=None, sample_weight=None):
        return super().fit(3.0 * X, y, sample_weight)


def test_subclasses_with_a_fit_of_their_own(sets):
    assert_same(fit_many(sets, Tripled()), looped(sets, Tripled()))


def test_kind_of_errors(sets):
    with pytest.raises(TypeError, match=r"^datasets\[0\]: X is a masked array"):
        fit_many([np.ma.array(sets[0])])
    with pytest.raises(ValueError, match=r"^datasets\[0\]: k_max must not be below k_min"):
        fit_many(sets, ROME(k_min=9, k_max=8))


class Impatient(GaussianKDE):
    """Fits nothing, and counts the attempts."""

    attempts = 0

    def fit(self, X, y=None, sample_weight=None):
        type(self).attempts += 1
        raise KeyError("enough")


def test_other_errors(sets):
    with pytest.raises(RuntimeError, match=r"^datasets\[0\]: 'enough'"):
        fit_many(sets, Impatient())
    assert [each.error for each in fit_many(sets, Impatient(), errors="skip")] == ["KeyError"] * 5


@pytest.mark.parametrize(
    ("index", "bad"),
    [(3, np.zeros(4)), (0, np.zeros((0, 2))), (2, np.zeros((4, 0))), (4, [[1.0], [1.0, 2.0]])],
)
def test_shapes_are_refused_before_any_work(index, bad, sets):
    given = [*sets[:index], bad, *sets[index + 1 :]]
    before = Impatient.attempts
    with pytest.raises(ValueError, match=rf"^datasets\[{index}\]"):
        fit_many(given, Impatient())
    with pytest.raises(ValueError, match=rf"^datasets\[{index}\]"):
        score_many([ROME()] * 5, given)
    assert Impatient.attempts == before
    models = fit_many(given, errors="skip")
    assert [isinstance(model, Failure) for model in models] == [i == index for i in range(5)]


def test_weights_are_refused_before_any_work(sets):
    weights = [np.ones(len(X)) for X in sets]
    weights[3] = np.ones(7)
    before = Impatient.attempts
    with pytest.raises(ValueError, match=r"^datasets\[3\]: sample_weight must have shape \(31,\)"):
        fit_many(sets, Impatient(), sample_weight=weights)
    with pytest.raises(ValueError, match="for each of the 5 datasets, got 4"):
        fit_many(sets, Impatient(), sample_weight=weights[:4])
    assert Impatient.attempts == before


def test_wrong_arguments(sets, box):
    for shape in ((4, 2), (4,), (2, 2, 2, 2)):
        with pytest.raises(ValueError, match="datasets must be a list"):
            fit_many(np.zeros(shape))
    with pytest.raises(ValueError, match="datasets must be a list"):
        fit_many(pd.DataFrame(box[0]))
    with pytest.raises(ValueError, match="errors must be one of"):
        fit_many(sets, errors="ignore")
    with pytest.raises(ValueError, match="n_jobs must not be 0"):
        fit_many(sets, n_jobs=0)
    with pytest.raises(TypeError, match="does not seem to be a scikit-learn estimator"):
        fit_many(sets, "rome")


def test_wrong_models(sets):
    models = fit_many(sets[:3])
    with pytest.raises(ValueError, match="3 models, but 5 datasets"):
        score_many(models, sets)
    with pytest.raises(TypeError, match=r"models\[1\] has no densities, it is a str"):
        score_many([models[0], "rome", models[2]], sets[:3])
    with pytest.raises(ValueError, match=r"^datasets\[1\]: X has 3 features, but ROME"):
        score_many([models[0], models[0]], sets[:2])
    with pytest.raises(ValueError, match=r"^datasets\[0\]: This ROME instance is not fitted"):
        score_many([ROME()], sets[:1])
    assert score_many([ROME()], sets[:1], errors="skip")[0].error == NotFittedError.__name__


def test_failures_are_handed_on(sets):
    models = fit_many([sets[0], np.zeros((4, 2)), sets[2]], errors="skip")
    queries = [sets[0], sets[2], sets[2]]
    with pytest.raises(ValueError, match=r"^models\[1\] is a Failure\(index=1, error='ValueError'"):
        score_many(models, queries)
    scores = score_many(models, queries, errors="skip")
    assert scores[1] is models[1]
    assert_array_equal(scores[2], models[2].score_samples(sets[2]))

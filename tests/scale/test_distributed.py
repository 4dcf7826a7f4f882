"""DistributedROME, compared with ROME on the same samples."""

import os
import pickle
import random
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from dask.distributed import Client, LocalCluster
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from sevenhills import ROME, DistributedROME, KernelMixture, datasets
from sevenhills.density.engines import FEW_PAIRS

from ..oracles import assigned_labels, smallest_hashes
from ..strategies import awkward, partition_sizes

#: Seconds after which something hangs.
PATIENCE = 240


@pytest.fixture(autouse=True)
def _one_after_another():
    """Do tasks here and now; Python's generator, which threads of dask use, is put back."""
    before = random.getstate()
    with dask.config.set(scheduler="synchronous"):
        yield
    random.setstate(before)


@pytest.fixture(scope="module")
def hills():
    return datasets.load("aniso").sample(1200, random_state=0)


@pytest.fixture(scope="module")
def queries():
    found = datasets.load("aniso").sample(150, random_state=1)
    found[:3] *= 30  # far out in the tails
    return found


def in_parts(X, sizes):
    return da.from_array(X, chunks=(tuple(sizes), (X.shape[1],)))


def assert_close(values, expected, tol=1e-9):
    assert_array_equal(np.isfinite(values), np.isfinite(expected))
    assert_allclose(values, expected, rtol=tol, atol=tol)


# Fits


def with_number(X):
    """Return a recipe that says how narrow clusters may be, well above rounding."""
    spread = float(np.ptp(X / 8, axis=0).max())
    return ROME(min_std=spread / 1000 if spread else 0.1, decorrelate=len(X) % 5 > 0)


def slow_twin(X, recipe, sample_size, seed=0):
    """ROME with the labels that rows are to be given."""
    hashing = int(np.random.RandomState(seed).randint(2**63, dtype=np.uint64))
    sample, counts = smallest_hashes(X, sample_size, hashing)
    rome = clone(recipe).fit(sample, sample_weight=counts)
    labels = assigned_labels(X, rome, sample)
    return clone(recipe).fit(X, labels=labels), labels


@given(X=awkward(min_samples=6, max_samples=80, max_features=4), data=st.data())
def test_any_partitions_give_the_slow_answer(X, data):
    recipe = data.draw(st.sampled_from([ROME(), with_number(X)]))
    sample_size = data.draw(st.integers(5, 100))
    Q = np.concatenate([X[::3], X[:5] + 0.3 * np.ptp(X, axis=0), X.mean(axis=0, keepdims=True)])
    try:
        twin, labels = slow_twin(X, recipe, sample_size)
    except ValueError:
        with pytest.raises(ValueError, match=r"min_std|spread|finite"):
            DistributedROME(estimator=recipe, sample_size=sample_size).fit(X)
        return
    shuffled = np.random.RandomState(0).permutation(len(X))
    model = DistributedROME(estimator=recipe, sample_size=sample_size)
    model.fit(in_parts(X[shuffled], data.draw(partition_sizes(len(X)))))
    assert_array_equal(model.predict(X), labels)
    found = model.score_samples(in_parts(Q, data.draw(partition_sizes(len(Q)))))
    assert_close(found.compute(), twin.score_samples(Q))


@settings(max_examples=15)
@given(X=awkward(min_samples=6, max_samples=80, max_features=4), data=st.data())
def test_any_partitions_give_the_same_coreset(X, data):
    model = DistributedROME(estimator=with_number(X), sample_size=20, kernels=7)
    first = clone(model).fit(X)
    shuffled = np.random.RandomState(0).permutation(len(X))
    second = clone(model).fit(in_parts(X[shuffled], data.draw(partition_sizes(len(X)))))
    assert_array_equal(first.density_.means, second.density_.means)
    assert_close(second.score_samples(X), first.score_samples(X))
    assert_same_draws(first, second)


def assert_same_draws(first, second):
    draws = first.sample(20, 0).compute()
    spread = np.abs(draws - draws.mean(axis=0)).max()
    assert_allclose(second.sample(20, 0).compute(), draws, rtol=1e-12, atol=1e-9 * spread)


@settings(max_examples=15)
@given(X=awkward(min_samples=6, max_samples=80, max_features=4), data=st.data())
def test_draws_from_all_rows_do_not_depend_on_partitions(X, data):
    model = DistributedROME(estimator=with_number(X), sample_size=20)
    second = clone(model).fit(in_parts(X, data.draw(partition_sizes(len(X)))))
    assert_same_draws(model.fit(X), second)


def test_all_rows_in_the_sample_make_it_the_fit_of_one_machine(hills, queries):
    rome = ROME().fit(hills)
    model = DistributedROME().fit(da.from_array(hills, chunks=(500, 1)))
    assert_array_equal(model.predict(hills), rome.labels_)
    assert_close(model.score_samples(queries), rome.score_samples(queries))
    assert model.score(queries) == pytest.approx(rome.score(queries), rel=1e-12)
    assert model.min_std_ == pytest.approx(rome.min_std_)
    assert model.n_samples_ == len(hills)
    assert model.n_features_in_ == 2
    for ours, theirs in zip(model.clusters_, rome.clusters_, strict=True):
        assert (ours.label, ours.n_members) == (theirs.label, theirs.n_members)
        assert ours.share == pytest.approx(theirs.share)
        assert ours.bandwidth == pytest.approx(theirs.bandwidth)
        assert_allclose(ours.mean, theirs.mean)
        assert_allclose(ours.stds, theirs.stds)


def test_large_coresets_are_all_rows_and_small_ones_are_near(hills, queries):
    twin = ROME().fit(hills)
    whole = DistributedROME(kernels=5000).fit(hills)
    assert_close(whole.score_samples(queries), twin.score_samples(queries))
    few = DistributedROME(kernels=100).fit(hills)
    assert few.density_.n_kernels == 300
    assert few.clusters_[0].bandwidth > twin.clusters_[0].bandwidth
    labels = few.density_.predict(few.density_.means)
    assert_allclose(
        [few.density_.weights[labels == c.label].sum() for c in few.clusters_],
        [c.share for c in few.clusters_],
        atol=0.01,
    )
    assert few.score(queries[3:]) == pytest.approx(twin.score(queries[3:]), abs=0.1)


def test_what_engines_sum_is_what_direct_sums_are():
    """Blocks of many kernels, some of them divided otherwise, are summed by an engine."""
    X = datasets.load("aniso").sample(12_000, random_state=0)
    Q = np.concatenate([X, [[300.0, 0.0], [0.0, -30.0]]])
    assert len(Q) * len(X) > FEW_PAIRS
    model = DistributedROME(sample_size=2000).fit(in_parts(X, [7000, 5000]))
    found = model.score_samples(in_parts(Q, [6002, 6000])).compute()
    again = DistributedROME(sample_size=2000).fit(in_parts(X[::-1], [12_000]))
    assert_close(again.score_samples(Q), found)
    direct = np.concatenate(
        [model.density_.compute().logpdf(some) for some in np.array_split(Q, 6)]
    )
    assert_close(found, direct)


def test_blocks_of_any_size_add_up(hills, queries, monkeypatch):
    whole = DistributedROME().fit(hills).score_samples(queries)
    monkeypatch.setattr("sevenhills.scale.distributed_mixture._BLOCK_SIZE", 100)
    model = DistributedROME().fit(in_parts(hills, [0, 30, 20, 0, 800, *[25] * 14, 0]))
    assert len(model.density_._blocks) == 9
    assert_close(model.score_samples(queries), whole)
    assert_close(model.density_.compute().logpdf(queries), whole)
    assert_close(model.persist().score_samples(queries), whole)


def test_draws_follow_the_density(hills):
    model = DistributedROME(sample_size=500).fit(in_parts(hills, [500, 0, 700]))
    draws = model.sample(150_000, random_state=3)
    assert draws.chunks == ((2**17, 150_000 - 2**17), (2,))
    draws = draws.compute()
    density = model.density_.compute()
    errors = np.sqrt(np.diag(density.cov()) / len(draws))
    assert (np.abs(draws.mean(axis=0) - density.mean()) < 4 * errors).all()
    assert_allclose(np.cov(draws.T), density.cov(), rtol=0.03)
    # The first ones are as good as any, not those of the first partition.
    assert (np.abs(draws[:5000].mean(axis=0) - density.mean()) < 4 * errors * np.sqrt(30)).all()
    assert_array_equal(model.sample(10, random_state=3).compute().shape, (10, 2))
    assert model.sample(0).compute().shape == (0, 2)
    assert not np.array_equal(model.sample(3).compute(), model.sample(3).compute())


# Input and results


def test_answers_are_lazy_and_shaped_as_the_question(hills, queries):
    frame = pd.DataFrame(hills, columns=["x", "y"], index=np.arange(len(hills)) * 2)
    model = DistributedROME(sample_size=300).fit(dd.from_pandas(frame, npartitions=3))
    assert_array_equal(model.feature_names_in_, ["x", "y"])
    expected = DistributedROME(sample_size=300).fit(hills).score_samples(queries)

    asked = dd.from_pandas(pd.DataFrame(queries, columns=["x", "y"]), npartitions=4)
    found = model.score_samples(asked)
    assert found.divisions == asked.divisions
    assert found.name == "log_density"
    assert_close(found.compute().to_numpy(), expected)
    assert_array_equal(found.compute().index, np.arange(len(queries)))
    labels = model.predict(asked)
    assert labels.dtype == np.int64
    assert_array_equal(labels.compute().to_numpy(), model.predict(queries))

    array = da.from_array(queries, chunks=(40, 1))
    assert model.score_samples(array).chunks == ((40, 40, 40, 30),)
    gaps = (0, 50, 0, 99, 1, 0)
    assert model.score_samples(in_parts(queries, gaps)).chunks == (gaps,)
    unknown = array[da.from_array(queries[:, 0] > -1e9, chunks=40)]
    assert np.isnan(unknown.chunks[0]).all()
    assert_close(model.score_samples(unknown).compute(), expected)
    assert_close(
        DistributedROME(sample_size=300).fit(unknown).score(array), model.fit(queries).score(array)
    )
    for at_hand in (queries, queries.tolist()):
        assert type(model.score_samples(at_hand)) is np.ndarray


def test_parquet_files_in_a_folder_or_by_pattern(hills, queries, tmp_path):
    parts = np.split(hills, [500, 900])
    for i, part in enumerate(parts):
        pd.DataFrame(part, columns=["x", "y"]).to_parquet(tmp_path / f"{i}.parquet")
    expected = DistributedROME(sample_size=300).fit(hills).score_samples(hills)
    for path in (tmp_path, str(tmp_path / "*.parquet")):
        model = DistributedROME(sample_size=300).fit(path)
        assert_close(model.score_samples(path).compute().to_numpy(), expected)
    one = DistributedROME(sample_size=300).fit(tmp_path / "1.parquet")
    assert one.n_samples_ == 400
    pd.DataFrame(parts[0], columns=["x", "z"]).to_parquet(tmp_path / "3.parquet")
    with pytest.raises(ValueError, match=r"3.parquet has the columns \['x', 'z'\]"):
        DistributedROME().fit(tmp_path)
    with pytest.raises(FileNotFoundError, match="no parquet files"):
        DistributedROME().fit(tmp_path / "nothing*.parquet")


def frame_of(*parts, meta=None):
    meta = pd.DataFrame({"x": [0.0], "y": [0.0]}) if meta is None else meta
    return dd.from_delayed([dask.delayed(part) for part in parts], meta=meta, verify_meta=False)


GOOD = pd.DataFrame({"x": np.arange(20.0), "y": np.arange(20.0) ** 2})
HOLE = np.arange(40.0).reshape(20, 2)
HOLE[13, 1] = np.nan
REFUSED = {
    "nan": (lambda: in_parts(HOLE, [8, 0, 12]), "partition 2 of X holds NaN or inf.* its row 5"),
    "inf": (
        lambda: in_parts(np.full((4, 2), np.inf), [4]),
        "partition 0 of X holds NaN or inf.* its row 0",
    ),
    "numpy nan": (lambda: HOLE, "partition 0 of X holds NaN or infinity, first in its row 13"),
    "columns": (
        lambda: frame_of(GOOD, GOOD[["y", "x"]]),
        r"partition 1 of X has the columns \['y', 'x'\], but X has \['x', 'y'\]",
    ),
    "fewer columns": (lambda: frame_of(GOOD, GOOD[["x"]]), "partition 1 of X has the columns"),
    "words": (lambda: frame_of(GOOD, GOOD.astype({"y": str})), "partition 1 of X must hold numb"),
    "null": (
        lambda: frame_of(GOOD, GOOD.astype({"y": "Int64"}).mask(GOOD.x == 4)),
        "partition 1 of X holds NaN or infinity, first in its row 4",
    ),
    "other features": (
        lambda: da.concatenate(
            [in_parts(HOLE[:9], [9]), da.from_delayed(dask.delayed(np.eye(3)), (3, 2), float)]
        ),
        r"partition 1 of X has shape \(3, 3\), but X has 2 features",
    ),
    "objects in a part": (
        lambda: da.from_delayed(dask.delayed(np.array([["a", "b"]])), (1, 2), float),
        "partition 0 of X must hold numbers, got dtype <U1",
    ),
    "masked": (
        lambda: da.from_delayed(dask.delayed(np.ma.masked_invalid(HOLE)), (20, 2), float),
        "partition 0 of X is a masked array",
    ),
    "all empty": (
        lambda: in_parts(HOLE, [20])[:0],
        "X has no rows: all of its partitions are empty",
    ),
    "one dimension": (lambda: da.arange(10.0), "two dimensions, got 1"),
    "no features": (lambda: da.zeros((5, 0)), "must have features"),
    "complex": (lambda: da.ones((5, 2), dtype=complex), "must hold numbers, got dtype complex"),
    "dates": (lambda: da.ones((5, 2)).astype("M8[s]"), "must hold numbers, got dtype datetime"),
    "a series": (lambda: frame_of(GOOD)["x"], "got a Series"),
    "no columns": (lambda: frame_of(GOOD)[[]], "without columns"),
    "words in the meta": (
        lambda: frame_of(GOOD.astype({"y": str}), meta=GOOD.astype({"y": str})),
        "X must hold numbers, got columns of other dtypes: {'y'",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_samples_are_refused_and_the_model_stays(case, hills):
    make, message = REFUSED[case]
    model = DistributedROME(sample_size=100).fit(hills[:200])
    before = dict(vars(model))
    with pytest.raises(ValueError, match=message):
        model.fit(make())
    assert vars(model) == before
    with pytest.raises(ValueError, match=message):
        model.score(make())


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"kernels": "some"}, ValueError, "kernels must be one of"),
        ({"kernels": 0}, ValueError, "kernels must be at least 1"),
        ({"kernels": 1.5}, TypeError, "kernels must be a whole number"),
        ({"sample_size": 1}, ValueError, "sample_size must be at least 2"),
        ({"estimator": "rome"}, TypeError, "estimator must be a ROME"),
        ({"estimator": ROME(density="knn")}, ValueError, "density='kde', got 'knn'"),
        ({"estimator": ROME(scale="auto")}, ValueError, "scale=None, got 'auto'"),
        ({"estimator": ROME(k_min=0)}, ValueError, "k_min"),
        ({"random_state": "x"}, TypeError, "random_state"),
    ],
)
def test_bad_parameters_are_refused(parameters, error, message, hills):
    with pytest.raises(error, match=message):
        DistributedROME(**parameters).fit(hills)


def test_other_features_are_refused(hills):
    model = DistributedROME(sample_size=100).fit(frame_of(GOOD))
    with pytest.raises(ValueError, match="X has 3 features, but the density has 2"):
        model.score_samples(np.ones((4, 3)))
    with pytest.raises(ValueError, match="in this order"):
        model.predict(frame_of(GOOD[["y", "x"]], meta=GOOD[["y", "x"]]))
    with pytest.raises(TypeError, match="dask array or DataFrame"):
        model.score_samples(dask.delayed(hills))
    model.fit(hills)
    assert not hasattr(model, "feature_names_in_")


def test_equal_rows_need_a_number():
    X = da.ones((10, 2), chunks=(3, 2))
    with pytest.raises(ValueError, match="no spread"):
        DistributedROME().fit(X)
    model = DistributedROME(estimator=ROME(min_std=0.1)).fit(X)
    assert_close(model.score(X), ROME(min_std=0.1).fit(np.ones((10, 2))).score(np.ones((10, 2))))


def test_scikit_learn_manners(hills, queries):
    model = DistributedROME(kernels=50, estimator=ROME(min_std=0.1))
    assert clone(model).get_params()["estimator__min_std"] == 0.1
    with pytest.raises(NotFittedError):
        model.score_samples(queries)
    for kernels in (50, "all"):
        model.set_params(kernels=kernels).fit(in_parts(hills, [600, 600]))
        again = pickle.loads(pickle.dumps(model))
        assert_array_equal(again.score_samples(queries), model.score_samples(queries))
        density = model.density_
        assert isinstance(density if kernels == 50 else density.compute(), KernelMixture)
        assert model.is_normalized
        assert f"n_kernels={density.n_kernels}" in repr(density)


def test_threads_give_the_same(hills, queries):
    X = in_parts(hills, [100] * 12)
    expected = DistributedROME(sample_size=400).fit(X).score_samples(queries)
    with dask.config.set(scheduler="threads", num_workers=4):
        found = DistributedROME(sample_size=400).fit(X).score_samples(in_parts(queries, [30] * 5))
        assert_close(found.compute(), expected)


# Worker processes


@pytest.fixture(scope="module")
def workers():
    """Two worker processes, started when first needed, which a busy machine may delay."""
    timeouts = {f"distributed.comm.timeouts.{each}": PATIENCE for each in ("connect", "tcp")}
    with (
        dask.config.set(timeouts),
        LocalCluster(
            n_workers=2, threads_per_worker=1, memory_limit="1GB", dashboard_address=":0"
        ) as cluster,
        Client(cluster, timeout=PATIENCE) as client,
    ):
        yield client


@pytest.fixture
def client(workers):
    """Workers that are all there."""
    workers.wait_for_workers(2, timeout=PATIENCE)
    with dask.config.set(scheduler="distributed"):
        yield workers


def wait_for(condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("nothing happens")
        time.sleep(0.01)


class Gate:
    """A partition at which the work stops until it may go on."""

    def __init__(self, folder):
        self.arrived, self.opened = folder / "arrived", folder / "opened"

    def hold(self):
        """Say which process it is that waits."""
        part = self.arrived.with_suffix(".part")
        part.write_text(str(os.getpid()))
        part.rename(self.arrived)
        wait_for(self.opened.exists)

    def kill_and_open(self, workers):
        """Kill the process that waits, which must be one of the workers."""
        pid = int(self.arrived.read_text())
        assert pid in workers
        os.kill(pid, signal.SIGKILL)
        self.opened.touch()


def read(rows, i, folder):
    """Return a partition, having left a trace; the fourth one has a gate."""
    if i == 3 and not (folder / "opened").exists():
        Gate(folder).hold()
    (folder / f"{i}-{time.monotonic_ns()}").touch()
    return rows


def with_gate(X, folder):
    parts = np.split(X, 6)
    blocks = [
        da.from_delayed(dask.delayed(read)(part, i, folder), part.shape, float)
        for i, part in enumerate(parts)
    ]
    return da.concatenate(blocks)


def disturbed(client, folder, work):
    """Return the answer of work during which a worker is killed, others having read something."""
    gate, workers = Gate(folder), set(client.run(os.getpid).values())
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(work)
        wait_for(lambda: answer.done() or gate.arrived.exists())
        if not answer.done():
            wait_for(lambda: len(list(folder.glob("*-*"))) >= 3)
            gate.kill_and_open(workers)
        return answer.result(timeout=PATIENCE)


@pytest.mark.slow
def test_a_worker_killed_in_the_middle_of_a_fit_changes_nothing(client, hills, queries, tmp_path):
    recipe = DistributedROME(sample_size=400)
    before = set(client.run(os.getpid).values())
    model = disturbed(client, tmp_path, lambda: clone(recipe).fit(with_gate(hills, tmp_path)))
    client.wait_for_workers(2, timeout=PATIENCE)
    assert set(client.run(os.getpid).values()) != before
    with dask.config.set(scheduler="synchronous"):
        expected = clone(recipe).fit(hills).score_samples(queries)
    assert_close(model.score_samples(queries), expected)


@pytest.mark.slow
def test_a_worker_killed_in_the_middle_of_a_scoring_changes_nothing(client, hills, tmp_path):
    model = DistributedROME(sample_size=400).fit(in_parts(hills, [400] * 3))
    asked = with_gate(hills, tmp_path)
    found = disturbed(client, tmp_path, lambda: model.score_samples(asked).compute())
    with dask.config.set(scheduler="synchronous"):
        expected = DistributedROME(sample_size=400).fit(hills).score_samples(hills)
    assert_close(found, expected)


def test_errors_reach_the_user_through_workers(client):
    with pytest.raises(
        ValueError, match="partition 2 of X holds NaN or infinity, first in its row 5"
    ):
        DistributedROME().fit(in_parts(HOLE, [8, 0, 12]))


def draw_rows(i):
    rng = np.random.RandomState(i)
    return rng.standard_normal((50_000, 2)) + 9.0 * rng.randint(2, size=(50_000, 1))


def test_rows_stay_where_they_are(client, memory_limit):
    """What is here at a time is far less than the 4.8 MB of all rows."""
    parts = [da.from_delayed(dask.delayed(draw_rows)(i), (50_000, 2), float) for i in range(6)]
    X = da.concatenate(parts)
    model = DistributedROME(sample_size=600, kernels=200)
    model.fit(X[:50_000])
    with memory_limit(2):
        score = model.fit(X).score(X)
    assert score == pytest.approx(-2 * 1.4189 - np.log(2), abs=0.1)

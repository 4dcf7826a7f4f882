import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sevenhills import ROME
from sevenhills.forecast import PrecisionWarning, evaluate, inputs

from .scenes import assert_same, long_frame, refuses, walks


class Tensor:
    """The interface of a tensor with gradients on another device."""

    def __init__(self, values, is_here=False):
        self.values, self.is_here = values, is_here

    def detach(self):
        return self

    def cpu(self):
        return Tensor(self.values, True)

    def __array__(self, dtype=None, copy=None):
        assert self.is_here
        return self.values


class ShortTensor(Tensor):
    """A tensor of a type that numpy lacks."""

    dtype = "torch.bfloat16"

    def detach(self):
        return self

    def cpu(self):
        return ShortTensor(self.values, True)

    def float(self):
        return Tensor(self.values.astype(np.float32), self.is_here)

    def __array__(self, dtype=None, copy=None):
        raise TypeError("Got unsupported ScalarType BFloat16")


def as_bfloat16(values):
    """Values as a tensor of 16 bits, eight of which are for the exponent."""
    bits = values.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)
    return ShortTensor(bits.view(np.float32))


def test_bfloat16_is_converted():
    """At samples, queries, weights and labels, and in forecasts."""
    rng = np.random.RandomState(0)
    X = as_bfloat16(rng.standard_normal((40, 2)))
    weights = as_bfloat16(rng.randint(1, 4, 40).astype(float))
    model = ROME().fit(X, sample_weight=weights)
    plain = ROME().fit(X.values.astype(float), sample_weight=weights.values)
    assert_array_equal(model.score_samples(X), plain.score_samples(X.values))
    assert_array_equal(model.density_.logpdf(X), plain.density_.logpdf(X.values))
    labels = as_bfloat16((rng.uniform(size=40) < 0.5).astype(float))
    assert_array_equal(ROME().fit(X, labels=labels).labels_, labels.values)
    paths = as_bfloat16(rng.standard_normal((6, 12, 3, 2)))
    truth = as_bfloat16(rng.standard_normal((6, 3, 2)))
    with pytest.warns(PrecisionWarning):  # eight bits are few
        found = evaluate(paths, truth, measures="ade")
    assert found["ade"].mean == evaluate(paths.values, truth.values, measures="ade")["ade"].mean


def test_sources_do_not_matter(scenes, evaluation, tmp_path):
    predictions, truth = scenes
    for name, values in (("predictions", predictions), ("truth", truth)):
        np.save(tmp_path / f"{name}.npy", values)
    np.savez(tmp_path / "both.npz", predictions=predictions, truth=truth)
    mapped = np.load(tmp_path / "predictions.npy", mmap_mode="r")
    for pair in (
        (str(tmp_path / "predictions.npy"), tmp_path / "truth.npy"),
        (tmp_path / "both.npz", tmp_path / "both.npz"),
        (mapped, truth),
        (Tensor(predictions), Tensor(truth)),
        (predictions.tolist(), truth.tolist()),
        (np.asfortranarray(predictions), truth[::1]),
    ):
        assert_same(evaluate(*pair, n_replicates=100), evaluation)


def test_single_floats_are_taken(scenes):
    predictions, truth = (each.astype(np.float32) for each in scenes)
    found = evaluate(predictions, truth, measures="nll_step")
    exact = evaluate(predictions.astype(float), truth.astype(float), measures="nll_step")
    assert_same(found, exact)


def test_tables_do_not_matter(tmp_path, monkeypatch):
    """Scenes with names, the truth's in another order; files in several row groups."""
    monkeypatch.setattr(inputs, "_BLOCK_SIZE", 130)
    predictions, truth = walks(7, 6, 3)
    predictions[2, 3:, 2:] = np.nan
    predictions[4, 1] = np.nan
    truth[5, 1:] = np.nan
    measures = ("nll", "nll_step", "ece", "ade")
    expected = evaluate(predictions, truth, measures=measures)
    frame, true = long_frame(predictions, "sample"), long_frame(truth[:, None], "future")
    frame["scene"] = "scene " + frame["scene"].astype(str)
    true["scene"] = "scene " + true["scene"].astype(str)
    frame["sample"] += 100 * frame["scene"].str[-1].astype(int)
    shuffled = true.drop(columns="future").sample(frac=1, random_state=0)
    frame.to_parquet(tmp_path / "predictions.parquet", row_group_size=37)
    shuffled.to_parquet(tmp_path / "truth.parquet")
    for pair in (
        (frame.sample(frac=1, random_state=1).sort_values("scene"), shuffled),
        (pa.Table.from_pandas(frame), pa.Table.from_pandas(shuffled)),
        (pl.DataFrame(frame.to_dict("list")), pl.DataFrame(shuffled.to_dict("list"))),
        (tmp_path / "predictions.parquet", tmp_path / "truth.parquet"),
        (tmp_path / "predictions.parquet", shuffled),
    ):
        found = evaluate(*pair, measures=measures)
        assert_array_equal(found.names, [f"scene {s}" for s in range(7)])
        assert found.settings["truth"] == expected.settings["truth"]
        for name in ("nll_step", "ade"):
            assert_allclose(found.scenes[name], expected.scenes[name])
        # A table has no absent samples, so that ties may be broken differently.
        assert_allclose(found.scenes["nll"], expected.scenes["nll"])
        assert_allclose(found.levels, expected.levels)


def test_a_table_beside_an_array():
    """Scenes and steps of an array have no names: they are taken in the order of the table."""
    predictions, truth = walks(4, 5, 3)
    frame, true = long_frame(predictions, "sample"), long_frame(truth[:, None], "future")
    true = true.drop(columns="future")
    expected = evaluate(predictions, truth, measures="ade").scenes["ade"]
    for pair in ((predictions, true), (frame, truth)):
        assert_array_equal(evaluate(*pair, measures="ade").scenes["ade"], expected)
    true["scene"] = "night " + true["scene"].astype(str)
    true["step"] += 5
    assert_array_equal(evaluate(predictions, true, measures="ade").scenes["ade"], expected)


def test_tables_with_agents_and_futures(tmp_path):
    predictions, truth = walks(4, 8, 2, n_agents=2)
    truths = np.stack([truth, truth + 0.1, truth - 0.2], axis=1)
    measures = ("nll_agent", "nll_agents", "ade")
    expected = evaluate(predictions, truths, agents=True, measures=measures)
    frame, true = long_frame(predictions, "sample"), long_frame(truths, "future")
    for each in (frame, true):
        each["agent"] += 10 * each["scene"]
    found = evaluate(frame, true, agents=True, measures=measures)
    for name, values in expected.scenes.items():
        assert_allclose(found.scenes[name], values)
    with pytest.raises(ValueError, match=r"scene 1 has the agents \[10, 11\].*\[10\] in truth"):
        evaluate(frame, true[true["agent"] != 11], agents=True)


def test_shapes_that_do_not_match():
    predictions, truth = walks(6, 12, 4)
    expected = r"expected predictions \(scenes, samples, steps, coordinates\) and truth \(scenes"
    refuses(r"\(6, 12, 4, 2\) do not match truth of shape \(5, 4, 2\)", predictions, truth[:5])
    refuses(expected, predictions.swapaxes(0, 1), truth)
    refuses(expected, predictions.swapaxes(1, 2), truth)
    refuses(expected, predictions, truth.transpose(2, 0, 1))
    refuses(expected, predictions, truth[:, :3])
    refuses(expected, predictions, truth[:, None, None])
    refuses("also for a single scene", predictions[0], truth[0])
    refuses("or sample", predictions[:, 0], truth)
    refuses("pass agents=True for", predictions[:, :, None], truth[:, None])
    refuses("leave agents=True out", predictions, truth, agents=True)
    long = walks(6, 12, 2, 12)
    refuses("look like .*coordinates, steps", *long, measures="ade")
    assert evaluate(*long, measures="ade", check_units=False)["ade"].n_scenes == 6


def test_tables_are_checked(tmp_path):
    predictions, truth = walks(4, 5, 3)
    frame, true = long_frame(predictions, "sample"), long_frame(truth[:, None], "future")
    refuses("missing sample", frame.drop(columns="sample"), true)
    refuses("missing x", frame.drop(columns=["x", "y"]), true)
    refuses("more than one row for scene 0, sample 0, step 0", pd.concat([frame, frame[:1]]), true)
    refuses(r"truth lacks 1 of the scenes: \[2\]", frame, true[true["scene"] != 2])
    refuses(r"predictions lack 1 of the scenes: \[2\]", frame[frame["scene"] != 2], true)
    refuses(r"predictions lack 1 of the steps: \[3\]", frame, true.assign(step=true["step"] + 1))
    refuses("column x must hold numbers", frame.assign(x="here"), true, error=TypeError)
    refuses("no rows", frame[:0], true)
    (tmp_path / "walks.txt").write_text("")
    refuses("npy, .npz or .parquet", tmp_path / "walks.txt", true)
    np.savez(tmp_path / "two.npz", one=predictions, two=truth)
    refuses("has no array 'predictions', only", tmp_path / "two.npz", truth)


def test_a_file_is_not_read_as_a_whole(tmp_path, memory_limit, monkeypatch):
    monkeypatch.setattr(inputs, "_BLOCK_SIZE", 50_000)
    shape = (1000, 50, 40, 2)
    values = np.lib.format.open_memmap(tmp_path / "walks.npy", "w+", np.float64, shape)
    values[:] = np.random.RandomState(0).standard_normal(shape)
    values.flush()
    truth = np.array(values[:, 0])
    measures = ("nll_step", "ade")
    evaluate(values[:20], truth[:20], measures=measures)
    del values
    with memory_limit(10):  # the file has 32 MB
        found = evaluate(tmp_path / "walks.npy", truth, measures=measures, n_replicates=10)
    assert found["ade"].n_scenes == 1000

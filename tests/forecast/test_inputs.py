import json

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
    lists = [[as_bfloat16(each) for each in values] for values in (paths.values, truth.values)]
    with pytest.warns(PrecisionWarning):
        assert_same(evaluate(*lists, measures="ade"), found)


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


def test_a_column_of_groups():
    predictions, truth = walks(6, 8, 2)
    groups = np.array(["a", "a", "b", "c", "b", "c"])
    frame, true = long_frame(predictions, "sample"), long_frame(truth[:, None], "future")
    expected = evaluate(predictions, truth, measures="ade", groups=groups)
    frame["group"], true["group"] = groups[frame["scene"]], groups[true["scene"]]
    shuffled = true.sample(frac=1, random_state=0)
    for pair in ((frame, truth), (frame.drop(columns="group"), shuffled), (predictions, true)):
        assert_same(evaluate(*pair, measures="ade"), expected)
    true.loc[true.index[-1], "group"] = "b"
    refuses("column group differs within scene 5: c and b", frame.drop(columns="group"), true)


class TestCsv:
    def test_is_the_same_as_parquet(self, tmp_path):
        predictions, truth = walks(7, 6, 3)
        truth[5, 1:] = truth[2, 1] = np.nan
        frame, true = long_frame(predictions, "sample"), long_frame(truth[:, None], "future")
        frame["scene"] = "scene " + frame["scene"].astype(str)
        true["scene"] = "scene " + true["scene"].astype(str)
        frame["weight"] = 1.0 + frame["sample"] % 2
        expected = evaluate(frame, true, measures=("nll", "ade"))
        for separator in (",", ";", "\t"):
            frame.to_csv(tmp_path / "p.csv", index=False, sep=separator)
            true.to_csv(tmp_path / "t.csv", index=False, sep=separator)
            found = evaluate(tmp_path / "p.csv", tmp_path / "t.csv", measures=("nll", "ade"))
            assert_same(found, expected)
            assert_array_equal(found.names, expected.names)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (
                "scene,step,x,y\n",
                "predictions must have the columns .*; missing sample, found scene",
            ),
            ("scene,sample,step,x,y\n0,0,0,1,2\n\n0,1,0,1\n", "p.csv .*line 4: Expected 5 columns"),
            ("scene,sample,step,x,y\n\n0,0,0,1,here\n", "p.csv .*line 3.*invalid value 'here'"),
            ("", "p.csv cannot be read: Empty"),
            ("scene,sample,step,x,y\n", "no rows"),
            ("scene,sample,step,x,y\n,0,0,1,2\n0,0,0,1,2\n", "column scene must not hold NaN"),
        ],
    )
    def test_errors_name_columns_and_lines(self, tmp_path, text, message):
        (tmp_path / "p.csv").write_text(text)
        refuses(message, tmp_path / "p.csv", walks(1, 2, 1)[1])

    def test_a_missing_cell_is_a_missing_point(self, tmp_path):
        predictions = walks(2, 4, 2)[0]
        frame = long_frame(predictions, "sample")
        frame.to_csv(tmp_path / "p.csv", index=False)
        (tmp_path / "t.csv").write_text("scene,step,x,y\n0,0,,\n0,1,1.5,2\n1,0,0,0\n1,1,1,1\n")
        found = evaluate(tmp_path / "p.csv", tmp_path / "t.csv", measures="ade", check_units=False)
        apart = np.linalg.norm(predictions[0, :, 1] - [1.5, 2], axis=-1)
        assert_allclose(found.scenes["ade"][0], apart.mean())


class TestLists:
    """Scenes of different sizes are padded."""

    def test_samples_agents_and_steps_differ(self):
        predictions, truth = walks(5, 12, 4, n_agents=3)
        weights = np.random.RandomState(0).uniform(0.5, 1, (5, 12))
        sizes = [(12, 1, 4), (12, 3, 2), (9, 2, 3), (10, 2, 4), (12, 3, 4)]
        padded, padded_truth = np.full_like(predictions, np.nan), np.full_like(truth, np.nan)
        lists, truths, shares = [], [], []
        for s, (k, a, t) in enumerate(sizes):
            lists.append(predictions[s, :k, :a, :t])
            truths.append(truth[s, :a, :t])
            shares.append(weights[s, :k])
            padded[s, :k, :a, :t], padded_truth[s, :a, :t] = lists[-1], truths[-1]
            weights[s, k:] = 0
        measures = ("nll_agent", "nll_agents", "ade", "ece")
        expected = evaluate(padded, padded_truth, weights=weights, agents=True, measures=measures)
        as_lists = [[[list(path) for path in each] for each in scene] for scene in lists]
        objects = np.empty(5, dtype=object)
        objects[:] = lists
        for given in (lists, tuple(lists), as_lists, objects, [Tensor(each) for each in lists]):
            found = evaluate(given, truths, weights=shares, agents=True, measures=measures)
            assert_same(found, expected)

    def test_agents_of_different_lengths(self):
        """A scene is a list of agents, or of samples, which end at different steps."""
        predictions, truth = walks(3, 6, 4, n_agents=2)
        padded = truth.copy()
        padded[:, 1, 2:] = np.nan
        ragged = [[scene[0], scene[1][:2]] for scene in truth]
        measures = ("nll_agent", "ade")
        expected = evaluate(predictions, padded, agents=True, measures=measures)
        assert_same(evaluate(predictions, ragged, agents=True, measures=measures), expected)

    def test_the_longest_truth_may_be_shorter_than_predictions(self):
        predictions, truth = walks(3, 6, 4)
        padded = truth.copy()
        padded[0, 2:] = padded[1:, 3:] = np.nan
        ragged = [truth[0, :2], truth[1, :3], truth[2, :3]]
        expected = evaluate(predictions, padded, measures="nll")
        assert_same(evaluate(predictions, ragged, measures="nll"), expected)
        assert_same(evaluate(list(predictions), ragged, measures="nll"), expected)

    def test_axes_and_coordinates_must_agree(self):
        predictions, truth = walks(2, 6, 4)
        refuses("same axes and coordinates", [predictions[0], predictions[1, 0]], truth)
        refuses("same axes and coordinates", [predictions[0], predictions[1, ..., :1]], truth)
        refuses("must hold numbers", [[["a"]], [["b"], ["c"]]], truth, error=TypeError)
        refuses("weights must have shape", predictions, truth, weights=[[1.0], [1.0, 2.0]])


TRAJNET = """\
{"scene": {"id": 0, "p": 7, "s": 0, "e": 50, "fps": 2.5, "tag": [3, [1]]}}
{"scene": {"id": 1, "p": 7, "s": 20, "e": 70, "fps": 2.5, "tag": 2}}
"""


def trajnet(rows):
    return TRAJNET + "".join(json.dumps({"track": row}) + "\n" for row in rows)


def test_trajnet(tmp_path):
    """Scenes of one pedestrian that overlap; frames before the forecast are left out."""
    predictions = walks(2, 5, 3)[0]
    walk = walks(1, 1, 8)[1][0]
    truth = np.stack([walk[3:6], walk[5:8]])
    rows = []
    for s, k, t in np.ndindex(2, 5, 3):
        x, y = predictions[s, k, t]
        place = {"f": 30 + 20 * s + 10 * t, "p": 7, "x": x, "y": y}
        rows.append(place | {"prediction_number": k, "scene_id": s})
        rows.append(place | {"p": 9})  # a neighbor
    true = [{"f": 10 * t, "p": 7, "x": x, "y": y} for t, (x, y) in enumerate(walk)]
    true[4] |= {"prediction_number": None, "scene_id": None}
    (tmp_path / "p.ndjson").write_text(trajnet(rows))
    (tmp_path / "t.ndjson").write_text(trajnet(true))
    found = evaluate(tmp_path / "p.ndjson", tmp_path / "t.ndjson", measures=("nll", "ade"))
    expected = evaluate(predictions, truth, measures=("nll", "ade"))
    assert_same(found, expected)
    (tmp_path / "t.ndjson").write_text(trajnet(true) + '{"track": {"f": 1, "p": 2}}\n')
    refuses("t.ndjson, line 11: expected .*'x'", tmp_path / "p.ndjson", tmp_path / "t.ndjson")
    (tmp_path / "p.ndjson").write_text(TRAJNET)
    refuses("no track of the pedestrian of a scene", tmp_path / "p.ndjson", truth)


def test_nuscenes(tmp_path):
    """Modes with probabilities; scenes are matched by their tokens."""
    predictions, truth = walks(4, 6, 3)
    weights = np.random.RandomState(0).dirichlet(np.ones(6), size=4)
    predictions[3, 4:], weights[3, 4:] = np.nan, 0.0
    entries = [
        {"instance": f"i{s}", "sample": "t0", "prediction": predictions[s].tolist()}
        | {"probabilities": weights[s].tolist()}
        for s in range(4)
    ]
    entries[3]["prediction"] = predictions[3, :4].tolist()
    entries[3]["probabilities"] = weights[3, :4].tolist()
    true = [
        {"instance": f"i{s}", "sample": "t0", "prediction": truth[s : s + 1].tolist()}
        for s in (2, 0, 3, 1)
    ]
    (tmp_path / "p.json").write_text(json.dumps(entries))
    (tmp_path / "t.json").write_text(json.dumps(true))
    frame = long_frame(truth[:, None], "future").drop(columns="future")
    frame["scene"] = "i" + frame["scene"].astype(str) + "_t0"
    measures = ("nll", "ade")
    expected = evaluate(predictions, truth, weights=weights, measures=measures)
    for given in (tmp_path / "t.json", truth, frame.sample(frac=1, random_state=0)):
        found = evaluate(tmp_path / "p.json", given, measures=measures)
        assert_same(found, expected)
        assert_array_equal(found.names, [f"i{s}_t0" for s in range(4)])
    (tmp_path / "t.json").write_text(json.dumps(true[1:]))
    refuses(r"truth lacks 1 of the scenes: \['i2_t0'\]", tmp_path / "p.json", tmp_path / "t.json")
    for bad, message in (
        (entries + entries[:1], "more than one entry for i0_t0"),
        ([*entries[:1], {"instance": "a"}], "entry 1 must have .*'prediction'"),
        ([entries[0] | {"probabilities": [1.0]}], "entry 0 must have .*shapes"),
        ({"results": {}}, "entry 0 must have"),
        ("{", "entry 0 must have"),
    ):
        (tmp_path / "p.json").write_text(json.dumps(bad))
        refuses(message, tmp_path / "p.json", truth)
    (tmp_path / "p.json").write_text("{")
    refuses("p.json cannot be read", tmp_path / "p.json", truth)


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
    refuses("must be a .npy, .npz, .csv", tmp_path / "walks.txt", true)
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

import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import t, trim_mean

from sevenhills.forecast import compare, evaluate, read_evaluation
from sevenhills.forecast.groups import GroupedMean, Grouping, bootstrap

from . import oracles
from .scenes import assert_same, long_frame, refuses, walks

MEASURES = ("nll_step", "ece", "ade")


def labels_of(n_scenes, n_groups, seed=0):
    """Labels of groups of unequal sizes, in no order."""
    rng = np.random.RandomState(seed)
    return rng.choice(n_groups, size=n_scenes, p=rng.dirichlet(np.ones(n_groups)))


def slow_error(values, labels):
    """The standard error CR2 of an intercept, by matrices."""
    n, mean = len(values), values.mean()
    total = 0.0
    for label in set(labels):
        inside = labels == label
        hat = np.full((inside.sum(), inside.sum()), 1.0 / n)
        eigenvalues, vectors = np.linalg.eigh(np.eye(inside.sum()) - hat)
        adjusted = vectors @ np.diag(eigenvalues**-0.5) @ vectors.T @ (values[inside] - mean)
        total += adjusted.sum() ** 2
    return np.sqrt(total) / n


def overlapping_windows(n_groups, rng):
    """Squared moving means of noise, five steps long, with as many windows as a group has."""
    labels = np.repeat(np.arange(n_groups), 1 + rng.poisson(8, size=n_groups))
    noise = rng.standard_normal((n_groups, 40)) + rng.standard_normal((n_groups, 1))
    place = np.arange(len(labels)) - np.searchsorted(labels, labels)
    return noise[labels[:, None], place[:, None] + np.arange(5)].mean(axis=1) ** 2, labels


@pytest.mark.parametrize("n_groups", [12, 40])
def test_intervals_hold_the_mean_as_often_as_they_say(n_groups):
    rng, held = np.random.RandomState(0), {"groups": 0, "scenes": 0}
    for _ in range(300):
        values, labels = overlapping_windows(n_groups, rng)
        for kind, each in (("groups", labels), ("scenes", None)):
            grouping = Grouping.of(each, len(values))
            mean = {"mean": GroupedMean(values, grouping)}
            found = bootstrap(mean, grouping.n_groups, 150, 0.9, rng)["mean"]
            held[kind] += found.low < 1.2 < found.high
    assert 0.85 < held["groups"] / 300 < 0.95
    assert held["scenes"] / 300 < 0.6


def slow_interval(values, labels, n_replicates, confidence, rng):
    """The studentized bootstrap of groups, which are put side by side in every replicate."""
    groups = [values[labels == label] for label in dict.fromkeys(labels)]

    def mean_and_error(groups):
        mean = np.concatenate(groups).mean()
        totals = [(group - mean).sum() for group in groups]
        return mean, np.sqrt(np.square(totals).sum()) / sum(map(len, groups))

    mean, deviations = mean_and_error(groups)[0], []
    for _ in range(n_replicates):
        drawn = [groups[i] for i in rng.randint(len(groups), size=len(groups))]
        other, error = mean_and_error(drawn)
        deviations.append((other - mean) / error)
    outside, sizes = (1 - confidence) / 2, np.array([len(group) for group in groups])
    effective = sizes.sum() ** 2 / (sizes**2).sum()
    wider = t.ppf(outside, effective - 1) / t.ppf(outside, len(groups) - 1)
    low, high = np.quantile(deviations, [outside, 1 - outside])
    error = slow_error(values, labels) * wider
    return mean - error * high, mean - error * low


def test_the_interval_is_that_of_resampled_groups():
    rng = np.random.RandomState(3)
    labels = np.array(list("abcdefghijkl"))[labels_of(60, 12)]
    values = rng.standard_gamma(1.0, size=60)
    grouping = Grouping.of(labels, 60)
    mean = {"mean": GroupedMean(values, grouping)}
    found = bootstrap(mean, grouping.n_groups, 80, 0.8, np.random.RandomState(0))["mean"]
    expected = slow_interval(values, labels, 80, 0.8, np.random.RandomState(0))
    assert_allclose([found.low, found.high], expected)


def test_the_error_is_clustered():
    predictions, truth = walks(40, 8, 2)
    labels = labels_of(40, 9)
    found = evaluate(predictions, truth, measures=MEASURES, groups=labels, n_replicates=50)
    values = found.scenes["ade"]
    assert_allclose(found["ade"].mean, values.mean())
    assert_allclose(found["ade"].standard_error, slow_error(values, labels))
    assert found["ade"].low < found["ade"].mean < found["ade"].high
    sizes = np.bincount(labels)
    assert found.settings["n_groups"] == np.count_nonzero(sizes)
    assert_allclose(found.settings["effective_groups"], 40**2 / (sizes**2).sum())
    assert f"; {np.count_nonzero(sizes)} groups, effectively" in repr(found)


def test_groups_of_one_scene_are_no_groups():
    predictions, truth = walks(30, 8, 2)
    alone = evaluate(predictions, truth, measures=MEASURES)
    grouped = evaluate(predictions, truth, measures=MEASURES, groups=np.arange(30)[::-1])
    assert_same(alone, grouped)
    assert_array_equal(alone.coverage.low, grouped.coverage.low)
    assert alone.groups is None


def test_order_and_names_change_nothing():
    predictions, truth = walks(30, 8, 2)
    labels = labels_of(30, 7)
    order = np.random.RandomState(1).permutation(30)
    first = evaluate(predictions, truth, measures=MEASURES, groups=labels)
    names = np.array(list("gfedcba"))[labels]
    assert_same(first, evaluate(predictions, truth, measures=MEASURES, groups=list(names)))
    moved = evaluate(predictions[order], truth[order], measures="ade", groups=labels[order])
    for name in ("mean", "standard_error", "median", "trimmed_mean", "largest_share"):
        assert_allclose(getattr(moved["ade"], name), getattr(first["ade"], name))


def test_means_of_groups():
    predictions, truth = walks(30, 8, 2)
    truth[3] = np.nan
    labels = labels_of(30, 7)
    found = evaluate(
        predictions, truth, measures=("ade", "ece"), groups=labels, average="group", levels=[0.5]
    )
    values, levels = found.scenes["ade"], found.levels
    inside = [labels == label for label in np.unique(labels)]
    by_group = np.array([np.nanmean(values[each]) for each in inside])
    row = found["ade"]
    assert_allclose(row.mean, by_group.mean())
    assert_allclose(row.standard_error, by_group.std(ddof=1) / np.sqrt(len(by_group)))
    assert_allclose(row.median, np.median(by_group))
    expected = np.mean([(levels[each & (levels[:, 0] >= 0)] <= 0.5).mean() for each in inside])
    assert_allclose(found.coverage.observed, expected)
    assert "means over groups" in " ".join(repr(found).split())
    other = evaluate(predictions, truth, measures=("ade", "ece"), groups=labels, levels=[0.5])
    with pytest.raises(ValueError, match="differ in average"):
        compare(found, other)


def test_few_groups():
    predictions, truth = walks(12, 8, 2)
    one = evaluate(predictions, truth, measures=MEASURES, groups=["all"] * 12)
    assert np.isfinite(one["ade"].mean)
    assert np.isnan([one["ade"].standard_error, one["ade"].low, one["ece"].low]).all()
    for n_groups in (2, 3, 5):
        labels = np.arange(12) % n_groups
        row = evaluate(predictions, truth, measures="ade", groups=labels)["ade"]
        assert np.isfinite([row.low, row.high]).all()
        assert row.low < row.mean < row.high


def test_limits_of_rare_misses_are_finite():
    predictions, truth = np.zeros((30, 1, 1, 2)), np.zeros((30, 1, 2))
    truth[0] = 9.0
    row = evaluate(predictions, truth, measures="miss_rate_k", check_units=False)["miss_rate_1"]
    assert row.low == 0 < row.mean == 1 / 30 < row.high < 1
    assert row.largest_share == 1
    truth[0] = 0.0
    row = evaluate(predictions, truth, measures="miss_rate_k", check_units=False)["miss_rate_1"]
    assert (row.low, row.mean, row.high, row.largest_share) == (0, 0, 0, 0)


def test_groups_are_stored(tmp_path):
    predictions, truth = walks(12, 8, 2)
    for labels in (np.arange(12) // 3, list("aabbccddeeff"), pd.Series([1, 2] * 6, dtype=object)):
        found = evaluate(predictions, truth, measures=MEASURES, groups=labels, n_replicates=9)
        found.to_parquet(tmp_path / "found.parquet")
        again = read_evaluation(tmp_path / "found.parquet")
        assert_same(again, found)
        assert_array_equal(again.groups, labels)
        compare(found, again, n_permutations=9, n_replicates=9)
        assert_array_equal(found.to_pandas("scenes")["group"], labels)


def test_bad_groups():
    predictions, truth = walks(4, 3, 2)
    refuses(
        r"groups must have one label for each of 4 scenes, got \(3,\)",
        predictions,
        truth,
        groups=[1, 2, 3],
    )
    refuses("groups must not be NaN", predictions, truth, groups=[1, 2, 3, np.nan])
    mixed = [1, "a", None, 2.0]
    refuses("groups must be strings or numbers", predictions, truth, groups=mixed, error=TypeError)
    refuses("needs groups", predictions, truth, average="group")
    refuses("average must be", predictions, truth, average="median")


def grouped_pair(seed, labels):
    """Two forecasters whose errors are independent between groups and equal within them."""
    rng = np.random.RandomState(seed)
    truth = np.zeros((len(labels), 1, 1))
    options = {"measures": "ade", "groups": labels, "n_replicates": 0, "check_units": False}
    errors = 1 + rng.uniform(size=(2, labels.max() + 1, 1, 1, 1))
    return [evaluate(each[labels], truth, **options) for each in errors]


def test_the_level_of_permutations_of_groups():
    labels = np.repeat(np.arange(12), np.arange(1, 13))
    p_values = [
        compare(*grouped_pair(seed, labels), n_permutations=99, n_replicates=2)["ade"].p_value
        for seed in range(200)
    ]
    found = np.mean(np.array(p_values) <= 0.1)
    assert 0.05 < found < 0.16


def test_compare_refuses_other_groups():
    predictions, truth = walks(12, 8, 2)
    first, second, third = (
        evaluate(predictions, truth, measures="ade", groups=groups, n_replicates=0)
        for groups in (np.arange(12) // 3, np.arange(12) % 4, None)
    )
    with pytest.raises(ValueError, match="different groups"):
        compare(first, second)
    with pytest.raises(ValueError, match=r"n_groups \(4 and 12\)"):
        compare(first, third)


def test_the_error_of_a_difference_is_clustered():
    predictions, truth = walks(40, 8, 2)
    labels = labels_of(40, 9)
    first, second = (
        evaluate(each, truth, measures=MEASURES, groups=labels, n_replicates=0)
        for each in (predictions, 1.2 * predictions)
    )
    found = compare(first, second, n_permutations=9)["ade"]
    apart = first.scenes["ade"] - second.scenes["ade"]
    assert_allclose(found.difference, apart.mean())
    assert_allclose(found.standard_error, slow_error(apart, labels))


def test_a_breakdown_is_that_of_parts():
    predictions, truth = walks(40, 8, 2)
    labels, parts = labels_of(40, 9), np.array(["b", "a"])[np.arange(40) % 3 // 2]
    whole = evaluate(predictions, truth, measures=MEASURES, groups=labels, n_replicates=0)
    found = whole.by(parts)
    assert [row.label for row in found.summary] == ["a"] * 3 + ["b"] * 3
    for label in "ab":
        inside = parts == label
        values = whole.scenes["ade"][inside]
        row = found[label, "ade"]
        assert_allclose(row.mean, values.mean())
        assert_allclose(row.standard_error, slow_error(values, labels[inside]))
        assert (row.n_scenes, row.n_groups) == (inside.sum(), len(set(labels[inside])))
        expected = oracles.calibration_error(whole.levels[inside].ravel())
        assert_allclose(found[label, "ece"].mean, expected)
    assert list(found.to_pandas().columns)[:3] == ["label", "measure", "mean"]
    assert "40 scenes in 2 parts" in repr(found)
    assert repr(pickle.loads(pickle.dumps(found))) == repr(found)
    assert [row.measure for row in whole.by(parts, "ade").summary] == ["ade", "ade"]
    assert [row.label for row in whole.by(measures="ade").summary] == sorted(set(labels))
    with pytest.raises(KeyError, match="no measure 'fde'"):
        whole.by(parts, ["fde"])
    with pytest.raises(KeyError, match="no part and measure"):
        found["c", "ade"]
    with pytest.raises(ValueError, match="labels must be given"):
        evaluate(predictions, truth, measures="ade").by()


def test_robust_figures_of_scenes(evaluation):
    for row in evaluation.summary:
        if row.measure == "ece":
            assert np.isnan([row.median, row.trimmed_mean, row.largest_share]).all()
            continue
        values = evaluation.scenes[row.measure]
        kept = values[~np.isnan(values)]
        apart = np.abs(kept - np.median(kept))
        assert_allclose(row.median, np.median(kept))
        assert_allclose(row.trimmed_mean, trim_mean(kept, 0.1))
        assert_allclose(row.largest_share, apart.max() / max(apart.sum(), 1e-300))


def test_the_largest_share_shows_the_scene_that_makes_the_mean():
    truth = np.random.RandomState(0).standard_normal((100, 1, 2))
    nowhere = np.zeros((100, 1, 1, 2))
    usual = evaluate(nowhere, truth, measures="ade", check_units=False)["ade"]
    truth[7] *= 1e4
    found = evaluate(nowhere, truth, measures="ade", check_units=False)["ade"]
    assert usual.largest_share < 0.1
    assert found.largest_share > 0.9
    assert_allclose([found.median, found.trimmed_mean], [usual.median, usual.trimmed_mean], 0.1)


def test_tables_and_archives_may_have_groups(tmp_path):
    predictions, truth = walks(6, 4, 2)
    labels = np.array(["b", "a", "b", "c", "a", "a"])
    frame = long_frame(predictions, "sample").sample(frac=1, random_state=0)
    truths = long_frame(truth[:, None], "future").drop(columns="future")
    grouped = truths.assign(group=labels[truths["scene"]])
    np.savez(tmp_path / "both.npz", predictions=predictions, truth=truth, groups=labels)
    for given in (
        (frame.assign(group=labels[frame["scene"]]), truths),
        (frame, grouped),
        (tmp_path / "both.npz", tmp_path / "both.npz"),
        (predictions, grouped),
    ):
        found = evaluate(*given, measures="ade", n_replicates=0)
        names = np.asarray(found.names, dtype=int)
        assert_array_equal(found.groups, labels[names])
        assert_allclose(found["ade"].standard_error, slow_error(found.scenes["ade"], found.groups))
    grouped.loc[grouped.index[0], "group"] = "z"
    refuses("group differs within scene 0", frame, grouped, measures="ade")

"""Checks of a model file beyond its checksum: types, sizes, and parts against each other."""

import os

import numpy as np
import pandas as pd
import pytest

from sevenhills import (
    ROME,
    AutoROME,
    GaussianKDE,
    GaussianMixtureBIC,
    KernelDensityCV,
    ManifoldParzen,
    VineDensity,
    compat,
    load,
    save,
)
from sevenhills.storage import ModelFileError

from .forging import FEW, assert_identical, place_in, put_together, taken_apart


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.npz"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Model files to forge."""
    folder = tmp_path_factory.mktemp("files")
    labels = np.arange(len(FEW)) % 3 - 1
    rome = ROME(n_eps=3, n_xi=3).fit(FEW)
    models = {
        "rome": rome,
        "knn": ROME(density="knn", min_std=0.1).fit(FEW, labels=labels),
        "auto": AutoROME().fit(FEW),
        "kde": KernelDensityCV(bandwidths=[0.3, 0.5]).fit(FEW),
        "bic": GaussianMixtureBIC(max_components=2).fit(pd.DataFrame(FEW, columns=["a", "b"])),
        "vine": VineDensity().fit(FEW),
        "support": ROME(support={0: (-99, None), 1: ("circular", 99.0)}).fit(FEW),
        "compat": compat.ROME().fit(FEW),
        "density": rome.density_,
    }
    for name, model in models.items():
        save(model, folder / name)
    return folder


def test_forging_alone_changes_nothing(files, path):
    for name in os.listdir(files):
        put_together(path, *taken_apart(files / name))
        assert_identical(load(path), load(files / name))


def with_element(index, value):
    def edit(array):
        array[index] = value
        return array

    return edit


#: File, name of the value, the value or a function of the array, and the error.
FORGERIES = [
    ("rome", "min_std_", "small", "min_std_: must be float, got str"),
    ("rome", "min_std_", None, "min_std_: must be float, got None"),
    ("rome", "stranger_", 1, "stranger_: not part of a ROME"),
    ("rome", "n_features_in_", 3, "features, but n_features_in_ is 3"),
    ("rome", "n_features_in_", True, "n_features_in_: must be int, got bool"),
    ("rome", "n_features_in_", 2.0, "n_features_in_: must be int, got float"),
    ("rome", "density_.weights", with_element(0, -0.1), "density_: weights"),
    ("rome", "density_.weights", with_element(0, 0.3), "density_: weights"),
    ("rome", "density_.weights", with_element(0, np.nan), "density_.weights: .*finite"),
    ("rome", "density_.weights", lambda a: a[:-1], "density_: weights must have shape"),
    ("rome", "density_.weights", lambda a: a[:, None], "density_: weights must have shape"),
    ("rome", "density_.means", with_element((0, 0), np.inf), "density_: means must be finite"),
    ("rome", "density_.means", lambda a: a[:0], "density_: means must .*not be empty"),
    ("rome", "density_.means", lambda a: a[:, :1].copy(), "density_: transforms must have shape"),
    ("rome", "density_.transforms", with_element(0, 0.0), "density_: transforms must not be sing"),
    ("rome", "density_.transforms", lambda a: 2 * a, "density_: log_dets must be the log det"),
    ("rome", "density_.log_dets", lambda a: a + 1, "density_: log_dets must be the log det"),
    ("rome", "density_.log_weights", lambda a: a + 1, "density_: log_weights"),
    ("rome", "density_.log_weights", with_element(0, np.inf), "density_: log_weights"),
    ("rome", "density_.log_weights", lambda a: a[:-1], "density_: log_weights"),
    ("rome", "density_.clusters", with_element(0, -2), "density_: clusters must not be below"),
    ("rome", "density_.clusters", lambda a: a[:-1], "density_: clusters must be"),
    ("rome", "density_.counts", with_element(0, -1.0), "density_: counts"),
    ("rome", "density_.counts", with_element(0, np.inf), "density_: counts must be finite"),
    ("rome", "density_.feature_names", {"tuple": ["a"]}, "density_: feature_names"),
    ("rome", "density_.feature_names", {"tuple": ["a", "a"]}, "density_: feature_names"),
    ("rome", "density_.feature_names", {"tuple": [1, 2]}, "feature_names.0: must be str, got int"),
    ("rome", "density_.offsets", with_element(0, 1), "density_: offsets"),
    ("rome", "density_.offsets", with_element(0, 2**62), "density_: offsets"),
    ("rome", "density_.offsets", lambda a: a[:0], "density_: offsets"),
    ("rome", "labels_", lambda a: a - 5, "labels_: must be int64"),
    ("rome", "labels_", lambda a: a.astype(float), "labels_: must be int64"),
    ("rome", "labels_", lambda a: a[:-1], "_: 12 samples, but there are 11 labels"),
    ("rome", "labels_", lambda a: 0 * a, "clusters_: .* members, but"),
    ("rome", "clusters_", 3, "clusters_: must be tuple, got int"),
    ("rome", "clusters_.0", 3, "clusters_.0: must be Cluster, got int"),
    ("rome", "clusters_.0.n_members", 1, "clusters_: 1 members, but"),
    ("rome", "clusters_.0.label", "1", "clusters_.0.label: must be int, got str"),
    ("rome", "clusters_.0.bandwidth", -1.0, "clusters_.0: bandwidth must be positive"),
    ("rome", "clusters_.0.stds", with_element(0, -1.0), "clusters_.0: stds must hold values"),
    ("rome", "clusters_.0.mean", lambda a: a[:1], "clusters_.0: stds must be an array"),
    ("rome", "ordering_.order", with_element(0, 1), "ordering_: order must hold every index"),
    ("rome", "ordering_.predecessor", with_element(0, 99), "ordering_: predecessor must hold"),
    ("rome", "ordering_.reachability", lambda a: a + np.inf, "ordering_: reachability must be fin"),
    ("rome", "ordering_.reachability", with_element(0, np.nan), "ordering_.reachability: "),
    ("rome", "ordering_.core_distances", lambda a: a + np.inf, "ordering_: core_distances must"),
    ("rome", "ordering_.n_neighbors", 0, "ordering_: n_neighbors must be at least 1"),
    ("rome", "ordering_.n_neighbors", 1.5, "ordering_.n_neighbors: must be int, got float"),
    ("rome", "candidates_.chosen", 99, "candidates_: chosen must be one of"),
    ("rome", "candidates_.criterion", "best", "candidates_: criterion must be one of"),
    ("rome", "candidates_.partitions.runs", with_element((0, 1), 0), "partitions: runs must"),
    ("rome", "candidates_.partitions.runs", with_element((-1, 1), 11), "partitions: runs must"),
    ("rome", "candidates_.partitions.runs", with_element((0, 2), 99), "partitions: runs must"),
    ("rome", "candidates_.partitions.runs", lambda a: a[:0], "partitions: offsets must"),
    ("rome", "candidates_.partitions.offsets", with_element(1, 2**62), "partitions: offsets must"),
    ("rome", "candidates_.scores", with_element(0, np.inf), "candidates_: scores must hold"),
    ("rome", "candidates_.n_clusters", lambda a: 0 * a, "candidates_: n_clusters must not"),
    ("rome", "candidates_.rules", lambda a: a[:-1], "candidates_: rules must be an array"),
    ("knn", "density_.weights", lambda a: a * 2, "density_: weights must"),
    ("knn", "density_.weights", lambda a: -a, "density_: weights must"),
    ("knn", "density_.clusters.0.n_neighbors", 90.0, "density_.clusters.0: n_neighbors must"),
    ("knn", "density_.clusters.0.n_neighbors", 0.0, "density_.clusters.0: n_neighbors must"),
    ("knn", "density_.clusters.0.min_radius", -1.0, "density_.clusters.0: min_radius must"),
    ("knn", "density_.clusters.0.transform", lambda a: a * 0, "clusters.0: transforms must not"),
    ("knn", "density_.clusters.0.members", lambda a: a[:-1], "density_.clusters.0: weights must"),
    ("knn", "density_.clusters.0.weights", lambda a: 0 * a, "density_.clusters.0: weights must"),
    ("knn", "density_.noise.weights", lambda a: -a, "density_.noise: weights"),
    ("auto", "cells_.0.weights", lambda a: a[:0], "cells_.0: weights must be an array"),
    ("auto", "cells_.0.members", {"tuple": [3]}, "cells_.0.members.0: must be str, got int"),
    ("auto", "cells_.0.reason", 3, "cells_.0.reason: must be str, got int"),
    ("auto", "cells_.0.values", {"tuple": [3.0]}, "cells_: 1 values, but 0 categories_"),
    ("auto", "held_out_", 3, "held_out_: must be float, got int"),
    ("support", "support_.0.feature", 1, "support_: not the maps of the density"),
    ("support", "support_.0.feature", 5, "support_: not the maps of the density"),
    ("support", "support_.0.n_at_bounds", -1.0, "support_.0: n_at_bounds must not be negative"),
    ("support", "support_.1.map.period", -1.0, "support_.1.map: period must be positive"),
    ("kde", "scores_", lambda a: a[:1], "scores_: must be one for each bandwidth"),
    ("kde", "scores_", with_element(0, np.nan), "scores_: .*finite"),
    ("kde", "bandwidth_", 0.4, "bandwidth_: not one of bandwidths_"),
    ("bic", "n_components_", 3, "n_components_: must be the number of kernels"),
    ("bic", "feature_names_in_", {"names": ["a"]}, "feature_names_in_: 1 features"),
    ("bic", "feature_names_in_", {"names": ["a", "c"]}, "feature_names_in_: not those"),
    ("bic", "feature_names_in_", {"names": ["a", 2]}, "feature_names_in_: must be str, got int"),
    ("vine", "density_.vine", lambda a: a[:-1], "density_.vine: "),
    ("vine", "density_.vine", lambda a: a[:0], "density_.vine: "),
    ("vine", "density_.vine", lambda a: a | 0x80, "density_.vine: "),
    ("vine", "density_.center", lambda a: a[:1], "density_: vine must have 1 features, got 2"),
    ("vine", "density_.unit", 0.0, "density_: unit must be positive"),
    ("vine", "density_.features", lambda a: 0 * a, "density_: features must hold every index"),
    ("vine", "density_.background_weight", 1.0, "density_: .* background_weight from 0"),
    ("vine", "density_.background_weight", -0.1, "density_: .* background_weight from 0"),
    ("vine", "density_.background.weights", lambda a: 2 * a, "density_.background: weights"),
]


@pytest.mark.parametrize(("file", "name", "value", "match"), FORGERIES)
def test_forgeries(files, path, file, name, value, match):
    header, arrays = taken_apart(files / file)
    if callable(value):
        arrays[name] = value(arrays[name])
    else:
        node, key = place_in(header, name)
        node[key] = value
    put_together(path, header, arrays)
    with pytest.raises(ModelFileError, match=match):
        load(path)


@pytest.mark.parametrize(
    ("file", "field", "value", "match"),
    [
        ("rome", "estimator", "os.system", "model: must be one of"),
        ("rome", "estimator", "KernelDensity", "model: must be one of"),
        ("rome", "estimator", ["ROME"], "model: unknown content"),
        ("rome", "estimator", "GaussianKDE", "parameters.*: not part of a GaussianKDE"),
        ("rome", "fitted", {}, "model: this ROME is not fitted"),
        ("rome", "fitted", 3, "model: unknown content"),
        ("rome", "more", 3, "model: unknown content"),
        ("rome", "parameters", [], "model: unknown content"),
        ("rome", "parameters", {}, "parameters.*: missing"),
        ("density", "record", "Cluster", "model: must be one of"),
        ("density", "fields", {}, "missing"),
    ],
)
def test_forged_models(files, path, file, field, value, match):
    header, arrays = taken_apart(files / file)
    header["model"][field] = value
    put_together(path, header, arrays)
    with pytest.raises(ModelFileError, match=match):
        load(path)


@pytest.mark.parametrize(
    ("pairs", "match"),
    [
        ([[1]], "parameters.support: must be pairs of a name or an index"),
        ([[0.5, 1]], "parameters.support: must be pairs of a name or an index"),
        ([3], "parameters.support: must be list, got int"),
        ([[0, 1]], "parameters: the support of 0 must be"),
    ],
)
def test_forged_dicts(files, path, pairs, match):
    header, arrays = taken_apart(files / "support")
    header["model"]["parameters"]["support"] = {"dict": pairs}
    put_together(path, header, arrays)
    with pytest.raises(ModelFileError, match=match):
        load(path)


def test_records_must_be_those_that_the_class_declares(files, path):
    header, arrays = taken_apart(files / "rome")
    header["model"]["fitted"]["ordering_"]["record"] = "Candidates"
    put_together(path, header, arrays)
    with pytest.raises(ModelFileError, match="ordering_: must be one of"):
        load(path)


def test_unknown_parameters(files, path):
    for file in ("rome", "compat"):
        header, arrays = taken_apart(files / file)
        header["model"]["parameters"]["depth"] = 3
        put_together(path, header, arrays)
        with pytest.raises(ModelFileError, match=r"parameters\.depth: not part of a"):
            load(path)


def test_every_value_is_needed(files, path):
    for file in os.listdir(files):
        header, arrays = taken_apart(files / file)
        values = header["model"]["fields" if file == "density" else "fitted"]
        for name in sorted(set(values) - {"feature_names_in_"}):
            value = values.pop(name)
            put_together(path, header, arrays)
            with pytest.raises(ModelFileError, match=f"{name}: missing"):
                load(path)
            values[name] = value


def test_every_array_is_needed(files, path):
    for file in os.listdir(files):
        header, arrays = taken_apart(files / file)
        for name in list(arrays):
            put_together(path, header, {k: v for k, v in arrays.items() if k != name})
            with pytest.raises(ModelFileError, match=f"{name}: missing"):
                load(path)


#: Values of a wrong type or out of range for the parameters of every estimator.
WRONG = {
    ROME: {
        "min_std": ["wide", -1.0, True], "selection": ["dbvc", 1], "decorrelate": [1, "yes"],
        "support": ["all", 3, [1]],
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
    KernelDensityCV: {"bandwidths": ["all", [], [0.1, -1.0], 3], "n_splits": [1], "n_jobs": [0]},
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
    parameters = header["model"]["parameters"]
    for name, values in WRONG[estimator].items():
        for value in values:
            header["model"]["parameters"] = {**parameters, name: value}
            put_together(path, header, arrays)
            with pytest.raises(ModelFileError, match=f"^parameters.*: .*{name}"):
                load(path)
            with pytest.raises((TypeError, ValueError), match=name):
                estimator(**{name: value}).fit(FEW)

"""The command describe."""

import json

import numpy as np
from numpy.testing import assert_allclose

import sevenhills

from .runner import done


def test_describe(model):
    text = done("describe", model).stdout
    for part in ("ROME of 2 columns: x, y", "Chosen by", "3 modes", "cluster 2:"):
        assert part in text
    found = json.loads(done("describe", model, "--json").stdout)
    assert list(found) == [
        "model", "kind", "columns", "normalized", "resolution", "clusters", "choice", "modes",
        "correlations",
    ]  # fmt: skip
    assert [set(each) for each in found["clusters"]] == [{"label", "n_rows", "share", "mean"}] * 3
    assert set(found["choice"]["chosen"]) == {
        "rule", "parameter", "n_cuts", "n_clusters", "noise_share", "score", "error",
    }  # fmt: skip
    assert found["choice"]["chosen"]["score"] >= found["choice"]["next_best"][0]["score"]
    rome = sevenhills.load(model)
    for label, matrix in found["correlations"]["within_clusters"].items():
        truth = rome.clusters_[int(label)]
        assert_allclose(np.diag(matrix), 1.0)
        assert matrix[0][1] < -0.8
        assert_allclose(list(found["clusters"][int(label)]["mean"].values()), truth.mean)

"""Model files of the library and of the command line."""

import numpy as np

import sevenhills
from sevenhills import compat

from .runner import done, refused


def test_models_from_the_library(folder, tmp_path):
    X = np.loadtxt(folder / "first.csv", delimiter=",", skiprows=1)
    for name, value in {
        "compat": compat.ROME(min_std=0.1).fit(X),
        "knn": sevenhills.ROME(density="knn").fit(X),
        "mixture": sevenhills.ROME().fit(X).density_,
    }.items():
        sevenhills.save(value, tmp_path / name)
        assert "x0, x1" in done("describe", tmp_path / name).stdout
        done("score", tmp_path / name, folder / "second.csv", "--mean")
    assert "does not integrate to one" in done("describe", tmp_path / "knn").stdout
    assert "cannot" in refused("sample", tmp_path / "knn")
    options = ["--model", tmp_path / "knn", "--calibration", folder / "second.csv"]
    assert "unseen rows" in done("outliers", folder / "first.csv", *options).stderr
    assert "mixture of kernels" in refused(
        "score", tmp_path / "knn", "-", "--missing", "marginal", given="x,y\n1,\n1,2\n"
    )


def test_bad_paths_are_one_line(model, tmp_path):
    assert "nothing.csv: No such file" in refused("fit", "nothing.csv", "-o", tmp_path / "m")
    assert "is a folder" in refused("fit", tmp_path, "-o", tmp_path / "m")
    assert "is a model, but data" in refused("fit", model, "-o", tmp_path / "m")
    assert "is not a model; `sevenhills fit` makes one" in refused("describe", __file__)
    assert "No such file" in refused("sample", tmp_path / "gone")

"""Tables and a model for all commands."""

import numpy as np
import pytest

from .runner import ANISO, done, write_csv


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Two tables of one distribution, one of another, and a model of the first."""
    place = tmp_path_factory.mktemp("tables")
    for seed, name in enumerate(("first", "second")):
        write_csv(place / f"{name}.csv", ANISO.sample(150, random_state=seed))
    write_csv(place / "moved.csv", ANISO.sample(150, random_state=2) + np.array([3.0, 0.0]))
    options = ["--estimator", "rome", "--scale", "none"]
    done("fit", place / "first.csv", "-o", place / "model.sevenhills", *options)
    return place


@pytest.fixture
def model(folder):
    return folder / "model.sevenhills"

"""Models and samples as subjects of reports."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from sevenhills import (
    ROME,
    GaussianMixtureBIC,
    datasets,
)
from sevenhills.report import build_report
from sevenhills.report.subject import make_subject, thin

from .pages import aniso


def test_names_come_from_frames_models_and_arguments():
    X = aniso(60)
    frame = pd.DataFrame(X, columns=["east", "north"])
    model = GaussianMixtureBIC(max_components=2).fit(frame)
    plain = GaussianMixtureBIC(max_components=2).fit(X)
    for subject in (
        make_subject(model, None, None),
        make_subject(model.density_, None, None),
        make_subject(pl.DataFrame(X, schema=["east", "north"]), None, None),
        make_subject(plain, frame, None),
        make_subject(plain, X, ["east", "north"]),
    ):
        assert subject.names == ("east", "north")
    assert make_subject(plain, X, None).names == ("feature 0", "feature 1")


def test_names_must_fit():
    with pytest.raises(ValueError, match="feature_names must be 2 names, got 1"):
        build_report(aniso(20), feature_names=["east"])


def test_thinned_samples_keep_the_shares_of_clusters():
    X = datasets.load("varied").sample(4000, random_state=0)
    subject = make_subject(ROME().fit(X), X, None)
    rows = thin(subject, 400, np.array([5, 17]))
    assert {5, 17} <= set(rows)
    assert 400 <= len(rows) <= 402
    assert (np.diff(rows) > 0).all()
    for label in np.unique(subject.labels):
        share = (subject.labels == label).mean()
        assert abs((subject.labels[rows] == label).mean() - share) < 0.01

"""Measurements and runs of a plan."""

from dataclasses import replace
from threading import Event

import numpy as np
from numpy.testing import assert_allclose

from sevenhills import ROME, datasets
from sevenhills.metrics import (
    jensen_shannon,
    mean_log_likelihood,
    wasserstein_indicator,
)
from study import Cell, run
from study.catalogue import ABLATIONS, RECIPES
from study.runs import MEASURES, Trial, measure, published_truth

from .rows import SMALL


class TestMeasures:
    def test_equal_the_metrics(self):
        """The shared work gives what the metrics give for two plain fits."""
        varied = datasets.load("varied")
        X, Y = varied.split(1, 200)
        trial = Trial("varied", 1, 200)
        for name in ("rome", "rome-dbcv-plain-kde", "parzen", "kde"):
            first, second = (RECIPES[name].build(varied).fit(half) for half in (X, Y))
            cells = [Cell("varied", 1, 200, name, metric) for metric in MEASURES]
            found = {r.metric: r.value for r in measure(trial, name, cells)}
            truths = varied.truth, published_truth(varied)
            assert_allclose(found["L_hat"], mean_log_likelihood(first, Y))
            assert_allclose(found["D_JS"], jensen_shannon(first, second, X, Y), atol=1e-12)
            for metric, truth in zip(("D_JS_true", "D_JS_as_published"), truths, strict=True):
                assert_allclose(found[metric], jensen_shannon(first, truth, X, Y))
            expected = wasserstein_indicator(first, X, Y, random_state=1_000_001)
            assert_allclose(found["W_hat"], expected, rtol=1e-9)

    def test_labels_are_found_once(self, monkeypatch):
        calls = []
        fit = ROME.fit

        def counted(self, X, labels=None):
            if labels is None:
                calls.append(self.selection)
            return fit(self, X, labels=labels)

        monkeypatch.setattr(ROME, "fit", counted)
        trial = Trial("aniso", 0, 80)
        for name in ABLATIONS:
            measure(trial, name, [Cell("aniso", 0, 80, name, m) for m in ("L_hat", "D_JS")])
        assert sorted(map(str, calls)) == sorted(["silhouette", "dbcv", "None"] * 2)

    def test_a_failure_is_recorded(self, monkeypatch):
        monkeypatch.setattr(ROME, "fit", lambda *_, **__: 1 / 0)
        cells = [Cell("aniso", 0, 50, "rome", "L_hat"), Cell("aniso", 0, 50, "parzen", "L_hat")]
        trial = Trial("aniso", 0, 50)
        (failed,), (fine,) = (measure(trial, c.estimator, [c]) for c in cells)
        assert np.isnan(failed.value)
        assert "ZeroDivisionError" in failed.error
        assert fine.error == ""
        assert np.isfinite(fine.value)


class TestRuns:
    def test_resumes_without_computing_twice(self, tmp_path, monkeypatch):
        whole = run(SMALL, tmp_path / "whole", n_jobs=1)
        assert [r.cell for r in whole] == sorted(SMALL.cells())
        assert not any(r.error for r in whole)
        first = run(replace(SMALL, runs=1), tmp_path / "parts", n_jobs=1)
        seconds = {r.cell: r.seconds for r in first}
        again = run(SMALL, tmp_path / "parts", n_jobs=2)
        assert [(r.cell, r.value) for r in again] == [(r.cell, r.value) for r in whole]
        assert all(r.seconds == seconds[r.cell] for r in again if r.cell in seconds)
        monkeypatch.setattr("study.runs._work", lambda *_: 1 / 0)
        assert run(SMALL, tmp_path / "parts", n_jobs=1) == again

    def test_failures_do_not_stop_the_rest_and_can_be_tried_again(self, tmp_path, monkeypatch):
        with monkeypatch.context() as patch:
            patch.setitem(MEASURES, "D_JS", lambda *_: 1 / 0)
            rows = run(SMALL, tmp_path, n_jobs=1)
        failed = [r for r in rows if r.error]
        assert {r.metric for r in failed} == {"D_JS"}
        assert len(rows) == len(SMALL.cells())
        again = run(SMALL, tmp_path, n_jobs=1)
        assert [(r.error, r.seconds) for r in again] == [(r.error, r.seconds) for r in rows]
        assert not any(r.error for r in run(SMALL, tmp_path, n_jobs=1, retry=True))

    def test_progress(self, tmp_path, monkeypatch):
        monkeypatch.setattr("study.runs._PAUSE", 0.01)
        seen, is_seen = [], Event()

        def look(n, running):
            seen.append((n, running))
            if running:
                is_seen.set()

        def measure_when_seen(*args):
            assert is_seen.wait(60)
            return measure(*args)

        monkeypatch.setattr("study.runs.measure", measure_when_seen)
        run(SMALL, tmp_path, n_jobs=1, progress=look)
        counts = [n for n, _ in seen]
        assert counts == sorted(counts)
        assert counts[-1] == len(SMALL.cells())
        assert any("aniso, run 0" in text for _, running in seen for text in running)

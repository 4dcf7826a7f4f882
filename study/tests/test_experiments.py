"""Rerunning the study: plans, storage, resuming, tables."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from threading import Event

import numpy as np
import pytest
from numpy.testing import assert_allclose
from typer.testing import CliRunner

from sevenhills import ROME, datasets
from sevenhills.metrics import (
    divergence_from_truth,
    jensen_shannon,
    mean_log_likelihood,
    wasserstein_indicator,
)
from study import PRESETS, Cell, Plan, Row, Store, published, run
from study.catalogue import ABLATIONS, RECIPES, name_of
from study.command import app
from study.report import Agreement, reason, write_page, write_tables
from study.runs import MEASURES, Trial, measure, published_truth
from study.tables import (
    Entry,
    Summary,
    beyond_tables,
    likelihood_factors,
    paper_tables,
    to_csv,
    to_latex,
    to_markdown,
)

SMALL = Plan(("aniso", "varied"), ("rome", "parzen", "rome-dbcv-n-knn"), runs=2, n_samples=60)


def row(cell, value, error="", **others):
    values = {"seed": 1, "fit_seconds": 0.1, "seconds": 0.2, "peak_mb": 9.0, "versions": "x 1"}
    return Row(
        cell.distribution,
        cell.run,
        cell.n_samples,
        cell.estimator,
        cell.metric,
        value,
        error,
        **{**values, **others},
    )


def as_published(shift=0.0, runs=3):
    """Rows that repeat the published figures."""
    rows = []
    for each in published():
        metric = each.metric
        if metric == "D_JS_true" and each.distribution == "varied":
            metric = "D_JS_as_published"
        unit = 0.1 if each.table == "ablation_JS_unimodal_trajectories" else 1.0
        for number in range(runs):
            cell = Cell(each.distribution, number, 3000, name_of(each), metric)
            rows.append(row(cell, unit * (each.mean + shift)))
    return list({each.cell: each for each in rows}.values())


class TestPlans:
    def test_presets(self):
        assert PRESETS["quick"].runs == 3
        assert not any("trajectories" in name for name in PRESETS["quick"].distributions)
        assert set(PRESETS["full"].distributions) == set(datasets.names())
        assert PRESETS["full"].runs == 100

    def test_every_published_cell_is_in_the_standard_plan(self):
        cells = {(c.distribution, c.estimator, c.metric) for c in PRESETS["standard"].cells()}
        for each in published():
            assert (each.distribution, name_of(each), each.metric) in cells

    def test_no_samples_are_asked_of_neighbours(self):
        cells = PRESETS["full"].cells()
        assert not any(c.metric == "W_hat" and c.estimator.endswith("knn") for c in cells)
        assert len(set(cells)) == len(cells)

    def test_changes_from_a_file(self, tmp_path):
        path = tmp_path / "plan.toml"
        path.write_text('runs = 2\nestimators = ["rome"]\n')
        plan = PRESETS["quick"].changed_by(path)
        assert plan == replace(PRESETS["quick"], runs=2, estimators=("rome",))

    @pytest.mark.parametrize(
        ("text", "match"),
        [
            ('distributions = ["moon"]', "two_moons"),
            ('estimators = ["rme"]', "rome"),
            ('metrics = ["L"]', "L_hat"),
            ("estimators = []", "estimators"),
            ("runs = 0", "runs"),
            ("n_samples = 20000", "n_samples"),
            ("speed = 3", "distributions"),
            ("runs = ", "plan.toml"),
        ],
    )
    def test_bad_changes(self, tmp_path, text, match):
        path = tmp_path / "plan.toml"
        path.write_text(text)
        with pytest.raises(ValueError, match=match):
            PRESETS["quick"].changed_by(path)
        with pytest.raises(ValueError, match=r"no\.toml"):
            PRESETS["quick"].changed_by(tmp_path / "no.toml")

    def test_names_of_ablations(self):
        assert len(ABLATIONS) == 21
        aniso = datasets.load("aniso")
        settings = {tuple(RECIPES[name].settings().values()) for name in ABLATIONS}
        assert len(settings) == 21
        for each in published():
            model = RECIPES[name_of(each)].build(aniso)
            if each.method == "rome":
                assert model.selection == each.selection
                assert model.density == each.estimator
                if each.normalize is not None:
                    assert (model.decorrelate, model.normalize) == (
                        each.decorrelate,
                        each.normalize,
                    )


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
                assert_allclose(found[metric], divergence_from_truth(first, truth, X, Y))
            expected = wasserstein_indicator(first, X, Y, random_state=1_000_001)
            assert_allclose(found["W_hat"], expected, rtol=1e-9)

    def test_labels_are_found_once(self, monkeypatch):
        calls = []
        cluster = ROME._cluster

        def counted(self, *arguments):
            calls.append(self.selection)
            return cluster(self, *arguments)

        monkeypatch.setattr(ROME, "_cluster", counted)
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


class TestStore:
    def test_rows_come_back(self, tmp_path):
        store = Store(tmp_path / "new" / "folder")
        store.prepare()
        rows = [row(cell, 0.5) for cell in SMALL.cells()]
        store.add(rows[:3])
        store.add(rows[2:])
        assert sorted(store.read(), key=lambda r: r.cell) == sorted(rows, key=lambda r: r.cell)
        assert store.merge() == store.read()
        assert store.n_parts() == 0
        assert store.main.exists()

    def test_failed_cells_can_be_left_out(self, tmp_path):
        store = Store(tmp_path)
        store.prepare()
        cells = SMALL.cells()[:2]
        store.add([row(cells[0], 1.0), row(cells[1], float("nan"), "ValueError: no")])
        assert [r.cell for r in store.merge([cells[1]])] == [cells[0]]

    @pytest.mark.parametrize("place", ["results.parquet", "parts/x.parquet"])
    def test_broken_and_foreign_files_are_refused(self, tmp_path, place):
        import pyarrow
        from pyarrow import parquet

        store = Store(tmp_path)
        store.prepare()
        path = tmp_path / place
        path.write_bytes(b"no parquet")
        with pytest.raises(ValueError, match="broken"):
            run(SMALL, tmp_path, n_jobs=1)
        assert path.read_bytes() == b"no parquet"
        parquet.write_table(pyarrow.table({"a": [1]}), path)
        before = path.read_bytes()
        with pytest.raises(ValueError, match=path.name):
            run(SMALL, tmp_path, n_jobs=1)
        assert path.read_bytes() == before

    def test_a_file_in_the_way(self, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(OSError, match="cannot write"):
            run(SMALL, tmp_path / "file", n_jobs=1)

    def test_no_space(self, tmp_path, monkeypatch):
        monkeypatch.setattr("shutil.disk_usage", lambda _: type("U", (), {"free": 10}))
        with pytest.raises(OSError, match="MB left"):
            run(SMALL, tmp_path, n_jobs=1)


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


class TestInterruption:
    PLAN = """
        distributions = ["aniso", "varied"]
        estimators = ["rome", "parzen", "gmm"]
        runs = 3
        n_samples = 200
    """
    TABLES = ("tables.md", "tables.csv", "tables.tex")
    #: The command, but for what the page says of the study, which takes long and stores nothing.
    #: A shell that runs the tests in the background has interrupts ignored.
    COMMAND = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "import sys; from study import report\n"
        "report.findings = lambda found: []\n"
        "from study.command import app; app()"
    )

    #: Workers store the figures of one data set each and wait, so that the work cannot end.
    WAITING = (
        "from study import runs\n"
        "def work(folder, cells):\n"
        "    import time; from study.runs import _work\n"
        "    _work(folder, cells); time.sleep(600)\n"
        "runs._work = work\n"
    )

    @pytest.fixture
    def start(self, tmp_path):
        """Return a function that starts the command in a group of processes that ends here."""
        (tmp_path / "plan.toml").write_text(self.PLAN)
        options = ["--no-figures", "--plan", tmp_path / "plan.toml", "--out", tmp_path]
        started = []

        def start(before, jobs):
            command = [sys.executable, "-c", before + self.COMMAND, "--quick", "--jobs", str(jobs)]
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
            started.append(subprocess.Popen([*command, *options], **pipes, start_new_session=True))
            return started[-1]

        yield start
        for process in started:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()

    def stop(self, process, folder, how):
        """Stop the command when some figures are stored, and return what it said."""
        while Store(folder).n_parts() < 2 and process.poll() is None:
            time.sleep(0.02)
        if how == signal.SIGKILL:
            os.killpg(process.pid, how)
        else:
            process.send_signal(how)
        return process.communicate()[1]

    @pytest.mark.slow
    def test_stopped_in_the_middle_it_goes_on(self, tmp_path, start):
        """Interrupted, started again, killed and started again, it writes the same tables."""
        process = start(self.WAITING, jobs=2)
        errors = self.stop(process, tmp_path, signal.SIGINT)
        assert process.returncode == 130
        assert b"goes on" in errors
        assert b"Traceback" not in errors
        stored = {row.cell: row.seconds for row in Store(tmp_path).merge()}
        assert stored
        process = start(self.WAITING, jobs=2)
        self.stop(process, tmp_path, signal.SIGKILL)
        assert process.returncode == -signal.SIGKILL
        more = {row.cell: row.seconds for row in Store(tmp_path).read()}
        assert len(more) > len(stored)
        process = start("", jobs=1)
        output, _ = process.communicate()
        assert process.returncode == 0
        assert b"agree" in output
        again = {row.cell: row.seconds for row in Store(tmp_path).read()}
        for before in (stored, more):
            assert all(again[cell] == seconds for cell, seconds in before.items())
        plan, whole = PRESETS["quick"].changed_by(tmp_path / "plan.toml"), tmp_path / "whole"
        write_tables(whole, run(plan, whole, n_jobs=1))
        for name in self.TABLES:
            assert (tmp_path / name).read_text() == (whole / name).read_text()


class TestTables:
    def test_published_figures_agree_with_themselves(self):
        tables = paper_tables(as_published())
        agreement = Agreement.of(tables)
        assert len(tables) == 15
        assert len(agreement.agreeing) == 240
        assert agreement.differing == ()
        assert agreement.missing == 0
        assert "240 of 240" in agreement.describe()

    def test_others_do_not(self):
        agreement = Agreement.of(paper_tables(as_published(shift=300.0)))
        assert len(agreement.differing) == 240
        assert any("vine" in reason(entry) for entry in agreement.differing)

    def test_the_rule(self):
        (cell,) = [c for c in published() if c.table == "baselines_true" and c.method == "mpw"][:1]
        allowed = 2 * 0.001 + 0.0005
        for apart, agrees in ((0.99, True), (1.01, False)):
            ours = Summary(cell.mean + apart * allowed, 0.0, 5, 0)
            assert Entry(ours, cell).agrees is agrees
        assert Entry(Summary.of([np.nan]), cell).agrees is False
        assert Entry(None, cell).agrees is None

    def test_what_was_not_run_is_counted(self):
        rows = [r for r in as_published() if r.distribution == "aniso"]
        agreement = Agreement.of(paper_tables(rows))
        n = sum(c.distribution == "aniso" for c in published())
        assert len(agreement.agreeing) == n
        assert agreement.missing > 0

    def test_formats(self, tmp_path):
        rows = as_published()
        tables = write_tables(tmp_path, rows)
        markdown = to_markdown(tables[0])
        assert "| aniso | 0.0100 ± 0.0000 (0.0100 ± 0.0010) ✓" in markdown
        assert len({line.count("|") for line in markdown.splitlines()}) == 1
        latex = to_latex(tables[0])
        assert latex.count(r"\\") == len(tables[0].rows) + 1
        assert r"\pm" in latex
        assert "D_JS" not in latex.replace(r"D\_JS", "")
        lines = to_csv(tables).splitlines()
        assert sum(line.endswith(",yes") for line in lines) == 240
        for name in ("tables.md", "tables.csv", "tables.tex"):
            assert (tmp_path / name).stat().st_size > 1000

    def test_failures_and_infinities_are_shown(self):
        cells = [Cell("aniso", r, 3000, "vine", "L_hat") for r in range(2)]
        rows = [row(cells[0], float("nan"), "ValueError: no"), row(cells[1], float("-inf"))]
        (table,) = [t for t in beyond_tables(rows) if t.name == "beyond_L_hat"]
        assert "-inf" in to_markdown(table)
        (table,) = [t for t in beyond_tables(rows[:1]) if t.name == "beyond_L_hat"]
        assert "failed" in to_markdown(table)

    def test_likelihood_factors(self):
        rows = []
        for number in range(4):
            cells = [Cell("aniso", number, 3000, name, "L_hat") for name in ("rome", "parzen")]
            rows += [row(cells[0], 1.0 + 0.01 * number), row(cells[1], 0.5)]
        (factor,) = likelihood_factors(rows)
        assert factor.other == "parzen"
        assert_allclose(factor.value, np.exp(0.5 + 0.01 * np.arange(4)).mean())
        assert factor.p_value < 0.01

    @pytest.mark.slow
    def test_the_page(self, tmp_path):
        rows = as_published()
        plan = replace(PRESETS["standard"], runs=3)
        write_page(tmp_path / "page.md", plan, rows, [], "figures")
        text = (tmp_path / "page.md").read_text()
        for title in ("What agrees", "got wrong", "Algorithm 1", "Ablations", "Beyond"):
            assert title in text
        assert text.count("✓") >= 240


class TestCommand:
    def call(self, *arguments):
        return CliRunner().invoke(app, [*map(str, arguments)])

    def test_bad_plans_are_one_line(self, tmp_path):
        path = tmp_path / "plan.toml"
        path.write_text('estimators = ["rme"]')
        done = self.call("--plan", path, "--out", tmp_path / "out")
        assert done.exit_code == 2
        assert "parzen" in done.stderr
        assert "Traceback" not in done.stderr
        assert not (tmp_path / "out").exists()

    def test_two_presets(self, tmp_path):
        done = self.call("--quick", "--full", "--out", tmp_path / "out")
        assert done.exit_code == 2
        assert "choose one" in done.stderr

    def test_broken_results_are_named(self, tmp_path):
        (tmp_path / "results.parquet").write_bytes(b"no parquet")
        done = self.call("--quick", "--out", tmp_path)
        assert done.exit_code == 2
        assert "results.parquet" in done.stderr.replace("\n", "")
        assert (tmp_path / "results.parquet").read_bytes() == b"no parquet"

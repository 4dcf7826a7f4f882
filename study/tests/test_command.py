"""The command line, and its interruption."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest
from typer.testing import CliRunner

from study import PRESETS, Store, run
from study.command import app
from study.report import write_tables


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
        assert b"continues" in errors
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

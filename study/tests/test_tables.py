"""Tables and the page."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from study import PRESETS, Cell, published
from study.report import Agreement, reason, write_page, write_tables
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

from .rows import as_published, row


class TestTables:
    def test_published_figures_agree_with_themselves(self):
        tables = paper_tables(as_published())
        agreement = Agreement.from_tables(tables)
        assert len(tables) == 15
        assert len(agreement.agreeing) == 240
        assert agreement.differing == ()
        assert agreement.missing == 0
        assert "240 of 240" in agreement.describe()

    def test_others_do_not(self):
        agreement = Agreement.from_tables(paper_tables(as_published(shift=300.0)))
        assert len(agreement.differing) == 240
        assert any("vine" in reason(entry) for entry in agreement.differing)

    def test_the_rule(self):
        (cell,) = [c for c in published() if c.table == "baselines_true" and c.method == "mpw"][:1]
        allowed = 2 * 0.001 + 0.0005
        for apart, agrees in ((0.99, True), (1.01, False)):
            ours = Summary(cell.mean + apart * allowed, 0.0, 5, 0)
            assert Entry(ours, cell).agrees is agrees
        assert Entry(Summary.from_values([np.nan]), cell).agrees is False
        assert Entry(None, cell).agrees is None

    def test_what_was_not_run_is_counted(self):
        rows = [r for r in as_published() if r.distribution == "aniso"]
        agreement = Agreement.from_tables(paper_tables(rows))
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
        for title in ("What agrees", "Errors of the study", "Algorithm 1", "Ablations", "Beyond"):
            assert title in text
        assert text.count("✓") >= 240

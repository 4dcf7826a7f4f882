"""Stored results."""

import pytest

from study import Store, run

from .rows import SMALL, row


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

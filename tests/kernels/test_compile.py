"""Compiled kernels are kept on disk, and never outlive their source."""

import errno
import gc
import importlib
import os
import shutil
import sys

import pytest
from numba.core import caching, config

from sevenhills.kernels import compile as compiling

SQUARE = """
from .compile import inner

@inner
def square(x):
    return x * x
"""
PROBE = """
from .compile import kernel
from .square import square

@kernel
def probe(x):
    return square(x)
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package with a kernel that calls a function of another file, and a folder for its cache."""
    folder = tmp_path / "probed"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "square.py").write_text(SQUARE)
    (folder / "probe.py").write_text(PROBE)
    shutil.copy(compiling.__file__, folder)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / "cache"))
    yield folder
    forget()


def forget():
    for name in [name for name in sys.modules if name.partition(".")[0] == "probed"]:
        del sys.modules[name]


def measure():
    """The square of 3 by a package that is imported anew, and the hits of its cache."""
    forget()
    importlib.invalidate_caches()
    probe = importlib.import_module("probed.probe").probe
    return probe(3.0), sum(probe.stats.cache_hits.values())


def cached(package):
    return sorted(path for path in (package.parent / "cache").rglob("*") if path.is_file())


def test_a_change_in_another_file_is_seen(package):
    assert measure() == (9.0, 0)
    assert measure() == (9.0, 1)
    first = cached(package)
    (package / "square.py").write_text(SQUARE.replace("x * x", "100 * x * x"))
    assert measure() == (900.0, 0)
    assert measure() == (900.0, 1)
    assert len(cached(package)) == len(first)
    assert not set(cached(package)) & set(first)


def test_on_a_full_disk_nothing_is_kept(package, monkeypatch):
    def replace(source, target):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", replace)
        assert measure() == (9.0, 0)
    assert not cached(package)
    assert measure() == (9.0, 0)
    assert measure() == (9.0, 1)


@pytest.mark.parametrize("ending", [".nbi", ".nbc"])
def test_a_damaged_file_is_replaced(package, ending):
    measure()
    for path in cached(package):
        if path.suffix == ending:
            path.write_bytes(path.read_bytes()[:-20])
    assert measure() == (9.0, 0)
    assert measure() == (9.0, 1)


def test_a_file_that_cannot_be_read_is_done_without(package):
    measure()
    for path in cached(package):
        path.unlink()
        path.mkdir()
    assert measure() == (9.0, 0)


def test_without_a_folder_for_its_cache_it_still_runs(package, monkeypatch):
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])
    assert measure() == (9.0, 0)
    assert not cached(package)


@pytest.mark.parametrize("collects", [True, False])
def test_garbage_is_not_collected_while_compiling(collects):
    watch, before = compiling._Stopwatch(), gc.isenabled()
    found = []
    try:
        (gc.enable if collects else gc.disable)()
        for step in (watch.on_start, watch.on_start, watch.on_end, watch.on_end):
            step(None)
            found.append(gc.isenabled())
    finally:
        (gc.enable if before else gc.disable)()
    assert found == [False, False, False, collects]

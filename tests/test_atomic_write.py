"""Files that are written as a whole: what is replaced, what is written to as it is."""

import errno
import os
import shutil
import stat
import sys
import tempfile
import threading
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from sevenhills import KernelMixture, save
from sevenhills.atomic_write import atomic_write, check_writable
from sevenhills.forecast import evaluate
from sevenhills.report.page import Report

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="modes and descriptors of POSIX")

#: The user that owns nothing.
NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can change the owner of a file")


def write(path, content=b"new"):
    with atomic_write(path) as file:
        file.write(content)


def write_half(path):
    with atomic_write(path) as file:
        file.write(b"half")
        raise ValueError("no more")


def mode_of(path):
    return stat.S_IMODE(os.stat(path).st_mode)


@contextmanager
def umask(value):
    before = os.umask(value)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def unprivileged():
    """Be a user to whom permissions apply, which they do not to root."""
    if os.geteuid() != 0:
        yield
        return
    groups = os.getgroups()
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, 0)
    os.setresuid(NOBODY, NOBODY, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)
        os.setresgid(0, 0, 0)
        os.setgroups(groups)


@pytest.fixture
def folder():
    """A folder that an unprivileged user owns, in a place that all users can reach."""
    place = Path(tempfile.mkdtemp())
    if os.geteuid() == 0:
        os.chown(place, NOBODY, NOBODY)
    yield place
    place.chmod(0o700)
    shutil.rmtree(place)


def own(path, content=b"old", mode=0o644):
    path.write_bytes(content)
    path.chmod(mode)
    if os.geteuid() == 0:
        os.chown(path, NOBODY, NOBODY)
    return path


# What is written to as it is


@pytest.mark.parametrize("name", ["/dev/fd/{}", "/proc/self/fd/{}"])
@pytest.mark.parametrize("opened", ["ab", "wb"])
def test_an_open_descriptor_goes_on_where_it_is(tmp_path, name, opened):
    path = tmp_path / "all.csv"
    path.write_bytes(b"old ")
    with open(path, opened) as file:
        file.write(b"head ")
        file.flush()
        place = name.format(file.fileno())
        if not os.path.exists(place):
            pytest.skip(f"there is no {place}")
        check_writable(place)
        write(place)
        file.write(b" tail")
    assert path.read_bytes() == (b"old " if opened == "ab" else b"") + b"head new tail"


def test_a_closed_descriptor_is_named():
    with pytest.raises(OSError, match="Bad file descriptor: '/dev/fd/987'"):
        write("/dev/fd/987")


def test_pipes_stay_pipes(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    check_writable(path)
    found = []
    reader = threading.Thread(target=lambda: found.append(path.read_bytes()))
    reader.start()
    write(path)
    reader.join()
    assert found == [b"new"]
    assert path.is_fifo()


def test_a_failure_sends_nothing_through_a_pipe():
    reading, writing = os.pipe()
    with pytest.raises(ValueError, match="no more"):
        write_half(f"/dev/fd/{writing}")
    os.close(writing)
    assert os.read(reading, 9) == b""
    os.close(reading)


def test_a_full_disk_is_named():
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full")
    with pytest.raises(OSError, match="'/dev/full'") as caught:
        write("/dev/full")
    assert caught.value.errno == errno.ENOSPC


def test_errors_name_the_file_and_not_the_temporary_one(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "x"
    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match=rf"\[Errno 28\] No space left on device: '{path}'"):
        write(path)
    with pytest.raises(FileNotFoundError, match=f"'{tmp_path / 'none' / 'x'}'"):
        write(tmp_path / "none" / "x")
    assert list(tmp_path.iterdir()) == []


# Links


def test_symbolic_links_stay(tmp_path):
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "inner").symlink_to("real")
    (tmp_path / "link").symlink_to(tmp_path / "inner")
    write(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "inner").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


def test_a_dangling_link_gets_its_file(tmp_path):
    link = tmp_path / "link"
    link.symlink_to("real")
    check_writable(link)
    write(link)
    assert link.is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"
    link.unlink()
    link.symlink_to(tmp_path / "none" / "real")
    with pytest.raises(ValueError, match="none does not exist"):
        check_writable(link)
    link.unlink()
    link.symlink_to("link")
    for refuse in (check_writable, write):
        with pytest.raises(OSError, match="symbolic links") as caught:
            refuse(link)
        assert caught.value.errno == errno.ELOOP
    assert link.is_symlink()


def test_another_hard_link_keeps_the_old_contents(tmp_path):
    (tmp_path / "a").write_bytes(b"old")
    os.link(tmp_path / "a", tmp_path / "b")
    write(tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == b"new"
    assert (tmp_path / "b").read_bytes() == b"old"


# Modes and owners


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644, 0o666])
def test_the_mode_is_kept_and_nobody_else_reads_meanwhile(tmp_path, monkeypatch, mode):
    path = tmp_path / "secret"
    path.write_bytes(b"old")
    path.chmod(mode)
    sync, modes = os.fsync, []

    def look(descriptor):
        modes.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        sync(descriptor)

    monkeypatch.setattr("os.fsync", look)
    with umask(0):
        write(path)
    assert modes == [0o600]
    assert mode_of(path) == mode
    assert path.read_bytes() == b"new"


def write_report(path):
    Report("title", "<html></html>").save(path)


def write_paths(path):
    evaluate(np.zeros((1, 4, 3, 2)), np.zeros((1, 3, 2)), measures=["ade"]).to_parquet(path)


@pytest.mark.parametrize(
    "write",
    [
        partial(save, KernelMixture([1.0], [[0.0]], [0, 1], [[[1.0]]])),
        write_report,
        write_paths,
    ],
)
def test_every_writer_keeps_the_mode(tmp_path, write):
    path = tmp_path / "file"
    with umask(0o022):
        write(path)
        assert mode_of(path) == 0o644
        path.chmod(0o600)
        write(path)
    assert mode_of(path) == 0o600
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_new_files_follow_the_umask(tmp_path, mask, mode):
    with umask(mask):
        write(tmp_path / "new")
    assert mode_of(tmp_path / "new") == mode


def test_the_time_is_that_of_writing(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    os.utime(path, (1, 1))
    write(path)
    assert path.stat().st_mtime > 1e9


@as_root
def test_the_owner_is_kept(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o640)
    os.chown(path, 1234, 4321)
    write(path)
    found = path.stat()
    assert (found.st_uid, found.st_gid, mode_of(path)) == (1234, 4321, 0o640)


@as_root
def test_an_owner_that_cannot_be_given_is_kept_by_writing_in_place(folder):
    path = folder / "shared"
    path.write_bytes(b"old, and longer")
    path.chmod(0o666)
    with unprivileged():
        check_writable(path)
        write(path)
    assert path.read_bytes() == b"new"
    assert (path.stat().st_uid, mode_of(path)) == (0, 0o666)
    assert list(folder.iterdir()) == [path]


# What can be written, but not replaced


@pytest.mark.parametrize("mode", [0o644, 0o200])
def test_a_file_in_a_read_only_folder_is_written_in_place(folder, mode):
    path = own(folder / "model", b"old, and longer", mode)
    folder.chmod(0o555)
    with unprivileged():
        check_writable(path)
        write(path)
        with pytest.raises(ValueError, match="no more"):
            write_half(path)
        with pytest.raises(PermissionError, match="cannot be written: no permission"):
            check_writable(folder / "other")
        with pytest.raises(PermissionError, match="other"):
            write(folder / "other")
    path.chmod(0o644)
    assert path.read_bytes() == b"new"
    assert list(folder.iterdir()) == [path]


def test_a_read_only_file_is_refused_before(folder):
    path = own(folder / "model", mode=0o444)
    with unprivileged(), pytest.raises(PermissionError, match="no permission"):
        check_writable(path)


@pytest.mark.parametrize("code", [errno.EBUSY, errno.EPERM])
def test_a_mount_point_is_written_in_place(tmp_path, monkeypatch, code):
    def refuse(*_):
        raise OSError(code, os.strerror(code))

    path = tmp_path / "file"
    path.write_bytes(b"old, and longer")
    monkeypatch.setattr("os.replace", refuse)
    write(path)
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_folders_are_refused(tmp_path):
    with pytest.raises(ValueError, match="is a folder"):
        check_writable(tmp_path)
    with pytest.raises(IsADirectoryError, match=str(tmp_path)):
        write(tmp_path)

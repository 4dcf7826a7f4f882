"""Files of others: damage names the file, pickles are not loaded, bombs are not unpacked."""

import gzip
import io
import json
import os
import pickle
import sys
import threading
import tracemalloc
import zipfile
from contextlib import contextmanager

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from numpy.testing import assert_array_equal

import sevenhills
from sevenhills import KernelMixture, decoding, load, save
from sevenhills.cli import main
from sevenhills.cli.screen import shortened
from sevenhills.cli.table_files import read_table
from sevenhills.density.mixture import with_samples
from sevenhills.forecast import evaluate
from sevenhills.storage import ModelFileError

from .cli.runner import done, refused, write_csv

X = np.random.RandomState(0).standard_normal((40, 2)).round(6)
HILL = with_samples(KernelMixture([1.0], [[0.0, 0.0]], [0, 1], np.eye(2)[None]), ("x", "y"), 1)


def bytes_of(write, *arguments, **keywords):
    file = io.BytesIO()
    write(file, *arguments, **keywords)
    return file.getvalue()


def parquet_of(columns, **options):
    return bytes_of(
        lambda file: pyarrow.parquet.write_table(pyarrow.table(columns), file, **options)
    )


def formats():
    """One table in all formats."""
    text = "x,y\n" + "".join(f"{x},{y}\n" for x, y in X)
    rows = [dict(zip("xy", row, strict=True)) for row in X.tolist()]
    return {
        "t.csv": text.encode(),
        "t.csv.gz": gzip.compress(text.encode()),
        "t.npy": bytes_of(np.save, X),
        "t.npz": bytes_of(np.savez, X=X),
        "packed.npz": bytes_of(np.savez_compressed, x=X[:, 0], y=X[:, 1]),
        "t.parquet": parquet_of({"x": X[:, 0], "y": X[:, 1]}),
        "t.jsonl": "\n".join(map(json.dumps, rows)).encode(),
        "t.json": json.dumps(rows).encode(),
    }


FORMATS = formats()
NUMPY_HEADER = b"\x93NUMPY\x01\x00"


# Damage


def flipped(data, place):
    return data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :]


@pytest.mark.parametrize(
    ("name", "content"),
    {
        "t.csv.gz": FORMATS["t.csv.gz"][:200],
        "crc.csv.gz": flipped(FORMATS["t.csv.gz"], len(FORMATS["t.csv.gz"]) - 6),
        "body.csv.gz": flipped(FORMATS["t.csv.gz"], 40),
        "t.npz": flipped(FORMATS["t.npz"], 400),
        "short.npz": FORMATS["t.npz"][:300],
        "fewer.npz": FORMATS["t.npz"].replace(b"(40, 2)", b"(30, 2)"),
        "packed.npz": flipped(FORMATS["packed.npz"], 150),
        "words.npz": bytes_of(
            lambda file: zipfile.ZipFile(file, "w").writestr("X.npy", "no array at all")
        ),
        "t.npy": FORMATS["t.npy"].replace(b"'descr'", b"((((((("),
        "deep.npy": NUMPY_HEADER + (4000).to_bytes(2, "little") + b"(" * 4000,
        "long.npy": NUMPY_HEADER + b"\xff\xff" + b"{" * 70,
        "huge.npy": FORMATS["t.npy"].replace(b"(40, 2)", b"(4" + b"0" * 4 + b")"),
        "subarrays.npy": bytes_of(np.save, np.zeros(4, dtype=[("a", "f8", 2), ("b", "f8")])),
        "t.parquet": FORMATS["t.parquet"][:300],
        "tail.parquet": FORMATS["t.parquet"][:60] + FORMATS["t.parquet"][-60:],
        "page.parquet": flipped(FORMATS["t.parquet"], 10),
        "deep.json": b"[" * 100_000 + b"]" * 100_000,
        "deep.jsonl": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        "digits.jsonl": b'{"a": ' + b"1" * 5000 + b"}",
        "t.xlsx": bytes_of(lambda file: zipfile.ZipFile(file, "w").writestr("xl/a.xml", "<a/>")),
    }.items(),
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_damaged_files_are_named(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    line = refused("fit", path, "-o", tmp_path / "m")
    assert line.startswith(f"error: {path}")
    assert not (tmp_path / "m").exists()


def message_of(read, path):
    """What is said of a file, its name alone if it is read."""
    try:
        read(path)
    except ValueError as error:
        return str(error)
    return path


@pytest.mark.parametrize("name", FORMATS)
def test_no_damage_is_a_bug(tmp_path, name):
    """Whatever is cut off or changed, the table is read or refused."""
    rng = np.random.RandomState(0)
    data = FORMATS[name]
    places = rng.randint(0, len(data), 60)
    for content in (*(data[:i] for i in places[:20]), *(flipped(data, i) for i in places[20:])):
        path = tmp_path / name
        path.write_bytes(content)
        assert message_of(read_table, str(path)).startswith(str(path))


@pytest.mark.parametrize("name", ["t.npy", "t.npz", "packed.npz", "t.parquet"])
def test_damaged_forecasts_are_named(tmp_path, name):
    (tmp_path / name).write_bytes(FORMATS[name][:250])
    line = refused("forecast", tmp_path / name, "--truth", tmp_path / name)
    assert line.startswith(f"error: {tmp_path / name} cannot be read: ")


# Pickles


class Payload:
    """An object whose pickle makes a folder when it is loaded."""

    def __init__(self, place):
        self.place = str(place)

    def __reduce__(self):
        return os.mkdir, (self.place,)


@pytest.mark.parametrize("read", [
    lambda path: read_table(str(path)),
    lambda path: evaluate(path, np.zeros((1, 3, 2))),
    load,
], ids=["table", "forecast", "model"])  # fmt: skip
@pytest.mark.parametrize("name", ["array.npy", "raw.npy", "array.npz", "raw.npz", "inside.npz"])
def test_pickles_are_not_loaded(tmp_path, name, read):
    proof = tmp_path / "proof"
    objects = np.array([Payload(proof), 1.0], dtype=object)
    content = {
        "array.npy": bytes_of(np.save, objects),
        "raw.npy": pickle.dumps(objects),
        "array.npz": bytes_of(np.savez, X=objects),
        "raw.npz": pickle.dumps(objects),
        "inside.npz": bytes_of(
            lambda file: zipfile.ZipFile(file, "w").writestr("X.npy", pickle.dumps(objects))
        ),
    }[name]
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"(cannot be read|is not text|not a model file|header)"):
        read(path)
    assert not proof.exists()


def test_the_pickles_of_that_test_do_run_where_they_are_allowed(tmp_path):
    proof = tmp_path / "proof"
    path = tmp_path / "array.npy"
    np.save(path, np.array([Payload(proof), 1.0], dtype=object))
    np.load(path, allow_pickle=True)
    assert proof.is_dir()


# Bombs


@contextmanager
def little_memory(n_bytes):
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < n_bytes
    finally:
        tracemalloc.stop()


def bombs():
    zeros = np.zeros(2**21)
    return {
        "bomb.csv.gz": gzip.compress(b"0" * 2**24),
        "bomb.npz": bytes_of(np.savez_compressed, X=zeros),
        "bomb.parquet": parquet_of({"x": zeros}, use_dictionary=False, compression="gzip"),
    }


@pytest.mark.parametrize(
    ("name", "content"), bombs().items(), ids=lambda each: each if isinstance(each, str) else ""
)
def test_bombs(tmp_path, monkeypatch, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    if name != "bomb.csv.gz":
        assert len(read_table(str(path)).frame) == 2**21
    monkeypatch.setattr(decoding, "_ALWAYS_UNPACKED", 2**20)
    said = rf"{path} unpacks to more than .*; if that is right, unpack it and give"
    with little_memory(8 * 2**20), pytest.raises(ValueError, match=said):
        read_table(str(path))
    if name == "bomb.npz":
        with pytest.raises(ValueError, match=said):
            evaluate(path, np.zeros((1, 3, 2)))


def test_dense_tables_are_no_bombs(tmp_path, monkeypatch):
    """A file that is only a hundred times longer when unpacked is read, however long that is."""
    monkeypatch.setattr(decoding, "_ALWAYS_UNPACKED", 0)
    text = "x,y\n" + "".join(f"{i % 7},{i % 5}\n" for i in range(4000))
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(text.encode()))
    assert len(text) > 20 * path.stat().st_size
    assert len(read_table(str(path)).frame) == 4000


# Pipes


@contextmanager
def piped(content):
    """A path like that of a process substitution."""
    reading, writing = os.pipe()

    def feed():
        with open(writing, "wb") as file:
            file.write(content)

    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        yield f"/dev/fd/{reading}"
    finally:
        os.close(reading)
        feeder.join()


@pytest.fixture
def hill(tmp_path):
    path = tmp_path / "hill.sevenhills"
    save(HILL, path)
    return path


@pytest.mark.skipif(sys.platform == "win32", reason="there is no /dev/fd")
def test_process_substitutions(tmp_path, hill):
    model, table = hill.read_bytes(), FORMATS["t.csv"]
    expected = HILL.logpdf(X)
    with piped(model) as first, piped(table) as second:
        found = json.loads(done("score", first, second, "--json").stdout)
    assert_array_equal(found["log_densities"], expected)
    with piped(model) as first:
        assert "KernelMixture of 2 columns: x, y" in done("describe", first).stdout
    with piped(model) as first:
        done("sample", first, "-n", 3)
    with piped(model) as first, piped(table) as second, piped(table) as third:
        done("outliers", second, "--model", first, "--calibration", third)
    page = tmp_path / "page.html"
    with piped(model) as first, piped(table) as second:
        done("report", first, "--data", second, "-o", page)
    assert page.stat().st_size
    page.unlink()
    with piped(table) as second:
        done("report", second, "-o", page, "--estimator", "gmm")
    assert page.stat().st_size
    assert "KernelMixture" in done("describe", "-", given=model).stdout


def test_models_from_open_files(hill):
    with open(hill, "rb") as file:
        file.read(100)
        assert_array_equal(load(file).logpdf(X), HILL.logpdf(X))
    with piped(hill.read_bytes()) as path:
        assert_array_equal(load(path).logpdf(X), HILL.logpdf(X))
    with (
        piped(bytes(1000)) as path,
        pytest.raises(ModelFileError, match="file: larger"),
    ):
        load(path, max_bytes=100)


def test_the_missing_one_of_two_files_is_named(tmp_path, hill):
    for command in ("score", "report"):
        data = ["--data"] if command == "report" else []
        out = tmp_path / ("x.html" if command == "report" else "x.csv")
        line = refused(command, hill, *data, tmp_path / "gone.csv", "-o", out)
        assert line == f"error: {tmp_path / 'gone.csv'}: No such file or directory"


# Names


def test_half_a_surrogate_pair_is_refused(tmp_path):
    for path, content in {
        tmp_path / "t.jsonl": b'{"a\\ud800": 1, "b": 2}\n{"a\\ud800": 2, "b": 1}\n',
        tmp_path / "t.npy": bytes_of(np.save, np.zeros(2, dtype=[("ab", "f8"), ("c", "f8")]))
        .replace(b"'ab'", b"'\\ud800'")
        .replace(b"    \n", b"\n"),
    }.items():
        path.write_bytes(content)
        line = refused("fit", path, "-o", tmp_path / "m")
        assert str(path) in line
        assert r"\ud800" in line
    model = with_samples(HILL, ("x", "\udfff"), 1)
    with pytest.raises(
        ModelFileError, match=r"feature_names\.1: '\\udfff' cannot be written as UTF-8"
    ):
        save(model, tmp_path / "m")
    assert not (tmp_path / "m").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are bytes")
def test_names_of_files_need_not_be_text(tmp_path, hill, capfd):
    path = tmp_path / os.fsdecode(b"caf\xe9.sevenhills")
    hill.rename(path)
    with pytest.raises(SystemExit) as end:
        main(["describe", str(path)])
    assert not end.value.code
    assert r"caf\udce9.sevenhills: KernelMixture" in capfd.readouterr().out
    page = tmp_path / "page.html"
    data = write_csv(tmp_path / os.fsdecode(b"caf\xe9.csv"), X)
    done("report", path, "--data", data, "-o", page)
    assert r"caf\udce9.csv" in page.read_text(encoding="utf-8")


def test_error_lines_are_short(tmp_path, hill):
    name = "n" * 50_000
    long = tmp_path / "long.csv"
    long.write_text(
        f"{name},b,{name}c\n" + "".join(f"{i**3},{i * i},word{name}\n" for i in range(9))
    )
    for arguments in (
        ["score", hill, long],
        ["fit", long, "-o", tmp_path / "m", "--columns", "z"],
        ["fit", long, "-o", tmp_path / "m", "--columns", name + "z"],
    ):
        line = refused(*arguments)
        assert line.startswith(f"error: {long}")
        assert len(line) < 700
    result = done("fit", long, "-o", tmp_path / "m", "--estimator", "gmm")
    assert max(map(len, result.output.splitlines())) < 700
    assert shortened("abcdefghij", 7) == "abc...j"
    assert sevenhills.load(tmp_path / "m").feature_names_in_.tolist() == [name, "b"]

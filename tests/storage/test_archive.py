"""The container of model files: its format, damage, foreign files and bombs."""

import hashlib
import io
import json
import os
import pickle
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest

from sevenhills import ROME, GaussianKDE, KernelMixture, datasets, load, save
from sevenhills.storage import ModelFileError

from .forging import (
    FEW,
    HEADER,
    archive_of,
    assert_identical,
    members_of,
    npy,
    put_together,
    signed,
    taken_apart,
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.npz"


@pytest.fixture(scope="module")
def fitted():
    return ROME(n_eps=3, n_xi=3).fit(FEW)


@pytest.fixture(scope="module")
def small(fitted, tmp_path_factory):
    """The bytes of a model file with all kinds of parts."""
    path = tmp_path_factory.mktemp("small") / "model.npz"
    save(fitted, path)
    data = path.read_bytes()
    assert len(data) < 20_000
    return data


@pytest.fixture
def parts(small, path):
    path.write_bytes(small)
    return taken_apart(path)


# The file


def test_is_a_small_uncompressed_archive_of_plain_arrays(path):
    X = datasets.load("aniso").sample(60, random_state=0)
    save(ROME().fit(X), path)
    assert path.stat().st_size < 30_000
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert all(info.compress_type == zipfile.ZIP_STORED for info in archive.infolist())
        header = json.loads(archive.read(HEADER))
    assert (header["magic"], header["version"]) == ("sevenhills model", "3.0")
    assert header["model"]["estimator"] == "ROME"
    with np.load(path, allow_pickle=False) as arrays:
        assert {arrays[name].dtype.str for name in arrays.files if name != HEADER} <= {
            "<f8",
            "<i8",
            "<U6",
        }


def test_one_model_gives_one_file(fitted, tmp_path):
    save(fitted, tmp_path / "a")
    save(load(tmp_path / "a"), tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_the_digest_is_what_the_documentation_says(small):
    with zipfile.ZipFile(io.BytesIO(small)) as archive:
        assert archive.comment == small[-64:]
    assert hashlib.sha256(small[:-64]).hexdigest() == small[-64:].decode()


def test_files_beyond_two_gigabytes(fitted, path, monkeypatch):
    """The larger form of an archive, made small by moving the limit from which it is used."""
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 1000)
    save(fitted, path)
    monkeypatch.undo()
    assert_identical(load(path), fitted)


def test_forging_alone_changes_nothing(parts, fitted, path):
    put_together(path, *parts)
    assert_identical(load(path), fitted)


# Damage


def model_in(path, data):
    """The model in a file of these bytes, None if it is refused; no other error is right."""
    path.write_bytes(data)
    try:
        return load(path)
    except ModelFileError as error:
        return None if ": " in str(error) else error


@pytest.mark.whole
def test_every_truncation_is_refused(small, path):
    for length in range(0, len(small), 5):
        assert model_in(path, small[:length]) is None, length


@pytest.mark.whole
def test_every_flipped_byte_is_refused(small, path):
    patterns = np.random.RandomState(0).randint(1, 256, size=len(small))
    for place in range(0, len(small), 5):
        data = bytearray(small)
        data[place] ^= patterns[place]
        assert model_in(path, bytes(data)) is None, place


@pytest.mark.whole
def test_every_turned_byte_of_a_density_is_refused(path):
    save(KernelMixture([0.25, 0.75], [[0.0], [3.0]], [0, 1, 2], [[[1.0]], [[2.0]]]), path)
    whole = path.read_bytes()
    for place in range(len(whole)):
        data = bytearray(whole)
        data[place] ^= 0xFF
        assert model_in(path, bytes(data)) is None, place


def test_damage_names_the_part(small, path):
    with zipfile.ZipFile(io.BytesIO(small)) as archive:
        places = {info.filename: info.header_offset for info in archive.infolist()}
    for name in (HEADER, "labels_.npy", "density_.weights.npy"):
        data = bytearray(small)
        data[places[name] + 30 + len(name) + 20] ^= 1
        path.write_bytes(data)
        with pytest.raises(ModelFileError, match=f"^{name}: damaged"):
            load(path)


@pytest.mark.whole
def test_damage_takes_no_memory(small, path):
    assert model_in(path, small) is not None  # compiles and imports what is needed
    rng = np.random.RandomState(1)
    tracemalloc.start()
    try:
        for _ in range(200):
            data = bytearray(small)
            for place in rng.randint(len(small), size=rng.randint(1, 4)).tolist():
                data[place] = rng.choice([0, 0x7F, 0x80, 0xFF, data[place] ^ (1 << rng.randint(8))])
            model_in(path, bytes(data))
            model_in(path, signed(bytes(data)))
        for place in range(len(small) - 86, len(small) - 64):  # where the directory is described
            data = bytearray(small)
            data[place] = 0xFF
            model_in(path, bytes(data))
            model_in(path, signed(bytes(data)))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 5_000_000


@pytest.mark.parametrize("junk", [b"\x00", b"PK", b"#!/bin/sh\n", b"PK\x03\x04" + bytes(40)])
def test_junk_around_it(small, path, junk):
    for data in (junk + small, small + junk, small + small):
        assert model_in(path, data) is None


def foreign_files():
    buffer = io.BytesIO()
    np.savez(buffer, a=np.arange(3))
    yield "npz", buffer.getvalue()
    yield "npy", npy(np.arange(3))
    buffer = io.BytesIO()
    zipfile.ZipFile(buffer, "w").close()
    yield "empty archive", buffer.getvalue()
    yield "signed archive", archive_of([("a.npy", npy(np.arange(3)))])
    yield "pickle", pickle.dumps([1, 2, 3])
    yield "text", b"{}" * 100
    yield "nothing", b""


@pytest.mark.parametrize(("name", "data"), list(foreign_files()))
def test_foreign_files(path, name, data):
    assert model_in(path, data) is None


# Forged headers


@pytest.mark.parametrize(
    ("field", "value", "match"),
    [
        ("magic", "some other model", "magic: "),
        ("version", "4.0", "version: 4.0 is newer than 3.0; update sevenhills"),
        ("version", "2.0", "version: 2.0 is too old"),
        ("version", 3.0, "version: "),
        ("version", "3", "version: "),
        ("more", 1, "more: unknown in the header"),
        ("model", 3, "model: "),
        ("model", None, "model: "),
        ("model", {"array": "labels_"}, "model: "),
        ("model", {"code": "print()"}, "model: unknown content"),
    ],
)
def test_forged_fields(parts, path, field, value, match):
    header, arrays = parts
    put_together(path, {**header, field: value}, arrays)
    with pytest.raises(ModelFileError, match=match):
        load(path)


@pytest.mark.parametrize("field", ["magic", "version", "model"])
def test_missing_fields(parts, path, field):
    header, arrays = parts
    del header[field]
    put_together(path, header, arrays)
    with pytest.raises(ModelFileError, match=f"{field}: "):
        load(path)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("{", "header.json: "),
        ("", "header.json: "),
        ("[" * 100_000, "header.json: "),
        ('"ä"', "header.json: "),
        ("1" * 5000, "header.json: "),
        ("[]", "magic: "),
        ("NaN", "magic: "),
        ("{}", "magic: "),
    ],
)
def test_headers_that_are_none(path, text, match):
    path.write_bytes(archive_of([(HEADER, text.encode("latin-1"))]))
    with pytest.raises(ModelFileError, match=match):
        load(path)


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "1e999"])
def test_values_that_are_not_finite(parts, path, constant):
    header, arrays = parts
    header["model"]["fitted"]["min_std_"] = 0.125
    members = dict(members_of(header, arrays))
    members[HEADER] = members[HEADER].replace(b"0.125", constant.encode())
    path.write_bytes(archive_of(members.items()))
    with pytest.raises(ModelFileError, match="min_std_: must be finite"):
        load(path)


# Arrays that are none, and bombs


@pytest.mark.parametrize(
    ("name", "data", "match"),
    [
        ("labels_.npy", b"123", "labels_: "),
        ("labels_.npy", npy(np.array([print] * 9, dtype=object)), "labels_: .*pickle"),
        ("labels_.npy", npy(np.array([1j])), "labels_: arrays of complex128"),
        ("labels_.npy", npy(np.zeros(3, dtype="f8,i4")), "labels_: arrays of"),
        ("labels_.npy", npy(np.arange(12))[:-8], "labels_: .*expected 96 bytes got 88"),
        ("more.npy", npy(np.arange(3)), "more: not part of the model"),
        ("more.npy", b"123", "more: "),
        ("../../evil.npy", npy(np.arange(3)), "evil: not part of the model"),
        ("/etc/passwd", npy(np.arange(3)), "/etc/passwd: not part of the model"),
        ("x" * 500, npy(np.arange(3)), "x: not part of the model"),
    ],
)
def test_forged_arrays(parts, path, monkeypatch, name, data, match):
    monkeypatch.setattr(pickle, "load", None)
    members = dict(members_of(*parts)) | {name: data}
    path.write_bytes(archive_of(members.items()))
    with pytest.raises(ModelFileError, match=match):
        load(path)
    assert os.listdir(path.parent) == [path.name]


def peak_while_refused(path, match, **options):
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError, match=match):
            load(path, **options)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("shape", [(2**40,), (2**62, 2**62), (13,)])
def test_arrays_that_declare_more_than_they_hold(parts, path, shape):
    text = f"{{'descr': '<i8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    data = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + bytes(96)
    path.write_bytes(archive_of((dict(members_of(*parts)) | {"labels_.npy": data}).items()))
    assert peak_while_refused(path, "labels_: .*(does not fit into|expected 104 bytes)") < 1_000_000


@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_bombs(parts, path, compression):
    bomb = ("labels_.npy", npy(np.zeros(10_000_000, dtype=bool)))
    path.write_bytes(archive_of([*members_of(*parts), bomb], compression))
    assert peak_while_refused(path, "file: the members are larger than the file") < 1_000_000
    path.write_bytes(archive_of([(HEADER, b" " * 10_000_000)], compression))
    assert peak_while_refused(path, "file: the members are larger than the file") < 1_000_000


def central_entries(data):
    """Where the directory describes every member."""
    places, place = [], data.find(b"PK\x01\x02")
    while place >= 0:
        places.append(place)
        place = data.find(b"PK\x01\x02", place + 4)
    return places


def test_members_that_share_their_bytes(small, path):
    """A directory in which all members are as long as the file, and are the file."""
    data = bytearray(small)
    for place in central_entries(data):
        data[place + 20 : place + 28] = struct.pack("<II", len(small), len(small))
    path.write_bytes(signed(data))
    assert peak_while_refused(path, "larger than the file") < 1_000_000


def test_encrypted_members(small, path):
    data = bytearray(small)
    data[central_entries(data)[3] + 8] |= 1
    path.write_bytes(signed(data))
    with pytest.raises(ModelFileError, match="encrypted"):
        load(path)


def test_limits_of_size(small, path):
    path.write_bytes(small)
    assert load(path, max_bytes=len(small)) is not None
    assert peak_while_refused(path, "file: larger than", max_bytes=len(small) - 1) < 1_000_000
    with pytest.raises(ValueError, match="max_bytes"):
        load(path, max_bytes=0)
    with pytest.raises(TypeError, match="max_bytes"):
        load(path, max_bytes=1e9)


def test_sparse_files_are_not_read(path):
    with open(path, "wb") as file:
        file.write(b"PK\x03\x04")
        file.truncate(2**33)
    assert peak_while_refused(path, "file: larger than") < 1_000_000


def test_pipes_are_limited_too(small):
    read_end, write_end = os.pipe()
    with open(read_end, "rb") as source, open(write_end, "wb") as sink:
        sink.write(small)
        sink.close()
        with pytest.raises(ModelFileError, match="file: larger than max_bytes = 100"):
            load(source, max_bytes=100)


def test_long_names_are_stored(path):
    pandas = pytest.importorskip("pandas")
    model = GaussianKDE().fit(pandas.DataFrame(FEW, columns=["a", "b" * 100_000]))
    save(model, path)
    assert_identical(load(path), model)
